#include <cstdio>

#include "flotilla/env/conformance.h"
#include "flotilla/env/worker.h"
#include "hike.h"

int main(int argc, char** argv) {
  flotilla::Registry registry;
  registry.add(flotilla::env_type<Hike>("hike", "walk to the end of a slippery path"));
  if (const auto status = flotilla::run_if_worker(argc, argv, registry)) return *status;

  const flotilla::EnvType& type = registry.find("hike");
  bool all = true;
  for (const auto& check : flotilla::check_env(type, flotilla::Config(type.schema), {})) {
    std::printf("%s %s: %s\n", check.passed ? "ok  " : "FAIL", check.name.c_str(),
                check.detail.c_str());
    all &= check.passed;
  }
  return all ? 0 : 1;
}
