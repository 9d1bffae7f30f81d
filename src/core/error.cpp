#include "flotilla/core/error.h"

#include <cerrno>

#include "flotilla/core/refusal.h"

namespace flotilla {
namespace {

// what() is a C string: a NUL, in a name for one, would hide all that follows.
std::string without_nul(std::string text) {
  for (size_t at = text.find('\0'); at != text.npos; at = text.find('\0', at)) {
    text.replace(at, 1, "\\x00");
  }
  return text;
}

std::string with_context(const std::string& message, const Error::Context& context) {
  if (context.empty()) return message;
  std::string text = message + " (";
  for (size_t i = 0; i < context.size(); ++i) {
    if (i > 0) text += ", ";
    text += context[i].first + "=" + context[i].second;
  }
  return text + ")";
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message, Context context)
    : std::runtime_error(without_nul(with_context(message, context))),
      code_(code),
      context_(std::move(context)) {}

void throw_errno(ErrorCode code, const std::string& message) {
  throw Error(code, message + ": " + reason_of(errno));
}

}  // namespace flotilla
