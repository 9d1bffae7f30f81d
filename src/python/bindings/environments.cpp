// A batch of native environments, for flotilla.make_vec: arrays in, arrays out.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "bindings/actions.h"
#include "bindings/bindings.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/env/actions.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/env/vec_env.h"

namespace flotilla::python {
namespace {

namespace py = pybind11;
using Settings = std::vector<std::string>;  // "key=value"
using Shape = std::vector<py::ssize_t>;

Config config_of(const Schema& schema, const Settings& settings) {
  Config config(schema);
  for (const std::string& setting : settings) config.apply_override(setting);
  return config;
}

VecOptions options_of(const Settings& settings, int first_env, int time_limit) {
  Schema schema = VecOptions::schema();
  schema.set_default("crash_dir", "");  // a library leaves no files unless it is asked to
  VecOptions options = VecOptions::from(config_of(schema, settings));
  options.first_env = first_env;
  options.time_limit = time_limit;
  return options;
}

py::dict describe(const EnvSpec& spec) {
  py::dict facts;
  facts["name"] = spec.name;
  facts["obs_dtype"] = spec.obs.type == ObsType::kFloat32 ? "float32" : "uint8";
  facts["obs_shape"] = py::tuple(py::cast(spec.obs.shape));
  facts["obs_low"] = spec.obs.low;
  facts["obs_high"] = spec.obs.high;
  describe_actions(spec.action, facts);
  facts["masked"] = spec.masked();
  facts["time_limit"] = spec.time_limit;
  facts["metrics"] = spec.metrics;
  facts["reward_low"] = spec.reward_low;
  facts["reward_high"] = spec.reward_high;
  return facts;
}

// `start_timeout_s`: what Python code has to be there, if more than by default.
const EnvType& find_env(const std::string& name, double start_timeout_s = 0) {
  const py::gil_scoped_release free;
  const std::lock_guard lock(registry_mutex());
  outside_code().give_time(start_timeout_s);
  return shipped_program().registry.find(name);
}

// Lets one thread in at a time.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& taken) : taken_(taken) {
    if (taken_.exchange(true)) {
      throw Error(ErrorCode::kUsage, "another thread is using this batch of environments");
    }
  }
  ~Turn() { taken_.store(false); }

 private:
  std::atomic<bool>& taken_;
};

class Batch {
 public:
  Batch(const std::string& name, const Settings& batch, const Settings& env, int first_env,
        int time_limit, bool copy, bool statistics)
      : copy_(copy), statistics_(statistics), pid_(getpid()) {
    const VecOptions options = options_of(batch, first_env, time_limit);
    const EnvType& type = find_env(name, options.start_timeout_s);
    const Config config = config_of(type.schema, env);
    const EnvSpec spec = type.spec(config, time_limit);
    ArenaLayout layout;
    fields_ = StepFields(layout, spec, options.num_envs, 1);
    {
      const py::gil_scoped_release free;  // workers take a while to come up
      vec_ = make_vec_env(type, config, options, layout);
    }
    view_ = fields_.view(vec_->arena(), 0);
    actions_ = fields_.actions(vec_->arena(), 0);
    if (view_.mask != nullptr && view_.advice != nullptr) {
      both_.resize(static_cast<size_t>(options.num_envs) * spec.action.mask_size());
    }
    obs_shape_.assign(spec.obs.shape.begin(), spec.obs.shape.end());
    stepping_.assign(static_cast<size_t>(vec_->groups()), false);
    num_envs_ = vec_->num_envs();
  }

  ~Batch() {
    // In a forked child the threads are not there, and the worker processes are the parent's.
    if (getpid() != pid_) (void)vec_.release();
    const py::gil_scoped_release free;
    vec_.reset();
  }

  const EnvSpec& spec() const {
    require_open();
    return vec_->spec();
  }
  int num_envs() const { return num_envs_; }
  int groups() const { return static_cast<int>(stepping_.size()); }

