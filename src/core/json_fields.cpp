#include "flotilla/core/json_fields.h"

#include <cmath>

#include "flotilla/core/error.h"
#include "flotilla/core/sha256.h"

namespace flotilla {

JsonFields::JsonFields(const Json& json, std::string where)
    : json_(json), where_(std::move(where)) {
  if (!json.is_object()) refuse("is no object");
}

double JsonFields::number(const char* name) const {
  const Json& field = at(name);
  if (!field.is_number() || !std::isfinite(field.get<double>())) refuse_field(name);
  return field.get<double>();
}

uint64_t JsonFields::count(const char* name) const {
  const Json& field = at(name);
  if (!field.is_number_unsigned()) refuse_field(name);
  return field.get<uint64_t>();
}

bool JsonFields::boolean(const char* name) const {
  const Json& field = at(name);
  if (!field.is_boolean()) refuse_field(name);
  return field.get<bool>();
}

std::string JsonFields::text(const char* name) const {
  const Json& field = at(name);
  if (!field.is_string()) refuse_field(name);
  return field.get<std::string>();
}

const Json& JsonFields::list(const char* name) const {
  const Json& field = at(name);
  if (!field.is_array()) refuse_field(name);
  return field;
}

JsonFields JsonFields::object(const char* name) const { return {at(name), where_ + ", " + name}; }

void JsonFields::refuse(const std::string& why) const {
  throw Error(ErrorCode::kData, where_ + ": " + why);
}

void JsonFields::refuse_field(const char* name) const {
  refuse("'" + std::string(name) + "' is missing or wrong");
}

const Json& JsonFields::at(const char* name) const {
  const Json* field = json_.find(name);
  if (field == nullptr) refuse_field(name);
  return *field;
}

Json parse_json(const std::string& text, const std::string& path) {
  std::optional<Json> json = Json::try_parse(text);
  if (!json) throw Error(ErrorCode::kData, path + ": is not JSON");
  return std::move(*json);
}

std::string json_checksum(Json object) {
  object.erase("sha256");
  return sha256_hex(object.dump(-1, Json::StrayBytes::kReplace));
}

}  // namespace flotilla
