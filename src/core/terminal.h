// The terminal: how wide it is, whether it has colours, and the live line at its end.
//
// Text for people goes through display() and say(). On a terminal they fold it at words to its
// width and keep it apart from the live line, which replaces itself (core/activity.h). Files and
// pipes get it as it is, without escape codes, as do terminals that have none (TERM=dumb).
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flotilla {

enum class Stream : uint8_t { kOut, kErr };

size_t terminal_width(Stream stream);  // in columns; 0: it is no terminal
bool has_escapes(Stream stream);       // whether lines can be cleared
bool has_colours(Stream stream);       // NO_COLOR is respected: https://no-color.org

enum class Colour : uint8_t { kRed, kGreen, kYellow, kFaint };
// The text as it is where there are no colours.
std::string coloured(Stream stream, Colour colour, std::string_view text);

// Columns that a text takes: escape codes take none.
size_t columns_of(std::string_view text);

// Breaks lines at spaces so that none has more than `width` columns; 0: it stays. What follows a
// break stands at column `hang`, without one two columns deeper than the line. A longer word, a
// path say, has a line of its own and stays whole.
std::string fold(std::string_view text, size_t width, std::optional<size_t> hang = std::nullopt);

// A result, on stdout.
void display(std::string_view text, std::optional<size_t> hang = std::nullopt);
// A message, on stderr, whatever names are in it. A run does not end because nobody reads it.
void say(std::string_view text);
// The same for text that is fit for a terminal, with colours perhaps.
void say_as_is(std::string_view text, std::optional<size_t> hang = std::nullopt);

// The same for programs that read it: as it is, on a terminal too.
void display_data(std::string_view text);
void say_data(std::string_view text);

// The live line. REQUIRES: has_escapes(Stream::kErr), and a line that is shorter than the terminal
// is wide. Allocates: nothing.
void show_live(std::string_view line);
void clear_live();
// For a process whose terminal has the live line of another one: its messages clear it.
void expect_live_line();
// What clears the live line, "" where there is none. For signal handlers.
const char* live_line_end();

}  // namespace flotilla
