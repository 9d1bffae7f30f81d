// A JSON value that keeps the order of its members, and its text.
//
// Reading, writing, copying and destroying take no stack for the depth of a value, so that a text
// nested a million times does no harm.
//
// Errors: Error(kInternal) where a value is used as what it is not, and where a text has to be
// JSON or UTF-8 and is not. Whoever reads what others wrote asks first (try_parse(), is_...(),
// find()), or takes JsonFields of core/json_fields.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace flotilla {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json() = default;  // null
  Json(std::nullptr_t) {}
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  template <std::signed_integral T>
  Json(T value) : value_(int64_t{value}) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value) : value_(uint64_t{value}) {}
  template <std::floating_point T>
  Json(T value) : value_(static_cast<double>(value)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(Array elements) : value_(std::move(elements)) {}
  Json(Object members) : value_(std::move(members)) {}
  template <class T>
  Json(const std::vector<T>& values) : value_(Array(values.begin(), values.end())) {}
  template <class Map>
  requires requires { typename Map::mapped_type; }
  Json(const Map& members) : value_(Object(members.begin(), members.end())) {}
  // Pairs of a text and a value are the members of an object; anything else is an array:
  //   {{"name", "cartpole"}, {"window", {0, 1440}}}
  Json(std::initializer_list<Json> values);

  static Json array() { return Json(Array()); }
  static Json object() { return Json(Object()); }

  Json(const Json& other);
  Json(Json&& other) noexcept = default;
  Json& operator=(Json other) noexcept;
  ~Json();

  // The whole of a text. Of members with the same key the last one counts, at the place of the
  // first. An integer that fits neither int64_t nor uint64_t is a double.
  static Json parse(std::string_view text);
  static std::optional<Json> try_parse(std::string_view text);  // nothing: it is not JSON

  // What becomes of bytes that are not UTF-8, such as a path may hold: an error, or U+FFFD.
  enum class StrayBytes : uint8_t { kRefuse, kReplace };
  // Without an indent, on one line. Numbers that are not finite are null.
  std::string dump(int indent = -1, StrayBytes stray = StrayBytes::kReplace) const;

  bool is_null() const { return is<std::monostate>(); }
  bool is_boolean() const { return is<bool>(); }
  bool is_number_unsigned() const { return is<uint64_t>(); }  // in a text: without a sign
  bool is_number_integer() const { return is<int64_t>() || is<uint64_t>(); }
  bool is_number() const { return is_number_integer() || is<double>(); }
  bool is_string() const { return is<std::string>(); }
  bool is_array() const { return is<Array>(); }
  bool is_object() const { return is<Object>(); }

  // A bool, number, std::string, or a vector or map of these. Numbers become one another as by
  // static_cast.
  template <class T>
  T get() const {
    T value;
    get_to(value);
    return value;
  }
  const std::string& text() const;

  // Of an array or an object; others have none.
  size_t size() const;
  bool empty() const { return size() == 0; }

  // The elements of an array; others have none.
  const Json* begin() const { return is_array() ? std::get<Array>(value_).data() : nullptr; }
  const Json* end() const { return is_array() ? begin() + size() : nullptr; }
  Json& operator[](size_t index);
  const Json& operator[](size_t index) const;
  void push_back(Json value);  // null becomes an array

  // The members of an object, in their order.
  const Object& items() const;
  const Json* find(std::string_view key) const;  // nullptr: there is none, or this is no object
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& at(std::string_view key) const;
  const Json& operator[](std::string_view key) const { return at(key); }
  Json& operator[](std::string_view key);  // makes the member; null becomes an object
  void erase(std::string_view key);

 private:
  class Builder;

  using Value =
      std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object>;

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }
  template <class T>
  const T& as(const char* expected) const;
  template <class T>
  T& as(const char* expected);

  void get_to(bool& value) const;
  void get_to(std::string& value) const { value = text(); }
  template <class T>
  requires std::integral<T> || std::floating_point<T>
  void get_to(T& value) const {
    if (const auto* number = std::get_if<int64_t>(&value_)) {
      value = static_cast<T>(*number);
    } else if (const auto* count = std::get_if<uint64_t>(&value_)) {
      value = static_cast<T>(*count);
    } else {
      value = static_cast<T>(real());
    }
  }
  template <class T>
  void get_to(std::vector<T>& values) const {
    for (const Json& element : elements()) values.push_back(element.get<T>());
  }
  template <class Map>
  requires requires { typename Map::mapped_type; }
  void get_to(Map& members) const {
    for (const auto& [key, value] : items()) {
      members.emplace(key, value.template get<typename Map::mapped_type>());
    }
  }
  double real() const;
  const Array& elements() const;

  void move_nested_to(Array& nested);

  Value value_;
};

}  // namespace flotilla
