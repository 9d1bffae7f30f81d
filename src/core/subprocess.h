// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace flotilla {

struct Ended {
  std::string output;  // what it printed on stdout
  int status = 0;      // -1: ended by a signal
  int signal = 0;      // which
  bool timed_out = false;
};

// `command` is a program, looked for as a shell does, and its arguments. No shell is between: they
// arrive as they are. Its stderr is ours. Throws Error(kUsage) when it cannot be started.
// After `seconds`, where that is positive, it is killed; what it printed until then is there.
// `environment`: "NAME=value" besides what is in our own.
// Thread safety: any number at once.
Ended run_to_end(const std::vector<std::string>& command, double seconds = 0,
                 const std::vector<std::string>& environment = {});

}  // namespace flotilla
