#include "flotilla/core/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include "flotilla/core/error.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"

namespace flotilla::log {
namespace {

using Level = spdlog::level::level_enum;

// The escapes of JSON, which serve the text form too. Everything that could break a line or drive
// a terminal is escaped, and bytes that are not UTF-8 become the replacement character.
void append_escaped(std::string& out, std::string_view text, bool inside_quotes) {
  while (!text.empty()) {
    const std::string_view rest = text;
    const std::optional<char32_t> point = next_code_point(text);
    if (!point) {
      out += "\\ufffd";
    } else if (*point == '\n') {
      out += "\\n";
    } else if (*point == '\t') {
      out += "\\t";
    } else if (*point < 0x20 || (*point >= 0x7F && *point < 0xA0) || *point == 0x2028 ||
               *point == 0x2029) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(*point));
    } else {
      if (inside_quotes && (*point == '"' || *point == '\\')) out += '\\';
      out += rest.substr(0, rest.size() - text.size());
    }
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text, true);
  out += '"';
}

bool is_bare(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (c <= ' ' || c > '~' || c == '"' || c == '=' || c == '\\') return false;
  }
  return true;
}

void append_word(std::string& out, std::string_view text) {
  if (is_bare(text)) {
    out += text;
  } else {
    append_quoted(out, text);
  }
}

const char* name_of(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warn";
    default:
      return "error";
  }
}

// What follows a break of a text line on a terminal stands below the message.
constexpr size_t kMessageColumn = sizeof("12:03:04 warn  ") - 1;

// On stderr, apart from the live line.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(bool json) : json_(json) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    const std::string line(formatted.data(), formatted.size());
    if (json_) {
      say_data(line);
    } else {
      say_as_is(line, kMessageColumn);
    }
  }
  void flush_() override {}

 private:
  const bool json_;
};

std::string level_word(Level level) {
  const std::string word = fmt::format("{:<5}", name_of(level));
  if (level == Level::warn) return coloured(Stream::kErr, Colour::kYellow, word);
  return level == Level::err ? coloured(Stream::kErr, Colour::kRed, word) : word;
}

std::string text_line(Level level, std::string_view message, const Fields& fields) {
  std::string line = level_word(level) + ' ';
  append_escaped(line, message, false);
  for (const auto& [name, value] : fields) {
    line += ' ';
    append_word(line, name);
    line += '=';
    append_word(line, value);
  }
  return line;
}

// The object without its brace and time, which the pattern puts in front.
std::string json_line(Level level, std::string_view message, const Fields& fields) {
  std::string line = fmt::format("\"level\":\"{}\",\"message\":", name_of(level));
  append_quoted(line, message);
  for (const auto& [name, value] : fields) {
    line += ',';
    const bool taken = name == "time" || name == "level" || name == "message";
    append_quoted(line, taken ? name + "_" : name);
    line += ':';
    append_quoted(line, value);
  }
  return line + '}';
}

// What the environment's variables ask for; the default, and a complaint, where they cannot.
struct Settings {
  std::vector<std::string> complaints;
  std::string format = read("FLOTILLA_LOG_FORMAT", {"text", "json"}, "text");
  std::string level = read("FLOTILLA_LOG_LEVEL", {"debug", "info", "warn", "error", "off"}, "info");

 private:
  std::string read(const char* variable, const std::vector<std::string>& options,
                   const std::string& otherwise) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') return otherwise;
    for (const std::string& option : options) {
      if (option == value) return option;
    }
    complaints.push_back(fmt::format("{}: expected one of {}, got {}{}", variable,
                                     join(options, ", "), in_quotes(value),
                                     did_you_mean(value, options)));
    return otherwise;
  }
};

class Log {
 public:
  explicit Log(const Settings& settings = {})
      : json_(settings.format == "json"), logger_("flotilla", std::make_shared<Sink>(json_)) {
    const std::string& level = settings.level;
    logger_.set_formatter(
        json_ ? std::make_unique<spdlog::pattern_formatter>(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v)",
                                                            spdlog::pattern_time_type::utc)
              : std::make_unique<spdlog::pattern_formatter>("%H:%M:%S %v"));
    logger_.set_level(level == "debug"   ? Level::debug
                      : level == "info"  ? Level::info
                      : level == "warn"  ? Level::warn
                      : level == "error" ? Level::err
                                         : Level::off);
    for (const std::string& complaint : settings.complaints) write(Level::warn, complaint, {});
  }

  void write(Level level, std::string_view message, const Fields& fields) {
    if (!logger_.should_log(level)) return;
    const std::string line =
        json_ ? json_line(level, message, fields) : text_line(level, message, fields);
    logger_.log(level, spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  const bool json_;
  spdlog::logger logger_;
};

// Never destroyed: threads and static destructors may log until the very end.
Log& instance() {
  static Log& log = *new Log;
  return log;
}

}  // namespace

void check_settings() {
  const Settings settings;
  if (settings.complaints.empty()) return;
  throw Error(ErrorCode::kUsage, join(settings.complaints, "; "));
}

void debug(std::string_view message, const Fields& fields) {
  instance().write(Level::debug, message, fields);
}

void info(std::string_view message, const Fields& fields) {
  instance().write(Level::info, message, fields);
}

void warn(std::string_view message, const Fields& fields) {
  instance().write(Level::warn, message, fields);
}

void error(std::string_view message, const Fields& fields) {
  instance().write(Level::err, message, fields);
}

}  // namespace flotilla::log
