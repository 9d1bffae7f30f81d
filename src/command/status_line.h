// What a long command is at, on stderr: a line that replaces itself on a terminal; in a pipe, a
// plain line now and then.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include "flotilla/core/clock.h"
#include "flotilla/core/text.h"

namespace flotilla {

// A run does not end because nobody reads its messages any more.
inline void say(const std::string& text) {
  std::fputs(for_terminal(text, Lines::kMany).c_str(), stderr);
  std::fflush(stderr);
}

class StatusLine {
 public:
  // `text` is asked for only when it is time for it.
  template <class Text>
  void show(const Text& text) {
    const uint64_t interval_ns = terminal_ ? 200'000'000 : 5'000'000'000;
    if (now_ns() - shown_ns_ < interval_ns) return;
    shown_ns_ = now_ns();
    clear();
    say(terminal_ ? text() : text() + "\n");
  }
  void clear() const {
    if (terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  uint64_t shown_ns_ = now_ns();
};

}  // namespace flotilla
