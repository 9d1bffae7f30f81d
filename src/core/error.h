// Errors of the library. Library code throws Error and never calls exit(); a program ends with
// exit_status().
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace flotilla {

// The value of each code is the exit status of a program that ends with it.
enum class ErrorCode {
  kCheckFailed = 1,   // a check ran and found something
  kUsage = 2,         // command line, config key or value, misuse of an interface
  kEnvironment = 3,   // an environment failed
  kData = 4,          // a checkpoint or data file is missing, damaged or foreign
  kNumeric = 5,       // NaN or infinity where a number was expected
  kInternal = 70,     // the operating system refused, or a bug of ours
  kInterrupted = 130  // stopped by a signal
};

class Error : public std::runtime_error {
 public:
  // Facts that belong to the message, shown behind it as "message (key=value, key=value)".
  using Context = std::vector<std::pair<std::string, std::string>>;

  Error(ErrorCode code, const std::string& message, Context context = {});

  ErrorCode code() const { return code_; }
  const Context& context() const { return context_; }

 private:
  ErrorCode code_;
  Context context_;
};

inline int exit_status(ErrorCode code) { return static_cast<int>(code); }
inline int exit_status(const Error& error) { return exit_status(error.code()); }

// "message: No such file or directory", for a failed system call; reads errno.
[[noreturn]] void throw_errno(ErrorCode code, const std::string& message);

}  // namespace flotilla
