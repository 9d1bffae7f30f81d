// Structured log: a message and named fields, one line each, on stderr.
//
//   log::warn("worker replaced", {{"worker", "2"}, {"cause", "killed by SIGKILL"}});
//
// Text lines read "12:03:04 warn  worker replaced worker=2 cause="killed by SIGKILL"".
// FLOTILLA_LOG_LEVEL=debug|info|warn|error|off sets the threshold (default info) and
// FLOTILLA_LOG_FORMAT=text|json the form.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flotilla::log {

using Fields = std::vector<std::pair<std::string, std::string>>;

void debug(std::string_view message, const Fields& fields = {});
void info(std::string_view message, const Fields& fields = {});
void warn(std::string_view message, const Fields& fields = {});
void error(std::string_view message, const Fields& fields = {});

// Throws Error(kUsage) where one of the two variables has a value that it cannot have. A program
// asks before it begins; where none does, the log takes the default and warns.
void check_settings();

}  // namespace flotilla::log