  py::tuple group(int index) const {
    require_open();
    require_group(index);
    const Span envs = vec_->group(index);
    return py::make_tuple(envs.begin, envs.end);
  }

  py::tuple reset(uint64_t seed) {
    const Turn turn = begin_turn();
    for (size_t i = 0; i < stepping_.size(); ++i) finish_step(static_cast<int>(i));
    call([&] { vec_->reset(seed, view_); });
    ready_ = true;
    py::dict info;
    add_mask({0, num_envs()}, info);
    return py::make_tuple(obs({0, num_envs()}), info);
  }

  void send(const py::object& actions, int group) {
    const Turn turn = begin_turn();
    require_group(group);
    begin_step(actions, group);
  }

  py::tuple recv(int group) {
    const Turn turn = begin_turn();
    require_group(group);
    if (!stepping_[static_cast<size_t>(group)]) {
      throw Error(ErrorCode::kUsage, fmt::format("recv: group {} was sent no actions", group));
    }
    finish_step(group);
    return outcome(vec_->group(group));
  }

  py::tuple step(const py::object& actions) {
    const Turn turn = begin_turn();
    read_actions(actions, {0, num_envs()});
    for (int g = 0; g < groups(); ++g) require_idle(g);
    call([&] {
      for (int g = 0; g < groups(); ++g) vec_->begin(g, ActionView{actions_}, view_);
      for (int g = 0; g < groups(); ++g) vec_->wait(g);
    });
    return outcome({0, num_envs()});
  }

  // Seconds that so many steps with the same actions take without Python: what is left to measure.
  double time_steps(const py::object& actions, int steps) {
    const Turn turn = begin_turn();
    read_actions(actions, {0, num_envs()});
    for (int g = 0; g < groups(); ++g) require_idle(g);
    const uint64_t begin = now_ns();
    call([&] {
      for (int step = 0; step < steps; ++step) {
        for (int g = 0; g < groups(); ++g) vec_->begin(g, ActionView{actions_}, view_);
        for (int g = 0; g < groups(); ++g) vec_->wait(g);
      }
    });
    return seconds_since(begin);
  }

  std::vector<std::string> failures() {
    const Turn turn = begin_turn();
    std::vector<std::string> texts;
    for (const FailureReport& report : vec_->take_failures()) texts.push_back(report.message());
    return texts;
  }

  // Arrays that are views need the memory: with those it goes when this object does.
  void close() {
    closed_ = true;
    if (getpid() != pid_ || !copy_) return;
    const Turn turn(taken_);
    const py::gil_scoped_release free;
    vec_.reset();
  }

 private:
  void require_open() const {
    if (closed_) throw Error(ErrorCode::kUsage, "this batch of environments is closed");
  }

