#include "support/batch.h"

#include <exception>

namespace flotilla::test {

const Registry& registry() {
  static const Registry all = [] {
    Registry made = shipped();
    register_test_envs(made);
    return made;
  }();
  return all;
}

Config config_of(const EnvType& type, const std::vector<std::string>& overrides) {
  Config config(type.schema);
  for (const std::string& each : overrides) config.apply_override(each);
  return config;
}

std::string row_bytes(const EnvSpec& spec, const StepView& v, int env) {
  const auto i = static_cast<size_t>(env);
  const size_t obs = spec.obs.row_bytes(), mask = spec.action.mask_size();
  std::string bytes;
  const auto add = [&bytes](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
  };
  add(v.obs + i * obs, obs);
  add(v.reward + i, sizeof(float));
  add(v.terminated + i, 1);
  add(v.truncated + i, 1);
  add(v.valid + i, 1);
  if (v.mask != nullptr) add(v.mask + i * mask, mask);
  if (v.advice != nullptr) add(v.advice + i * mask, mask);
  if (v.terminated[i] != 0 || v.truncated[i] != 0) {
    add(v.final_obs + i * obs, obs);
    add(v.episode_return + i, sizeof(float));
    add(v.episode_length + i, sizeof(int32_t));
    add(v.metrics + i * spec.metrics.size(), spec.metrics.size() * sizeof(float));
  }
  return bytes;
}

Batch::Batch(const std::string& env, const std::vector<std::string>& overrides,
             const VecOptions& options, int steps) {
  const EnvType& type = registry().find(env);
  const Config config = config_of(type, overrides);
  const EnvSpec spec = type.spec(config, options.time_limit);
  ArenaLayout layout;
  fields_ = StepFields(layout, spec, options.num_envs, steps);
  vec_ = make_vec_env(type, config, options, layout);
}

void Batch::step_randomly(uint64_t seed, uint64_t step) {
  const Span all{0, vec_->num_envs()};
  std::vector<uint8_t> both(static_cast<size_t>(all.end) * spec().action.mask_size());
  random_actions(spec(), all, seed, step, open_choices(spec(), view(), all, both.data()),
                 actions_out(), vec_->first_env());
  this->step();
}

void Batch::step() {
  for (int g = 0; g < vec_->groups(); ++g) begin(g);
  std::exception_ptr first;
  for (int g = 0; g < vec_->groups(); ++g) {
    try {
      vec_->wait(g);
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

std::vector<std::string> Batch::rows() const {
  std::vector<std::string> all;
  for (int i = 0; i < vec_->num_envs(); ++i) all.push_back(row(i));
  return all;
}

std::vector<std::byte> Batch::saved() const {
  Writer writer;
  vec_->save(writer);
  return writer.buffer();
}

void Batch::load(const std::vector<std::byte>& bytes) {
  Reader reader(bytes, "saved");
  vec_->load(reader, view());
}

std::vector<float> Batch::floats(const std::byte* rows, int env) const {
  std::vector<float> row(spec().obs.elements());
  std::memcpy(row.data(), rows + static_cast<size_t>(env) * spec().obs.row_bytes(),
              spec().obs.row_bytes());
  return row;
}

std::vector<Variant> variants(int num_envs) {
  std::vector<Variant> all;
  const auto add = [&](const char* name, Backend backend, int lanes, int groups,
                       StartMethod start) {
    VecOptions options;
    options.backend = backend;
    options.num_envs = num_envs;
    options.threads = options.workers = lanes;
    options.groups = groups;
    options.start_method = start;
    all.push_back({name, options});
  };
  add("serial", Backend::kSerial, 1, 1, StartMethod::kSpawn);
  add("serial, 2 groups", Backend::kSerial, 1, 2, StartMethod::kSpawn);
  add("2 threads", Backend::kThreads, 2, 1, StartMethod::kSpawn);
  add("3 threads, 2 groups", Backend::kThreads, 3, 2, StartMethod::kSpawn);
  add("1 worker, 2 groups", Backend::kProcesses, 1, 2, StartMethod::kSpawn);
  add("2 workers", Backend::kProcesses, 2, 1, StartMethod::kSpawn);
  add("2 forked workers, 2 groups", Backend::kProcesses, 2, 2,
      kCanFork ? StartMethod::kFork : StartMethod::kSpawn);
  return all;
}

std::vector<Variant> variants_for(const EnvType& type, int num_envs) {
  std::vector<Variant> all = variants(num_envs);
  if (type.batched) {
    std::erase_if(all, [](const Variant& each) {
      return each.options.groups > 1 || each.options.backend == Backend::kProcesses;
    });
  }
  return all;
}

}  // namespace flotilla::test
