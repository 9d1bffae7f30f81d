#include "flotilla/core/error.h"

#include <cerrno>
#include <system_error>

namespace flotilla {
namespace {

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
    : std::runtime_error(with_context(message, context)),
      code_(code),
      context_(std::move(context)) {}

void throw_errno(ErrorCode code, const std::string& message) {
  throw Error(code, message + ": " + std::generic_category().message(errno));
}

}  // namespace flotilla
