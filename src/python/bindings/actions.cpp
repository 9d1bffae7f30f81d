#include "bindings/actions.h"

#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "flotilla/core/error.h"

namespace flotilla::python {
namespace {

namespace py = pybind11;

// Whether these are numbers of that type, as they lie in this machine's memory.
template <class T>
bool holds(const py::array& numbers) {
  const py::dtype type = numbers.dtype();
  return type.kind() == (std::is_integral_v<T> ? 'i' : 'f') &&
         type.itemsize() == static_cast<py::ssize_t>(sizeof(T)) && type.byteorder() == '=';
}

template <class From, class To>
bool copy_numbers(const py::array& from, To* to, size_t count) {
  if (!holds<From>(from)) return false;
  const auto* numbers = static_cast<const From*>(from.data());
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<To>(numbers[i]);
  return true;
}

bool copy_choices(const py::array& from, int32_t* to, size_t count) {
  if (!holds<int64_t>(from)) return copy_numbers<int32_t>(from, to, count);
  const auto* numbers = static_cast<const int64_t*>(from.data());
  int64_t wide = 0;
  for (size_t i = 0; i < count; ++i) {
    to[i] = static_cast<int32_t>(numbers[i]);
    wide |= numbers[i] ^ to[i];
  }
  if (wide == 0) return true;
  for (size_t i = 0; i < count; ++i) {
    if (numbers[i] == to[i]) continue;
    throw Error(ErrorCode::kUsage, fmt::format("actions: {} is no choice", numbers[i]));
  }
  return true;
}

[[noreturn]] void refuse_shape(const py::array& given, int rows, size_t dims, bool flat) {
  throw Error(ErrorCode::kUsage,
              fmt::format("actions: expected shape {}, got {}",
                          flat ? fmt::format("({},)", rows) : fmt::format("({}, {})", rows, dims),
                          py::str(given.attr("shape")).cast<std::string>()));
}

[[noreturn]] void refuse_type(const py::array& given, const char* expected) {
  throw Error(ErrorCode::kUsage, fmt::format("actions: expected {}, got {}", expected,
                                             py::str(given.dtype()).cast<std::string>()));
}

void read_choices(const py::array& given, int32_t* to, size_t count) {
  if (copy_choices(given, to, count)) return;
  const char kind = given.dtype().kind();
  if (kind != 'i' && kind != 'u' && kind != 'b') refuse_type(given, "integers");
  copy_choices(py::array_t<int64_t, py::array::c_style | py::array::forcecast>(given), to, count);
}

void read_points(const py::array& given, float* to, size_t count) {
  if (copy_numbers<float>(given, to, count) || copy_numbers<double>(given, to, count)) return;
  const char kind = given.dtype().kind();
  if (kind != 'i' && kind != 'u' && kind != 'f') refuse_type(given, "numbers");
  copy_numbers<double>(py::array_t<double, py::array::c_style | py::array::forcecast>(given), to,
                       count);
}

}  // namespace

void describe_actions(const ActionSpace& space, py::dict& facts) {
  facts["action_kind"] = space.is_box()                        ? "box"
                         : space.kind == ActionKind::kDiscrete ? "discrete"
                                                               : "multi_discrete";
  facts["action_choices"] = space.choices;
  facts["action_low"] = space.low;
  facts["action_high"] = space.high;
}

void read_actions(const py::object& actions, const ActionSpace& space, int rows, std::byte* to) {
  const size_t dims = space.dims();
  const py::array given = py::array::ensure(actions, py::array::c_style);
  if (!given) {
    PyErr_Clear();
    throw Error(ErrorCode::kUsage, "actions: expected an array of numbers");
  }
  const bool flat = space.kind == ActionKind::kDiscrete;
  const bool fits = given.ndim() == (flat ? 1 : 2) && given.shape(0) == rows &&
                    (flat || given.shape(1) == static_cast<py::ssize_t>(dims));
  if (!fits) refuse_shape(given, rows, dims, flat);
  const size_t count = static_cast<size_t>(rows) * dims;
  if (space.is_box()) {
    read_points(given, reinterpret_cast<float*>(to), count);
  } else {
    read_choices(given, reinterpret_cast<int32_t*>(to), count);
  }
}

}  // namespace flotilla::python
