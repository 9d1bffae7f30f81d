#include "flotilla/core/endpoint.h"

#include <fmt/format.h>

#include <charconv>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool Endpoint::on_loopback() const { return is_loopback(host); }

std::string Endpoint::text() const {
  const bool colons = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", colons ? "[" : "", host, colons ? "]" : "", port);
}

Endpoint endpoint_from(const std::string& text, const std::string& what) {
  Endpoint endpoint;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (colon != std::string::npos) {
    endpoint.host = text.substr(0, colon);
    const bool brackets = endpoint.host.starts_with('[') && endpoint.host.ends_with(']');
    if (brackets) endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  const auto [end, problem] =
      std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  const bool is_port = problem == std::errc() && end == port.data() + port.size() &&
                       endpoint.port >= 1 && endpoint.port <= 65535;
  if (is_port && !endpoint.host.empty()) return endpoint;
  throw Error(ErrorCode::kUsage,
              fmt::format("{}: expected HOST:PORT with a port from 1 to 65535, not {}", what,
                          in_quotes(text)));
}

}  // namespace flotilla
