#include "flotilla/core/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "flotilla/core/error.h"
#include "flotilla/core/json_events.h"

namespace flotilla {
namespace {

using Parser = nlohmann::json;  // also the writer of numbers and texts

[[noreturn]] void misused(const std::string& expected) {
  throw Error(ErrorCode::kInternal, "a JSON value is not " + expected);
}

class Forwarder final : public nlohmann::json_sax<Parser> {
 public:
  explicit Forwarder(JsonEvents& to) : to_(to) {}

  bool null() override { return to_.null(); }
  bool boolean(bool value) override { return to_.boolean(value); }
  bool number_integer(int64_t value) override { return to_.number_integer(value); }
  bool number_unsigned(uint64_t value) override { return to_.number_unsigned(value); }
  bool number_float(double value, const std::string&) override { return to_.number_float(value); }
  bool string(std::string& value) override { return to_.string(value); }
  bool binary(Parser::binary_t&) override { return false; }  // there is none in a text
  bool start_object(size_t) override { return to_.start_object(); }
  bool key(std::string& value) override { return to_.key(value); }
  bool end_object() override { return to_.end_object(); }
  bool start_array(size_t) override { return to_.start_array(); }
  bool end_array() override { return to_.end_array(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    to_.error(position, error.what());
    return false;
  }

 private:
  JsonEvents& to_;
};

// Of members with the same key, keeps the last value at the place of the first. By sorting: to look
// for each key among those before it would take hours where somebody wrote a million.
void unite_same_keys(Json::Object& members) {
  std::vector<size_t> sorted(members.size());
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  std::ranges::stable_sort(sorted, {},
                           [&](size_t i) { return std::string_view(members[i].first); });
  std::vector<bool> repeated(members.size());
  size_t first = 0;  // of those with the key
  for (const size_t i : sorted) {
    repeated[i] = i != sorted[0] && members[i].first == members[first].first;
    if (repeated[i]) {
      members[first].second = std::move(members[i].second);
    } else {
      first = i;
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    if (repeated[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    ++kept;
  }
  members.resize(kept);
}

Parser::error_handler_t handler_of(Json::StrayBytes stray) {
  return stray == Json::StrayBytes::kRefuse ? Parser::error_handler_t::strict
                                            : Parser::error_handler_t::replace;
}

std::string quoted(const std::string& text, Json::StrayBytes stray) {
  try {
    return Parser(text).dump(-1, ' ', false, handler_of(stray));
  } catch (const Parser::exception& error) {
    throw Error(ErrorCode::kInternal, error.what());
  }
}

// REQUIRES: the value has nothing in it.
std::string dump_leaf(const Json& leaf, Json::StrayBytes stray) {
  if (leaf.is_null()) return "null";
  if (leaf.is_array()) return "[]";
  if (leaf.is_object()) return "{}";
  if (leaf.is_string()) return quoted(leaf.text(), stray);
  if (leaf.is_boolean()) return leaf.get<bool>() ? "true" : "false";
  if (leaf.is_number_unsigned()) return std::to_string(leaf.get<uint64_t>());
  if (leaf.is_number_integer()) return std::to_string(leaf.get<int64_t>());
  return Parser(leaf.get<double>()).dump();
}

}  // namespace

bool read_json(std::string_view text, JsonEvents& events) {
  Forwarder forwarder(events);
  return Parser::sax_parse(text.begin(), text.end(), &forwarder);
}

bool is_json(std::string_view text) { return Parser::accept(text.begin(), text.end()); }

class Json::Builder final : public JsonEvents {
 public:
  Json root;
  std::string problem;

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(int64_t value) override { return place(value); }
  bool number_unsigned(uint64_t value) override { return place(value); }
  bool number_float(double value) override { return place(value); }
  bool string(std::string& value) override { return place(std::move(value)); }
  bool start_object() override { return open(object()); }
  bool key(std::string& value) override {
    std::get<Object>(open_.back()->value_).emplace_back(std::move(value), Json());
    return true;
  }
  bool end_object() override {
    unite_same_keys(std::get<Object>(open_.back()->value_));
    open_.pop_back();
    return true;
  }
  bool start_array() override { return open(array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  void error(size_t, const std::string& message) override { problem = message; }

 private:
  // Where the next value comes.
  Json& next() {
    if (open_.empty()) return root;
    if (auto* members = std::get_if<Object>(&open_.back()->value_)) return members->back().second;
    return std::get<Array>(open_.back()->value_).emplace_back();
  }
  bool place(Json value) {
    next() = std::move(value);
    return true;
  }
  bool open(Json value) {
    Json& here = next();
    here = std::move(value);
    open_.push_back(&here);  // stays there: only the innermost one grows
    return true;
  }

  std::vector<Json*> open_;
};

template <class T>
const T& Json::as(const char* expected) const {
  const T* value = std::get_if<T>(&value_);
  if (value == nullptr) misused(expected);
  return *value;
}

template <class T>
T& Json::as(const char* expected) {
  return const_cast<T&>(std::as_const(*this).as<T>(expected));
}

Json::Json(std::initializer_list<Json> values) {
  const bool pairs = std::ranges::all_of(values, [](const Json& value) {
    return value.is_array() && value.size() == 2 && value[0].is_string();
  });
  if (!pairs) {
    value_ = Array(values);
    return;
  }
  *this = object();
  for (const Json& pair : values) {
    if (!contains(pair[0].text())) (*this)[pair[0].text()] = pair[1];
  }
}

Json::Json(const Json& other) {
  std::vector<std::pair<const Json*, Json*>> pending = {{&other, this}};
  while (!pending.empty()) {
    const auto [from, to] = pending.back();
    pending.pop_back();
    if (from->is_array()) {
      Array& elements = to->value_.emplace<Array>(from->size());
      for (size_t i = 0; i < elements.size(); ++i) pending.emplace_back(&(*from)[i], &elements[i]);
    } else if (from->is_object()) {
      Object& members = to->value_.emplace<Object>(from->size());
      for (size_t i = 0; i < members.size(); ++i) {
        members[i].first = from->items()[i].first;
        pending.emplace_back(&from->items()[i].second, &members[i].second);
      }
    } else {
      to->value_ = from->value_;
    }
  }
}

Json& Json::operator=(Json other) noexcept {
  value_ = std::move(other.value_);
  return *this;
}

// What is nested is taken out first, level by level.
Json::~Json() {
  Array nested;
  move_nested_to(nested);
  while (!nested.empty()) {
    Json last = std::move(nested.back());
    nested.pop_back();
    last.move_nested_to(nested);
  }
}

void Json::move_nested_to(Array& nested) {
  const auto take = [&nested](Json& value) {
    if (!value.empty()) nested.push_back(std::move(value));
  };
  if (auto* elements = std::get_if<Array>(&value_)) {
    for (Json& element : *elements) take(element);
  } else if (auto* members = std::get_if<Object>(&value_)) {
    for (auto& [key, value] : *members) take(value);
  }
}

Json Json::parse(std::string_view text) {
  Builder builder;
  if (!read_json(text, builder)) throw Error(ErrorCode::kInternal, builder.problem);
  return std::move(builder.root);
}

std::optional<Json> Json::try_parse(std::string_view text) {
  Builder builder;
  if (!read_json(text, builder)) return std::nullopt;
  return std::move(builder.root);
}

std::string Json::dump(int indent, StrayBytes stray) const {
  struct Open {
    const Json* value;
    size_t next;  // element or member
  };
  std::string text;
  std::vector<Open> open;
  const auto new_line = [&] {
    if (indent < 0) return;
    text += '\n';
    text.append(open.size() * static_cast<size_t>(indent), ' ');
  };
  for (const Json* value = this;;) {
    if (value->empty()) {
      text += dump_leaf(*value, stray);
    } else {
      text += value->is_array() ? '[' : '{';
      open.push_back({value, 0});
    }
    while (!open.empty() && open.back().next == open.back().value->size()) {
      const bool array = open.back().value->is_array();
      open.pop_back();
      new_line();
      text += array ? ']' : '}';
    }
    if (open.empty()) return text;
    auto& [parent, next] = open.back();
    if (next > 0) text += ',';
    new_line();
    if (parent->is_array()) {
      value = &(*parent)[next++];
    } else {
      const auto& [key, member] = parent->items()[next++];
      text += quoted(key, stray) + (indent < 0 ? ":" : ": ");
      value = &member;
    }
  }
}

const std::string& Json::text() const { return as<std::string>("a text"); }

size_t Json::size() const {
  if (const auto* elements = std::get_if<Array>(&value_)) return elements->size();
  if (const auto* members = std::get_if<Object>(&value_)) return members->size();
  return 0;
}

const Json& Json::operator[](size_t index) const {
  const Array& all = elements();
  if (index >= all.size()) misused("that long");
  return all[index];
}

Json& Json::operator[](size_t index) { return const_cast<Json&>(std::as_const(*this)[index]); }

void Json::push_back(Json value) {
  if (is_null()) *this = array();
  as<Array>("an array").push_back(std::move(value));
}

const Json::Object& Json::items() const { return as<Object>("an object"); }

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  const auto found = std::ranges::find(*members, key, &Object::value_type::first);
  return found == members->end() ? nullptr : &found->second;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) misused("an object with '" + std::string(key) + "'");
  return *found;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  auto& members = as<Object>("an object");
  const auto found = std::ranges::find(members, key, &Object::value_type::first);
  return found == members.end() ? members.emplace_back(key, Json()).second : found->second;
}

void Json::erase(std::string_view key) {
  std::erase_if(as<Object>("an object"), [&](const auto& member) { return member.first == key; });
}

void Json::get_to(bool& value) const { value = as<bool>("a boolean"); }

double Json::real() const { return as<double>("a number"); }

const Json::Array& Json::elements() const { return as<Array>("an array"); }

}  // namespace flotilla
