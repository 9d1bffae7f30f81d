// The readers of bytes that may come from anywhere, each behind one face for the fuzzers.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/core/error.h"

namespace flotilla::fuzz {

class InputReader {
 public:
  virtual ~InputReader() = default;

  // The only code with which an input may be refused.
  virtual ErrorCode refusal() const = 0;
  // Reads the input. What it accepts is used as its users would, and std::logic_error is thrown
  // where that does not give what was read.
  virtual void read(const std::string& input) = 0;
  // Good inputs, as the code of today writes them; those in the corpus may be of an older one.
  virtual std::vector<std::string> examples() = 0;
  // Words of the format that inputs are mutated with.
  virtual std::vector<std::string> tokens() const = 0;
};

// Throws std::logic_error.
void require(bool condition, const char* what);
// Requires one line of UTF-8, and not a long one.
void check_message(std::string_view message);

std::vector<std::string> reader_names();
std::unique_ptr<InputReader> make_reader(std::string_view name);  // null: there is none

// One input. Returns the message with which it was refused, "" when it was accepted. Throws
// std::logic_error when it was refused in any other way than with one line and the right code.
std::string read_one(InputReader& reader, const std::string& input);

}  // namespace flotilla::fuzz
