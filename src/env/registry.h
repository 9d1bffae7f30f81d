// The environments a program knows, by name. Filled by one explicit list (domains/domains.cpp),
// and by a user's own program.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/env/kernel.h"

namespace flotilla {

struct EnvType {
  std::string name;
  std::string summary;  // one line for `flotilla list`
  Schema schema;
  // `time_limit` replaces the env's own when positive.
  std::function<std::unique_ptr<EnvKernel>(const Config&, int time_limit)> make_kernel;
  bool batched = false;  // see BatchedEnv
};

template <Env E>
EnvType env_type(const std::string& name, const std::string& summary) {
  return {.name = name,
          .summary = summary,
          .schema = E::schema(),
          .make_kernel =
              [name](const Config& config, int time_limit) {
                return std::make_unique<KernelOf<E>>(name, config, time_limit);
              },
          .batched = BatchedEnv<E>};
}

class Registry {
 public:
  void add(EnvType type);  // throws Error(kInternal) when the name is taken
  const EnvType& find(const std::string& name) const;  // throws Error(kUsage) "did you mean"
  const std::deque<EnvType>& types() const { return types_; }

 private:
  std::deque<EnvType> types_;  // references to one outlive the next add()
};

}  // namespace flotilla
