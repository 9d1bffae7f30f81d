#include "flotilla/core/terminal.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr size_t kUsualWidth = 80;
constexpr size_t kLeastWidth = 20;  // what is narrower cannot be read
constexpr const char* kClear = "\r\033[K";

std::atomic<bool> g_live{false};        // the terminal's last line is the live one
std::atomic<bool> g_of_another{false};  // and stays so, for all we know

// Held by who writes. A process that is forked meanwhile must not wait for it for ever.
std::mutex& writing() {
  static std::mutex& mutex = *[] {
    auto* made = new std::mutex;
    pthread_atfork([] { writing().lock(); }, [] { writing().unlock(); },
                   [] { writing().unlock(); });
    return made;
  }();
  return mutex;
}

int descriptor_of(Stream stream) { return stream == Stream::kOut ? STDOUT_FILENO : STDERR_FILENO; }

bool is_terminal(Stream stream) { return ::isatty(descriptor_of(stream)) == 1; }

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const char* code_of(Colour colour) {
  switch (colour) {
    case Colour::kRed:
      return "\033[31m";
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
    default:
      return "\033[2m";
  }
}

void write_live(const char* text, size_t size) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, size);
}

// REQUIRES: writing() is held.
void end_live_line() {
  write_live(live_line_end(), std::strlen(live_line_end()));
  g_live = false;
}

void write_text(Stream stream, const std::string& text) {
  std::FILE* file = stream == Stream::kOut ? stdout : stderr;
  const std::lock_guard lock(writing());
  if (is_terminal(stream)) end_live_line();
  std::fwrite(text.data(), 1, text.size(), file);
  if (is_terminal(stream) || stream == Stream::kErr) std::fflush(file);
}

// Takes one character, or one escape code, off the text, and says how many columns it takes.
size_t take_character(std::string_view& text) {
  if (text.starts_with("\033[")) {
    const size_t end = text.find('m');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return 0;
  }
  next_code_point(text);
  return 1;
}

// Where to end a line of at most `width` columns: behind its last whole word. REQUIRES: it is
// longer; nothing is found within the first `kept` bytes.
size_t break_of(std::string_view line, size_t width, size_t kept) {
  size_t column = 0, found = std::string_view::npos;
  std::string_view rest = line;
  while (!rest.empty()) {
    const size_t at = line.size() - rest.size();
    if (rest[0] == ' ' && at >= kept) {
      if (column <= width || found == std::string_view::npos) found = at;
      if (column > width) return found;
    }
    column += take_character(rest);
    if (column > width && found != std::string_view::npos) return found;
  }
  return found == std::string_view::npos ? line.size() : found;
}

void append_folded(std::string& out, std::string_view line, size_t width, size_t hang) {
  size_t kept = std::min(line.find_first_not_of(' '), line.size());
  std::string begun;  // of the line that is being made
  while (begun.size() + columns_of(line) > width) {
    const size_t end = break_of(line, width - std::min(width, begun.size()), kept);
    std::string_view part = line.substr(0, end);
    part = part.substr(0, part.find_last_not_of(' ') + 1);
    out += begun;
    out += part;
    line.remove_prefix(end);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) return;
    out += '\n';
    begun = std::string(hang, ' ');
    kept = 0;
  }
  out += begun;
  out += line;
}

}  // namespace

size_t terminal_width(Stream stream) {
  if (!is_terminal(stream)) return 0;
  winsize size{};
  const bool known = ::ioctl(descriptor_of(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::max<size_t>(size.ws_col, kLeastWidth) : kUsualWidth;
}

bool has_escapes(Stream stream) {
  const std::string_view kind = variable("TERM");
  return is_terminal(stream) && !kind.empty() && kind != "dumb";
}

bool has_colours(Stream stream) { return has_escapes(stream) && *variable("NO_COLOR") == '\0'; }

std::string coloured(Stream stream, Colour colour, std::string_view text) {
  if (!has_colours(stream)) return std::string(text);
  return code_of(colour) + std::string(text) + "\033[0m";
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) columns += take_character(text);
  return columns;
}

std::string fold(std::string_view text, size_t width, std::optional<size_t> hang) {
  if (width == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    append_folded(out, line, width, std::min(hang.value_or(indent + 2), width / 2));
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

void display(std::string_view text, std::optional<size_t> hang) {
  write_text(Stream::kOut, fold(text, terminal_width(Stream::kOut), hang));
}

void say(std::string_view text) { say_as_is(for_terminal(text, Lines::kMany)); }

void say_as_is(std::string_view text, std::optional<size_t> hang) {
  write_text(Stream::kErr, fold(text, terminal_width(Stream::kErr), hang));
}

void display_data(std::string_view text) { write_text(Stream::kOut, std::string(text)); }

void say_data(std::string_view text) { write_text(Stream::kErr, std::string(text)); }

void show_live(std::string_view line) {
  const std::lock_guard lock(writing());
  g_live = true;  // before it is there: a signal may come in between
  write_live(kClear, std::strlen(kClear));
  write_live(line.data(), line.size());
}

void clear_live() {
  const std::lock_guard lock(writing());
  end_live_line();
}

void expect_live_line() { g_of_another = has_escapes(Stream::kErr); }

const char* live_line_end() { return g_live || g_of_another ? kClear : ""; }

}  // namespace flotilla
