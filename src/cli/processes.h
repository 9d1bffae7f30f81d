// The processes that train one run: this one by itself, or those that a launcher started with it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "flotilla/nn/c10d.h"

namespace flotilla {

class Processes {
 public:
  // Meets the others, if there are any.
  explicit Processes(const MeetingOptions& options);

  Collective& all() const { return others_ != nullptr ? *others_ : alone(); }
  // How many are on this host, as far as is known.
  int on_this_host() const;
  // Throws Error(kUsage) that names the first rank whose text is another than that of rank 0.
  void require_same(const std::string& what, const std::string& text) const;
  // Does it, and tells the others if it fails, or that nothing follows.
  void run(const std::function<void()>& work) const;

 private:
  std::optional<Launch> launch_;
  std::unique_ptr<Collective> others_;
};

}  // namespace flotilla
