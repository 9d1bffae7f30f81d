#include <pybind11/stl.h>

#include "bindings/bindings.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/core/version.h"
#include "flotilla/domains/domains.h"
#include "flotilla/env/python_env.h"
#include "flotilla/env/worker.h"
#include "flotilla/env/worker_process.h"
#include "flotilla/nn/torch_loader.h"

namespace flotilla::python {
namespace {

namespace py = pybind11;

// For the program of worker processes: the exit status, or nothing where these are no arguments of
// a worker.
std::optional<int> serve_as_worker(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const py::gil_scoped_release free;
  return run_if_worker(static_cast<int>(words.size()), argv.data(), shipped_program().registry);
}

void set_host(const std::string& interpreter) { python_settings().host = interpreter; }

// From now on files may name this Python environment, too.
void admit(const std::string& env) {
  const std::lock_guard lock(registry_mutex());
  python_settings().named.insert(env);
}

}  // namespace

std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}

const Program& shipped_program() {
  static const Program* const program = [] {
    auto* made = new Program;  // never deleted: objects of the interpreter may outlive statics
    register_domains(*made);
    return made;
  }();
  return *program;
}

void run_long(const std::function<void()>& work) {
  const InterruptListener listener;
  try {
    const py::gil_scoped_release free;
    work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted || PyErr_CheckSignals() == 0) throw;
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
      PyErr_Clear();
      PyErr_SetString(PyExc_KeyboardInterrupt, error.what());
    }
    throw py::error_already_set();
  }
}

}  // namespace flotilla::python

PYBIND11_MODULE(_native, module) {
  using namespace flotilla;
  using namespace flotilla::python;
  refuse_second_torch();
  module.attr("version_line") = kVersionLine;
  module.def("set_worker_program", &set_worker_program, py::arg("command"));
  module.def("serve_as_worker", &serve_as_worker, py::arg("arguments"));
  module.def("set_host", &set_host, py::arg("interpreter"));
  module.def("admit", &admit, py::arg("env"), py::call_guard<py::gil_scoped_release>());
  add_errors(module);
  add_environments(module);
  add_training(module);
  add_policies(module);
  add_worker(module);
}
