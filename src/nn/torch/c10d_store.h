// The stores of c10d, in which processes find each other, and small helpers around them.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "flotilla/core/error.h"

namespace flotilla::torch_nn {

using std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Not by fmt: newer libtorch brings headers of another version of it.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream all;
  (all << ... << parts);
  return all.str();
}

inline milliseconds in_ms(double seconds) {
  return milliseconds(static_cast<int64_t>(seconds * 1e3));
}

inline std::string first_line(const std::exception& exception) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&exception);
  const std::string lines =
      of_torch != nullptr ? of_torch->what_without_backtrace() : std::string(exception.what());
  return lines.substr(0, lines.find('\n'));
}

inline std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
inline std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// The address of this host that packets to `host` leave from. `key`: who gave it, for messages.
inline std::string own_address_towards(const std::string& host, const std::string& key) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_DGRAM;
  if (const int problem = ::getaddrinfo(host.c_str(), "9", &wanted, &found); problem != 0) {
    throw Error(ErrorCode::kUsage,
                text(key, ": '", host, "' is no address: ", gai_strerror(problem)));
  }
  std::string address;
  for (const addrinfo* each = found; each != nullptr && address.empty(); each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[INET6_ADDRSTRLEN + 16] = {};
    // Of a datagram socket, connecting sends nothing: it only asks the routing table.
    if (fd >= 0 && ::connect(fd, each->ai_addr, each->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      address = text;
    }
    if (fd >= 0) ::close(fd);
  }
  ::freeaddrinfo(found);
  if (address.empty()) {
    throw Error(ErrorCode::kUsage, key + ": no way leads from this host to " + host);
  }
  return address;
}

// Throws Error(kUsage) where none of the host's addresses is one of this host.
inline void require_own_address(const std::string& host, const std::string& key) {
  own_address_towards(host, key);  // which says what is no address at all
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_DGRAM;
  bool own = ::getaddrinfo(host.c_str(), "0", &wanted, &found) != 0;
  for (const addrinfo* each = found; each != nullptr && !own; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    own = fd >= 0 && ::bind(fd, each->ai_addr, each->ai_addrlen) == 0;
    if (fd >= 0) ::close(fd);
  }
  if (found != nullptr) ::freeaddrinfo(found);
  if (!own) throw Error(ErrorCode::kUsage, text(key, ": ", host, " is no address of this host"));
}

enum class Port { kClosed, kSilent, kSpeaks };

// What a connection that has been begun comes to. A store is silent until it is asked, and c10d
// takes what others say for lengths of what is to come, in a thread where nobody catches anything.
inline Port port_behind(int fd, int connect_ms, int greet_ms) {
  pollfd state{.fd = fd, .events = POLLOUT, .revents = 0};
  int problem = 0;
  socklen_t size = sizeof problem;
  if (::poll(&state, 1, connect_ms) != 1) return Port::kClosed;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size) != 0 || problem != 0) {
    return Port::kClosed;
  }
  state.events = POLLIN;
  return ::poll(&state, 1, greet_ms) == 1 ? Port::kSpeaks : Port::kSilent;
}

// What kind of program lets others connect to the port. One that closes at once speaks, too.
inline Port port_at(const std::string& host, int port, int connect_ms = 1000, int greet_ms = 200) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) {
    return Port::kClosed;
  }
  Port kind = Port::kClosed;
  for (const addrinfo* each = found; each != nullptr && kind == Port::kClosed;
       each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    // It goes on while one waits for it: a host that is off would let a call of its own wait long.
    ::connect(fd, each->ai_addr, each->ai_addrlen);
    kind = port_behind(fd, connect_ms, greet_ms);
    ::close(fd);
  }
  ::freeaddrinfo(found);
  return kind;
}

inline Error port_is_taken(const std::string& key, const std::string& host, int port) {
  return {ErrorCode::kUsage,
          text(key, ": ", port, " of ", host, " cannot be opened: another program has it")};
}

// On the host that has it, or reached from another one. `key`: who gave the port, for messages.
inline StorePtr tcp_store(const std::string& host, int port, bool is_server, double timeout_s,
                          const std::string& key) {
  c10d::TCPStoreOptions tcp;
  tcp.port = static_cast<uint16_t>(port);
  tcp.isServer = is_server;
  tcp.waitWorkers = false;
  tcp.timeout = in_ms(std::max(1., timeout_s));  // less than a second would be none
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, tcp);
    // It waits for nothing, but from then on c10d waits no longer than this for any answer.
    store->wait({}, in_ms(timeout_s));
    return store;
  } catch (const std::exception& error) {
    const std::string why = first_line(error);
    if (why.find("already in use") != std::string::npos) throw port_is_taken(key, host, port);
    throw Error(ErrorCode::kUsage, text(key, ": ", port, " of ", host, " cannot be ",
                                        is_server ? "opened" : "reached", ": ", why));
  }
}

// Once more to a store that is there, or was. Neither of the two steps takes longer than the limit.
inline StorePtr tcp_store_again(const std::string& host, int port, double limit_s,
                                const std::string& key) {
  if (port_at(host, port, static_cast<int>(limit_s * 1e3), 0) == Port::kClosed) {
    throw Error(ErrorCode::kEnvironment, text(key, ": nobody is at ", port, " of ", host));
  }
  return tcp_store(host, port, false, limit_s, key);
}

}  // namespace flotilla::torch_nn