  Turn begin_turn() {
    require_open();
    if (getpid() != pid_) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("this batch of environments is of process {}, from which this one "
                              "was forked: make another one here",
                              pid_));
    }
    return Turn(taken_);
  }

  void require_group(int group) const {
    if (group >= 0 && group < groups()) return;
    throw Error(ErrorCode::kUsage, fmt::format("group: expected an integer from 0 to {}, got {}",
                                               groups() - 1, group));
  }

  void require_idle(int group) const {
    if (!ready_) throw Error(ErrorCode::kUsage, "call reset() first");
    if (stepping_[static_cast<size_t>(group)]) {
      throw Error(ErrorCode::kUsage, fmt::format("group {} is stepping: call recv() first", group));
    }
  }

  // After an error in a step only reset() is left.
  template <class F>
  void call(const F& work) {
    const bool was_ready = ready_;
    ready_ = false;
    {
      const py::gil_scoped_release free;
      work();
    }
    ready_ = was_ready;
  }

  void begin_step(const py::object& actions, int group) {
    require_idle(group);
    read_actions(actions, vec_->group(group));
    const py::gil_scoped_release free;
    vec_->begin(group, ActionView{actions_}, view_);
    stepping_[static_cast<size_t>(group)] = true;
  }

  void finish_step(int group) {
    if (!stepping_[static_cast<size_t>(group)]) return;
    stepping_[static_cast<size_t>(group)] = false;
    call([&] { vec_->wait(group); });
  }

  void read_actions(const py::object& actions, Span envs) {
    const ActionSpace& space = spec().action;
    const size_t row_bytes = space.dims() * sizeof(int32_t);
    python::read_actions(actions, space, envs.size(),
                         actions_ + static_cast<size_t>(envs.begin) * row_bytes);
    check_actions(spec(), envs, ActionView{actions_}, vec_->first_env());  // before any env steps
  }

  // ---- results ----------------------------------------------------------------------------------

  // Rows of the batch: a copy, or a view that keeps this object.
  py::array rows(const py::dtype& type, Shape shape, const void* data) const {
    if (!copy_) {
      return py::array(type, std::move(shape), data,
                       py::cast(this, py::return_value_policy::reference));
    }
    py::array made(type, std::move(shape));
    std::memcpy(made.mutable_data(), data, static_cast<size_t>(made.nbytes()));
    return made;
  }

  py::dtype obs_type() const {
    return spec().obs.type == ObsType::kFloat32 ? py::dtype::of<float>() : py::dtype::of<uint8_t>();
  }

  py::array obs(Span envs) const {
    Shape shape = {envs.size()};
    shape.insert(shape.end(), obs_shape_.begin(), obs_shape_.end());
    return rows(obs_type(), std::move(shape),
                view_.obs + static_cast<size_t>(envs.begin) * spec().obs.row_bytes());
  }

  py::array flags(const uint8_t* of, Span envs) const {
    return rows(py::dtype::of<bool>(), {envs.size()}, of + envs.begin);
  }

  py::tuple outcome(Span envs) {
    py::dict info;
    add_mask(envs, info);
    add_ended(envs, info);
    add_invalid(envs, info);
    return py::make_tuple(obs(envs),
                          rows(py::dtype::of<float>(), {envs.size()}, view_.reward + envs.begin),
                          flags(view_.terminated, envs), flags(view_.truncated, envs), info);
  }

  static py::array all_true(Span envs) {
    py::array made(py::dtype::of<bool>(), Shape{envs.size()});
    std::memset(made.mutable_data(), 1, static_cast<size_t>(envs.size()));
    return made;
  }

  void add_mask(Span envs, py::dict& info) {
    const uint8_t* open = open_choices(spec(), view_, envs, both_.data());
    if (open == nullptr) return;
    const size_t size = spec().action.mask_size();
    info["action_mask"] =
        rows(py::dtype::of<int8_t>(), {envs.size(), static_cast<py::ssize_t>(size)},
             open + static_cast<size_t>(envs.begin) * size);
    info["_action_mask"] = all_true(envs);
  }

  void add_ended(Span envs, py::dict& info) const {
    int any = 0;
    for (int env = envs.begin; env < envs.end; ++env) {
      any |= view_.terminated[env] | view_.truncated[env];
    }
    if (any == 0) return;
    py::array_t<bool> ended(envs.size());
    bool* mask = ended.mutable_data();
    for (int i = 0; i < envs.size(); ++i) {
      mask[i] = (view_.terminated[envs.begin + i] | view_.truncated[envs.begin + i]) != 0;
    }
    info["final_obs"] = final_obs(envs, mask);
    info["_final_obs"] = ended;
    info["final_info"] = final_info(envs, ended);
    info["_final_info"] = ended;
    if (!statistics_) return;
    py::dict episode;
    episode["r"] = where(mask, envs, view_.episode_return, 1);
    episode["l"] = where(mask, envs, view_.episode_length, 1);
    episode["_r"] = ended;
    episode["_l"] = ended;
    info["episode"] = episode;
    info["_episode"] = ended;
  }

  // Objects, as Gymnasium has it: None where no episode ended.
  py::array final_obs(Span envs, const bool* ended) const {
    py::array made(py::dtype("O"), Shape{envs.size()});
    auto** objects = static_cast<PyObject**>(made.mutable_data());
    const size_t bytes = spec().obs.row_bytes();
    for (int i = 0; i < envs.size(); ++i) {
      py::object row = py::none();
      if (ended[i]) {
        py::array values(obs_type(), obs_shape_);
        std::memcpy(values.mutable_data(),
                    view_.final_obs + static_cast<size_t>(envs.begin + i) * bytes, bytes);
        row = std::move(values);
      }
      Py_XDECREF(objects[i]);
      objects[i] = row.release().ptr();
    }
    return made;
  }

  // The values of rows where an episode ended, which lie `stride` apart; elsewhere 0.
  template <class T>
  static py::array_t<T> where(const bool* ended, Span envs, const T* values, size_t stride) {
    py::array_t<T> made(envs.size());
    T* to = made.mutable_data();
    for (int i = 0; i < envs.size(); ++i) {
      to[i] = ended[i] ? values[static_cast<size_t>(envs.begin + i) * stride] : T{0};
    }
    return made;
  }

  py::dict final_info(Span envs, const py::array_t<bool>& ended) const {
    py::dict info;
    const std::vector<std::string>& names = spec().metrics;
    for (size_t m = 0; m < names.size(); ++m) {
      info[names[m].c_str()] = where(ended.data(), envs, view_.metrics + m, names.size());
      info[("_" + names[m]).c_str()] = ended;
    }
    return info;
  }

  // Only where a step failed, or an env is out of service: nothing of such a row is to be used.
  void add_invalid(Span envs, py::dict& info) const {
    if (std::memchr(view_.valid + envs.begin, 0, static_cast<size_t>(envs.size())) == nullptr) {
      return;
    }
    info["valid"] = flags(view_.valid, envs);
    info["_valid"] = all_true(envs);
  }

  const bool copy_, statistics_;
  const pid_t pid_;
  StepFields fields_;
  std::unique_ptr<VecEnv> vec_;
  StepView view_;
  std::byte* actions_ = nullptr;
  std::vector<uint8_t> both_;
  Shape obs_shape_;
  std::vector<bool> stepping_;  // by group
  int num_envs_ = 0;
  bool ready_ = false, closed_ = false;
  std::atomic<bool> taken_{false};
};

