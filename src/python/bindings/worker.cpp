// The worker side of Python environments (env/python_env.h): the loop of native environments, whose
// envs are Python objects. Plain arrays are read here; everything else is asked of the object
// `share` (flotilla/worker.py).
#include "flotilla/env/worker.h"

#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/env/python_env.h"

namespace flotilla::python {
namespace {

namespace py = pybind11;

// Seeds that every generator takes: NumPy's old ones end below 2^32.
constexpr uint64_t kSeeds = (uint64_t{1} << 31) - 1;
constexpr uint64_t kStreamIndex = (uint64_t{1} << 48) - 1;  // stream_of()

// A place for numbers that Python writes to.
py::array view_of(const py::dtype& type, size_t elements, void* data) {
  return {type, {static_cast<py::ssize_t>(elements)}, {}, data, py::none()};
}

// An exception as Python would show it.
py::object with_traceback(const py::error_already_set& error) {
  if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
  return error.value();
}

// "an int", "a str"
std::string kind_of(py::handle value) {
  const std::string name = Py_TYPE(value.ptr())->tp_name;
  return (name.find_first_of("aeiou") == 0 ? "an " : "a ") + name;
}

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kEnvironment, what); }

float number_of(py::handle value) {
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse("the reward is " + kind_of(value) + ", expected a number");
  }
  const auto reward = static_cast<float>(number);
  if (!std::isfinite(reward)) refuse(fmt::format("the reward is {}", number));
  return reward;
}

// The Python objects of this worker's envs. All members want the GIL.
class Seats {
 public:
  Seats(py::object share, EnvSpec spec, bool keeps_states, int num_envs, int first_env)
      : share_(std::move(share)),
        spec_(std::move(spec)),
        keeps_states_(keeps_states),
        first_env_(first_env),
        seats_(static_cast<size_t>(num_envs)),
        obs_type_(py::dtype(spec_.obs.type == ObsType::kFloat32 ? "float32" : "uint8")),
        action_type_(py::dtype(spec_.action.is_box() ? "float32" : "int32")),
        numpy_bool_(py::module_::import("numpy").attr("bool_")) {
    copies_arrays_ = share_.attr("observations").attr("as_is").cast<bool>();
    make_ = share_.attr("make");
    write_ = share_.attr("observations").attr("write");
    mask_ = share_.attr("mask");
    decoded_ = share_.attr("actions").attr("decoded");
    if (const py::object each = share_.attr("actions").attr("each"); !each.is_none()) {
      for (const py::handle action : each)
        choices_.push_back(py::reinterpret_borrow<py::object>(action));
    }
  }

  ~Seats() {
    for (Seat& seat : seats_) close(seat);
  }

  const EnvSpec& spec() const { return spec_; }

  // Where there is no env in the row, one is made, and has `new_seed` unless there is a `seed`.
  void reset(int row, std::optional<uint64_t> seed, uint64_t new_seed) {
    guarded(row, "reset", [&](Seat& seat) {
      if (!seat.env) {
        make(seat);
        if (!seed) seed = new_seed;
      }
      const py::object value = seed ? py::object(py::int_(fit(*seed))) : py::none();
      const auto result = py::reinterpret_steal<py::tuple>(
          check(PyObject_CallOneArg(seat.reset.ptr(), value.ptr())));
      take(seat, result[0], result[1]);
    });
  }

  Outcome step(int row, ActionRow action) {
    Outcome outcome;
    guarded(row, "step", [&](Seat& seat) {
      if (!seat.env) refuse("it was lost with its worker");
      const py::object result = py::reinterpret_steal<py::object>(
          check(PyObject_CallOneArg(seat.step.ptr(), action_of(action).ptr())));
      if (!PyTuple_Check(result.ptr()) || PyTuple_GET_SIZE(result.ptr()) != 5) {
        refuse_result(result);
      }
      const auto item = [&](int i) { return py::handle(PyTuple_GET_ITEM(result.ptr(), i)); };
      outcome.reward = number_of(item(1));
      outcome.terminated = flag_of(item(2), "terminated");
      outcome.truncated = flag_of(item(3), "truncated");
      take(seat, item(0), item(4));
    });
    return outcome;
  }

  void observe(int row, ObsRow out) {
    guarded(row, "observe", [&](Seat& seat) {
      if (keeps_states_) {
        std::memcpy(out.u8().data(), seat.packed.data(), spec_.obs.row_bytes());
      } else if (!copied(seat.obs, out)) {
        write_(seat.obs, view_of(obs_type_, spec_.obs.elements(), out.u8().data()));
      }
      if (spec_.obs.type == ObsType::kFloat32) require_finite(out.f32());
    });
  }

  void mask(int row, MaskRow out) {
    guarded(row, "mask", [&](Seat& seat) {
      if (keeps_states_) {
        std::memcpy(out.data(), seat.packed.data() + spec_.obs.row_bytes(), out.size());
      } else {
        const py::array flags = mask_(seat.object, seat.info);  // contiguous, one byte each
        std::memcpy(out.data(), flags.data(), out.size());
      }
    });
  }

