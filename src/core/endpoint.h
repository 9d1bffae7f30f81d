// "HOST:PORT": where a process listens for others.
#pragma once

#include <string>

namespace flotilla {

struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 0;

  bool on_loopback() const;
  std::string text() const;  // "10.0.0.7:5555", "[fe80::1]:5555"
};

// Of "HOST:PORT", or of "PORT" alone, which is on loopback. Throws Error(kUsage); `what`: the key
// or argument, for its message.
Endpoint endpoint_from(const std::string& text, const std::string& what);

bool is_loopback(const std::string& host);

}  // namespace flotilla
