// A program with environments of its own: the ones that README.md and docs/ show.
#include <cstdio>
#include <string>

#include "climb.h"
#include "echo.h"
#include "flotilla/env/conformance.h"
#include "flotilla/env/worker.h"
#include "hike.h"
#include "table.h"

int main(int argc, char** argv) {
  flotilla::Registry registry;
  registry.add(flotilla::env_type<Echo>("echo", "repeat the bit that is shown"));
  registry.add(flotilla::env_type<Hike>("hike", "walk to the end of a slippery path"));
  registry.add(flotilla::env_type<Climb>("climb", "the rows of docs/autoreset.md"));
  if (const auto status = flotilla::run_if_worker(argc, argv, registry)) return *status;

  if (argc == 2 && std::string(argv[1]) == "--table") {
    print_autoreset_table(registry.find("climb"));
    return 0;
  }
  bool all_passed = true;
  for (const char* name : {"echo", "hike"}) {
    const flotilla::EnvType& type = registry.find(name);
    for (const auto& check : flotilla::check_env(type, flotilla::Config(type.schema), {})) {
      std::printf("%-4s %s: %s: %s\n", check.passed ? "ok" : "FAIL", name, check.name.c_str(),
                  check.detail.c_str());
      all_passed &= check.passed;
    }
  }
  return all_passed ? 0 : 1;
}
