// An open file of the operating system, closed at the end of its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace flotilla {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  bool close() { return ::close(release()) == 0; }  // false, and errno: what was written is lost

 private:
  int fd_;
};

}  // namespace flotilla
