// Errors of the library as exceptions: one class per code, with the same texts.
#include "flotilla/core/error.h"

#include "bindings/bindings.h"
#include "flotilla/core/refusal.h"
#include "flotilla/env/failure.h"

namespace flotilla::python {
namespace {

namespace py = pybind11;

struct Family {
  ErrorCode code;
  const char* name;
  const char* doc;
  PyObject* also;  // another class that it is one of; null: none
};

PyObject* g_base = nullptr;
std::vector<std::pair<ErrorCode, PyObject*>> g_classes;  // kept for ever: exceptions outlive all

PyObject* make_class(py::module_& module, const char* name, const char* doc,
                     const py::tuple& bases) {
  const std::string full = std::string("flotilla.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (made == nullptr) throw py::error_already_set();
  module.attr(name) = py::reinterpret_borrow<py::object>(made);
  return made;
}

PyObject* class_of(ErrorCode code) {
  for (const auto& [each, made] : g_classes) {
    if (each == code) return made;
  }
  return g_base;
}

py::dict facts_of(const FailureReport& report) {
  py::dict facts;
  facts["env_name"] = report.env_name;
  facts["env"] = report.env;
  facts["seed"] = report.seed;
  facts["episode"] = report.episode;
  facts["step"] = report.step;
  facts["phase"] = report.phase;
  facts["action"] = report.action;
  facts["cause"] = report.cause;
  facts["bundle"] = report.bundle;
  return facts;
}

// Bytes that are not UTF-8, of a path for one, must not hide the message.
py::object as_text(const char* text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "backslashreplace"));
}

void raise(const Error& error) {
  const py::object type = py::reinterpret_borrow<py::object>(class_of(error.code()));
  const py::object value = type(as_text(error.what()));
  value.attr("status") = exit_status(error);
  if (const auto* failure = dynamic_cast<const EnvFailure*>(&error)) {
    value.attr("report") = facts_of(failure->report());
  }
  PyErr_SetObject(type.ptr(), value.ptr());
}

}  // namespace

void add_errors(py::module_& module) {
  py::list runtime;
  runtime.append(py::handle(PyExc_RuntimeError));
  g_base = make_class(module, "Error",
                      "An error of Flotilla; `status` is what its program exits with.", runtime);
  py::reinterpret_borrow<py::object>(g_base).attr("status") = exit_status(ErrorCode::kInternal);
  const Family families[] = {
      {ErrorCode::kCheckFailed, "CheckFailed", "A check ran and found something.", nullptr},
      {ErrorCode::kUsage, "UsageError", "A setting, a value or a call that cannot be.",
       PyExc_ValueError},
      {ErrorCode::kEnvironment, "EnvFailure",
       "An environment failed; `report` says which, where, and why, if that is known.", nullptr},
      {ErrorCode::kData, "DataError", "A file is missing, damaged or foreign.", nullptr},
      {ErrorCode::kNumeric, "NumericError", "NaN or infinity where a number was expected.",
       PyExc_ArithmeticError},
      {ErrorCode::kInternal, "InternalError", "The system refused something, or a bug of ours.",
       nullptr},
      {ErrorCode::kInterrupted, "Interrupted", "Stopped by a signal.", nullptr}};
  for (const Family& family : families) {
    py::list bases;
    bases.append(py::handle(g_base));
    if (family.also != nullptr) bases.append(py::handle(family.also));
    PyObject* made = make_class(module, family.name, family.doc, bases);
    py::reinterpret_borrow<py::object>(made).attr("status") = exit_status(family.code);
    g_classes.emplace_back(family.code, made);
  }
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace flotilla::python