py::list env_names() {
  py::list names;
  for (const EnvType& type : shipped_program().registry.types()) {
    names.append(py::make_tuple(type.name, type.summary));
  }
  return names;
}

std::vector<std::string> keys_of(const Schema& schema) {
  std::vector<std::string> names;
  for (const Key& key : schema.keys()) {
    names.push_back(key.name);
    names.insert(names.end(), key.aliases.begin(), key.aliases.end());
  }
  return names;
}

}  // namespace

void add_environments(py::module_& module) {
  module.def("env_names", &env_names);
  module.def("batch_keys", [] { return keys_of(VecOptions::schema()); });
  module.def(
      "env_help", [](const std::string& name) { return find_env(name).schema.help(80); },
      py::arg("name"));
  py::class_<Batch>(module, "Batch")
      .def(py::init<const std::string&, const Settings&, const Settings&, int, int, bool, bool>(),
           py::arg("name"), py::arg("batch"), py::arg("env"), py::arg("first_env"),
           py::arg("time_limit"), py::arg("copy"), py::arg("statistics"))
      .def_property_readonly("spec", [](const Batch& batch) { return describe(batch.spec()); })
      .def_property_readonly("num_envs", &Batch::num_envs)
      .def_property_readonly("groups", &Batch::groups)
      .def("group", &Batch::group, py::arg("index"))
      .def("reset", &Batch::reset, py::arg("seed"))
      .def("step", &Batch::step, py::arg("actions"))
      .def("send", &Batch::send, py::arg("actions"), py::arg("group"))
      .def("recv", &Batch::recv, py::arg("group"))
      .def("time_steps", &Batch::time_steps, py::arg("actions"), py::arg("steps"))
      .def("failures", &Batch::failures)
      .def("close", &Batch::close);
}

}  // namespace flotilla::python
