// A JSON text as the events of its parser, for readers that refuse what they do not expect where
// it stands, and build no tree of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flotilla {

// Each function returns whether to go on. Texts may be moved from.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool number_integer(int64_t value) = 0;  // below 0
  virtual bool number_unsigned(uint64_t value) = 0;
  virtual bool number_float(double value) = 0;  // also an integer too large for the others
  virtual bool string(std::string& value) = 0;
  virtual bool start_object() = 0;
  virtual bool key(std::string& value) = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  // The text is not JSON: at which byte, counted from 1, and what a person is told.
  virtual void error(size_t position, const std::string& message) = 0;
};

// Returns whether the whole text was read: it is JSON, and no event stopped it.
bool read_json(std::string_view text, JsonEvents& events);

// Whether a text is JSON, at the cost of one bit for every level of it.
bool is_json(std::string_view text);

}  // namespace flotilla