  // All there is of the env between two steps. REQUIRES: envs keep states.
  const std::string& packed(int row) const { return seats_[static_cast<size_t>(row)].packed; }

  // Brings the env to a state unless it is in it.
  void bring(int row, std::string_view packed) {
    if (seats_[static_cast<size_t>(row)].env && this->packed(row) == packed) return;
    guarded(row, "set_state", [&](Seat& seat) {
      if (!seat.env) make(seat);
      share_.attr("unpacked")(seat.object, py::bytes(packed.data(), packed.size()));
      seat.packed = packed;
    });
  }

 private:
  struct Seat {
    py::object object;  // Seat of worker.py
    py::object env, step, reset;
    py::object obs, info;  // of the latest step
    std::string packed;    // instead of these, where envs keep states
  };

  static PyObject* check(PyObject* result) {
    if (result == nullptr) throw py::error_already_set();
    return result;
  }

  static uint64_t fit(uint64_t seed) { return seed <= kSeeds ? seed : seed % kSeeds; }

  // Calls body(seat). An env that fails is given up: what state it is in, nobody knows.
  template <class Body>
  void guarded(int row, const char* where, const Body& body) {
    Seat& seat = seats_[static_cast<size_t>(row)];
    try {
      body(seat);
    } catch (const py::error_already_set& error) {
      const std::string what = fmt::format("env {} failed in {}", first_env_ + row, where);
      const auto text = share_.attr("described")(with_traceback(error), what).cast<std::string>();
      close(seat);
      refuse(text);
    } catch (...) {
      close(seat);
      throw;
    }
  }

  void make(Seat& seat) {
    seat.object = make_();
    seat.env = seat.object.attr("env");
    seat.step = seat.object.attr("step");
    seat.reset = seat.object.attr("reset");
  }

  static void close(Seat& seat) {
    if (seat.object) {
      try {
        seat.object.attr("close")();
      } catch (const py::error_already_set&) {  // sys.exit() in close(), say
      }
    }
    seat = {};
  }

  void take(Seat& seat, py::handle obs, py::handle info) {
    if (keeps_states_) {
      seat.packed = share_.attr("packed")(seat.object, obs, info).cast<std::string>();
      return;
    }
    seat.obs = py::reinterpret_borrow<py::object>(obs);
    if (spec_.has_mask) seat.info = py::reinterpret_borrow<py::object>(info);
  }

  py::object action_of(ActionRow action) const {
    if (!choices_.empty()) return choices_[static_cast<size_t>(action.discrete())];
    const auto dims = static_cast<py::ssize_t>(spec_.action.dims());
    // A copy: the env may keep it.
    return decoded_(py::array(action_type_, {dims}, {}, action.data()));
  }

  // Whether the observation is an array just as its space says, and now in the row.
  bool copied(const py::object& obs, ObsRow out) const {
    if (!copies_arrays_ || !py::isinstance<py::array>(obs)) return false;
    const auto array = py::reinterpret_borrow<py::array>(obs);
    const std::vector<int>& shape = spec_.obs.shape;
    if (!array.dtype().is(obs_type_) || static_cast<size_t>(array.ndim()) != shape.size() ||
        (array.flags() & py::array::c_style) == 0) {
      return false;
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      if (array.shape(static_cast<py::ssize_t>(i)) != shape[i]) return false;
    }
    std::memcpy(out.u8().data(), array.data(), spec_.obs.row_bytes());
    return true;
  }

  static void require_finite(std::span<const float> row) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (std::isfinite(row[i])) continue;
      refuse(fmt::format("the observation is {} at element {}", row[i], i));
    }
  }

  bool flag_of(py::handle value, const char* name) const {
    if (value.ptr() == Py_True) return true;
    if (value.ptr() == Py_False) return false;
    if (!py::isinstance(value, numpy_bool_)) {
      refuse(fmt::format("{} is {}, expected a bool", name, kind_of(value)));
    }
    return PyObject_IsTrue(value.ptr()) == 1;
  }

  [[noreturn]] static void refuse_result(const py::object& result) {
    const std::string got = PyTuple_Check(result.ptr())
                                ? fmt::format("{} values", PyTuple_GET_SIZE(result.ptr()))
                                : kind_of(result);
    refuse("step() returned " + got +
           ", expected (observation, reward, terminated, truncated, info)");
  }

  const py::object share_;
  const EnvSpec spec_;
  const bool keeps_states_;
  const int first_env_;
  std::vector<Seat> seats_;
  const py::dtype obs_type_, action_type_;
  const py::object numpy_bool_;
  bool copies_arrays_ = false;
  py::object make_, write_, mask_, decoded_;
  std::vector<py::object> choices_;  // the actions, where they are of one choice
};

// The face that the loop knows: what it has of an env is the row it sits in, and what it says of
// its state where it does.
template <bool kMasked, size_t kStateBytes>
class PythonEnv {
 public:
  using State = PythonState<kStateBytes>;

  explicit PythonEnv(std::shared_ptr<Seats> seats) : seats_(std::move(seats)) {}

  const EnvSpec& spec() const { return seats_->spec(); }
  void place(State& state, int row) const { state.row = row; }

