// Fields of a JSON object that somebody else may have written: each is taken as what it should be,
// or refused by name.
#pragma once

#include <cstdint>
#include <string>

#include "flotilla/core/json.h"

namespace flotilla {

class JsonFields {
 public:
  // `where` begins every message: the file, and the place in it. Throws Error(kData) unless it is
  // an object, which must outlive this.
  JsonFields(const Json& json, std::string where);

  // Throw Error(kData) for a field that is missing or something else.
  double number(const char* name) const;  // finite
  uint64_t count(const char* name) const;
  bool boolean(const char* name) const;
  std::string text(const char* name) const;
  const Json& list(const char* name) const;
  JsonFields object(const char* name) const;

  [[noreturn]] void refuse(const std::string& why) const;
  [[noreturn]] void refuse_field(const char* name) const;

 private:
  const Json& at(const char* name) const;

  const Json& json_;
  const std::string where_;
};

// The text of a file as JSON. Throws Error(kData) that names the file.
Json parse_json(const std::string& text, const std::string& path);

// SHA-256 of an object without its field "sha256", where files keep it.
std::string json_checksum(Json object);

}  // namespace flotilla