  // The first episode has the seed of the run plus the number of the env; those that follow go on
  // with the env's own random numbers, as Gymnasium has it.
  void reset(State& state, Rng& rng) const {
    std::optional<uint64_t> seed;
    if (rng.position() == 0) seed = rng.seed() + (rng.stream() & kStreamIndex);
    seats_->reset(state.row, seed, rng.next_u64() % kSeeds);
    keep(state);
  }

  Outcome step(State& state, ActionRow action, Rng&) const {
    if constexpr (kStateBytes > 0) seats_->bring(state.row, packed(state));
    const Outcome outcome = seats_->step(state.row, action);
    keep(state);
    return outcome;
  }

  bool restore(State& state) const {
    if constexpr (kStateBytes > 0) {
      seats_->bring(state.row, packed(state));
      return true;
    }
    return false;
  }

  void observe(const State& state, ObsRow out) const { seats_->observe(state.row, out); }
  void mask(const State& state, MaskRow out) const requires kMasked {
    seats_->mask(state.row, out);
  }

 private:
  static std::string_view packed(const State& state) {
    return {reinterpret_cast<const char*>(state.bytes), state.size};
  }

  void keep(State& state) const {
    if constexpr (kStateBytes > 0) {
      const std::string& now = seats_->packed(state.row);
      if (now.size() > kStateBytes) {
        refuse(
            fmt::format("its state has grown to {} bytes, more than {}", now.size(), kStateBytes));
      }
      state.size = static_cast<uint32_t>(now.size());
      std::memcpy(state.bytes, now.data(), now.size());
    }
  }

  std::shared_ptr<Seats> seats_;
};

// A loop that takes the GIL for each call: between them threads of the envs go on.
class GilLoop final : public EnvLoop {
 public:
  explicit GilLoop(std::unique_ptr<EnvLoop> loop) : EnvLoop(loop->spec()), loop_(std::move(loop)) {}
  ~GilLoop() override {
    const py::gil_scoped_acquire gil;
    loop_.reset();
  }

  size_t slot_bytes() const override { return loop_->slot_bytes(); }
  void reset(Span envs, const LoopCall& call) const noexcept override {
    const py::gil_scoped_acquire gil;
    loop_->reset(envs, call);
  }
  void step(Span envs, const LoopCall& call) const noexcept override {
    const py::gil_scoped_acquire gil;
    loop_->step(envs, call);
  }
  void restore(Span envs, const LoopCall& call) const noexcept override {
    const py::gil_scoped_acquire gil;
    loop_->restore(envs, call);
  }
  std::unique_ptr<LoopStage> make_stage(ThreadPool&) const override { return nullptr; }
  void prepare(Span, const LoopCall&) const noexcept override {}
  void observe(Span envs, std::byte* bank, const StepView& view) const override {
    const py::gil_scoped_acquire gil;
    loop_->observe(envs, bank, view);
  }
  EnvMemory* memory() const override { return nullptr; }
  bool valid_state(const std::byte* slot) const override { return loop_->valid_state(slot); }

 private:
  std::unique_ptr<EnvLoop> loop_;
};

template <bool kMasked, size_t kStateBytes>
std::unique_ptr<EnvLoop> loop_of(const std::shared_ptr<Seats>& seats, const Control& control) {
  using Loop = LoopOf<PythonEnv<kMasked, kStateBytes>>;
  return std::make_unique<Loop>(control.env_name, seats, control.time_limit, control.frame_stack);
}

std::unique_ptr<EnvLoop> make_loop(py::object share, const Control& control) {
  const auto text =
      py::module_::import("json").attr("dumps")(share.attr("description")).cast<std::string>();
  const auto description =
      PythonDescription::from(Json::parse(text), control.env_name, control.time_limit);
  const bool keeps = description.keeps_states;
  const auto seats = std::make_shared<Seats>(std::move(share), description.spec, keeps,
                                             control.num_envs, control.first_env);
  if (description.spec.has_mask) {
    return keeps ? loop_of<true, kPythonStateBytes>(seats, control)
                 : loop_of<true, 0>(seats, control);
  }
  return keeps ? loop_of<false, kPythonStateBytes>(seats, control)
               : loop_of<false, 0>(seats, control);
}

int serve_environments(const std::vector<std::string>& arguments, const py::function& make_share,
                       const py::function& described) {
  const auto post = WorkerPost::from(arguments);
  if (!post) throw Error(ErrorCode::kUsage, "only the trainer starts workers");
  const py::gil_scoped_release no_gil;
  return serve(*post, [&](const Segment& segment) -> std::unique_ptr<EnvLoop> {
    const py::gil_scoped_acquire gil;
    try {
      return std::make_unique<GilLoop>(make_loop(make_share(), *segment.control));
    } catch (const py::error_already_set& error) {
      throw Error(ErrorCode::kEnvironment, described(with_traceback(error)).cast<std::string>());
    }
  });
}

}  // namespace

void add_worker(py::module_& module) {
  module.def("serve_environments", &serve_environments, py::arg("arguments"), py::arg("make_share"),
             py::arg("described"),
             "Carries out the trainer's commands until it says stop; the status to exit with.");
}

}  // namespace flotilla::python
