#include "flotilla/env/slot_vec_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "flotilla/core/log.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

// One more crash bundle tells nothing new after this many.
constexpr int kMaxBundles = 20;

const char* outcome_of(OnFailure policy, bool repeated) {
  if (repeated) return "the step was repeated";
  return policy == OnFailure::kRestart ? "a new episode was begun" : "the env was dropped";
}

// A folder may be that of several runs: nothing in it is replaced.
std::string unused_name(const Directory& folder, const std::string& stem) {
  std::string name = stem + ".json";
  for (int number = 2; folder.holds(name); ++number) name = fmt::format("{}-{}.json", stem, number);
  return name;
}

// Whole cache lines of flags where there are enough envs to give every part some.
int span_alignment(int envs, int parts) { return envs >= 32 * parts ? 16 : 1; }

}  // namespace

Span group_span(int num_envs, int groups, int group) {
  return part_of({0, num_envs}, group, groups, span_alignment(num_envs, groups));
}

Span lane_span(Span group, int index, int lanes, int lane) {
  const int part = index % 2 == 0 ? lane : lanes - 1 - lane;
  return part_of(group, part, lanes, span_alignment(group.size(), lanes));
}

Span whole_span(Span group, int index, int lanes, int lane) {
  return index % lanes == lane ? group : Span{group.begin, group.begin};
}

SlotVecEnv::SlotVecEnv(const EnvType& type, const Config& config, const VecOptions& options)
    : env_name_(type.name),
      title_(type.title ? type.title(config) : type.name),
      config_yaml_(config.to_yaml()),
      options_(options),
      loop_(type.make_loop(config, options.time_limit)),
      crash_dir_(options.crash_dir) {}

void SlotVecEnv::allocate(ArenaLayout layout, Arena::Backing backing, int lanes, int banks) {
  const auto n = static_cast<size_t>(num_envs());
  lane_count_ = lanes;
  banks_ = layout.add<std::byte>("slots", static_cast<size_t>(banks), n * loop_->slot_bytes());
  lanes_ = layout.add<Lane>("lanes", static_cast<size_t>(lanes), kMaxGroups);
  notes_ = layout.add<FailureNote>("notes", 1, n);
  arena_ = std::make_unique<Arena>(layout, backing);
  for (int i = 0; i < lanes; ++i) {
    for (int g = 0; g < kMaxGroups; ++g) new (&lane(i, g)) Lane;
  }
  action_log_ = ActionLog(spec(), num_envs());
}

Lane& SlotVecEnv::lane(int index, int group) const {
  return arena_->view(lanes_).row(static_cast<size_t>(index))[group];
}

int SlotVecEnv::group_of(int env) const {
  int index = 0;
  while (env >= group(index).end) ++index;
  return index;
}

SlotHeader& SlotVecEnv::slot_header(std::byte* bank, int env) const {
  // Every loop's slot begins with its header.
  return *reinterpret_cast<SlotHeader*>(bank + static_cast<size_t>(env) * loop_->slot_bytes());
}

void SlotVecEnv::reset(uint64_t seed, const StepView& out) {
  check_idle("reset");
  check_view(out);
  seed_ = seed;
  dropped_ = 0;
  out_of_service_ = false;
  const size_t first_failure = failures_.size();
  for (int g = 0; g < groups(); ++g) {
    steps_[g] = 0;
    const Span envs = group(g);
    for (int env = envs.begin; env < envs.end; ++env) {
      // What failed before has no part in what follows.
      slot_header(current_bank(g), env).status = SlotStatus::kLive;
      slot_header(current_bank(g), env).failures = 0;
    }
    start_and_complete(
        {.work = Work::kReset, .group = g, .seed = seed, .actions = {}, .view = out, .actor = {}});
  }
  is_reset_ = true;
  throw_if_over(first_failure);
}

void SlotVecEnv::start_and_complete(const Request& request) {
  in_flight_[request.group] = request;
  start_request(request);
  complete(request);
}

void SlotVecEnv::begin(int group_index, ActionView actions, const StepView& out, Actor actor) {
  if (!is_reset_) throw Error(ErrorCode::kUsage, "begin() before reset()");
  if (group_index < 0 || group_index >= groups()) {
    throw Error(ErrorCode::kUsage, fmt::format("no group {} of {}", group_index, groups()));
  }
  if (busy_[group_index]) throw Error(ErrorCode::kUsage, "begin() again before wait()");
  check_view(out);
  check_actions_place(actions);
  Request& request = in_flight_[group_index];
  request = {.work = Work::kStep,
             .group = group_index,
             .seed = seed_,
             .actions = actions,
             .view = out,
             .actor = actor,
             .step = steps_[group_index]};
  if (actor.act == nullptr || !acts_in_parts()) {
    act(request, 0, group(group_index));
    request.actor = {};
  }
  ++steps_[group_index];
  start_request(request);
  busy_[group_index] = true;
}

void SlotVecEnv::act(const Request& request, int part, Span envs) {
  if (request.actor.act != nullptr) request.actor.act(request.actor.context, part, envs);
  check_actions(spec(), envs, request.actions, first_env());
  action_log_.record(request.step, envs, request.actions);
}

const SlotVecEnv::Request& SlotVecEnv::end_step(int group_index) {
  if (group_index < 0 || group_index >= groups() || !busy_[group_index]) {
    throw Error(ErrorCode::kUsage, "wait() without begin()");
  }
  busy_[group_index] = false;
  return in_flight_[group_index];
}

void SlotVecEnv::wait(int group_index) {
  const size_t first_failure = failures_.size();
  complete(end_step(group_index));
  if (failures_.size() != first_failure) throw_if_over(first_failure);
}

void SlotVecEnv::take_notes(const Request& request) {
  const size_t first_failure = failures_.size();
  collect_notes(request);
  throw_if_over(first_failure);
}

void SlotVecEnv::complete(const Request& request) {
  finish_request(request);
  for (int i = 0; i < lane_count_; ++i) {
    if (lane(i, request.group).failures.load(std::memory_order_relaxed) > 0) {
      return collect_notes(request);
    }
  }
}

void SlotVecEnv::collect_notes(const Request& request) {
  for (int i = 0; i < lane_count_; ++i) lane(i, request.group).failures.store(0);
  const Span envs = group(request.group);
  for (int env = envs.begin; env < envs.end; ++env) {
    FailureNote& note = notes()[env];
    if (note.count == 0) continue;
    report_thrown(env, note, lead_of(env, note));
    note = FailureNote{};
  }
}

void SlotVecEnv::report_thrown(int env, const FailureNote& note, Lead lead) {
  out_of_service_ |= note.out_of_service;
  restarts_ += static_cast<int>(note.count) - 1;  // report() counts the last
  report(env, note, std::string("threw: ") + note.what, false, std::move(lead));
}

void SlotVecEnv::play_span(Play& play, int part, const Playing& from, const LoopCall& common,
                           const Keep& keep, Played& played) {
  LoopCall call = common;
  const size_t first_failure = played.failed.size();
  auto [envs, step] = from;
  try {
    for (bool more = true; more; ++step) {
      call.actions = play.actions(step);
      call.view = play.view(step);
      check_view(call.view);
      check_actions_place(call.actions);
      play.act(part, step, envs);
      check_actions(spec(), envs, call.actions, first_env());
      action_log_.record(steps_[0] + static_cast<uint64_t>(step), envs, call.actions);
      loop_->step(envs, call);
      if (call.lane->failures.load(std::memory_order_relaxed) > 0) {
        note_failures(envs, step, call, first_failure, played);
        if (ends_by(std::span(played.failed).subspan(first_failure))) more = false;
      }
      more = play.stepped(part, step, envs) && more;
      if (more) envs = keep({envs, step + 1});
    }
  } catch (...) {
    const std::pair at(step, envs.begin);
    if (played.thrown == nullptr || at < played.thrown_at) {
      played.thrown = std::current_exception();
      played.thrown_at = at;
    }
  }
  played.steps = std::max(played.steps, step);
}

// Failures of some envs that settle() will throw for, at this step or an earlier one, whatever
// others do meanwhile. To go on would be in vain, and maybe without end.
bool SlotVecEnv::ends_by(std::span<const Played::Failed> failed) const {
  int64_t restarts = restarts_;
  for (const Played::Failed& each : failed) {
    if (options_.on_failure == OnFailure::kStop || each.note.out_of_service) return true;
    restarts += each.note.count;
  }
  return options_.on_failure == OnFailure::kRestart && restarts > options_.restart_budget;
}

// Of many failures only the first have bundles: the others leave no actions behind.
void SlotVecEnv::note_failures(Span envs, int step, const LoopCall& call, size_t first_failure,
                               Played& played) const {
  call.lane->failures.store(0, std::memory_order_relaxed);
  const uint64_t begun = steps_[0] + static_cast<uint64_t>(step) + 1;
  for (int env = envs.begin; env < envs.end; ++env) {
    FailureNote& note = call.notes[env];
    if (note.count == 0) continue;
    played.failed.push_back({step, env, note, lead_of(env, note, call.actions, begun)});
    const bool among_the_first = played.failed.size() - first_failure <= kMaxBundles;
    if (!among_the_first) played.failed.back().lead.actions = {};
    note = FailureNote{};
  }
}

void SlotVecEnv::settle(std::vector<Played>& parts) {
  const Played* thrown = nullptr;
  std::vector<Played::Failed> failed;
  int steps = 0;
  for (Played& part : parts) {
    std::ranges::move(part.failed, std::back_inserter(failed));
    steps = std::max(steps, part.steps);
    if (part.thrown == nullptr) continue;
    if (thrown == nullptr || part.thrown_at < thrown->thrown_at) thrown = &part;
  }
  for (uint64_t& begun : steps_) begun += static_cast<uint64_t>(steps);
  // What comes behind the step at which somebody threw did not happen: all would have stopped.
  const int end = thrown == nullptr ? steps : thrown->thrown_at.first;
  std::erase_if(failed, [end](const Played::Failed& each) { return each.step >= end; });
  std::ranges::sort(failed, {}, [](const auto& each) { return std::pair(each.step, each.env); });
  for (size_t i = 0; i < failed.size();) {
    const size_t first_failure = failures_.size(), first = i;
    const auto met = [&](const Played::Failed& each) {
      return each.step == failed[first].step && group_of(each.env) == group_of(failed[first].env);
    };
    for (; i < failed.size() && met(failed[i]); ++i) {
      report_thrown(failed[i].env, failed[i].note, std::move(failed[i].lead));
    }
    throw_if_over(first_failure);
  }
  if (thrown != nullptr) std::rethrow_exception(thrown->thrown);
}

SlotVecEnv::Lead SlotVecEnv::lead_of(int env, const FailureNote& note, ActionView actions,
                                     uint64_t steps) const {
  if (note.phase != Phase::kStep) return {};
  return {.action = describe_action(spec(), actions, env),
          .actions = action_log_.last(env, steps, uint64_t{note.length} + 1)};
}

SlotVecEnv::Lead SlotVecEnv::lead_of(int env, const FailureNote& note) const {
  if (env < 0) return {};
  const int group = group_of(env);
  const Request& request = in_flight_[group];
  if (request.work != Work::kStep) return {};
  return lead_of(env, note, request.actions, steps_[group]);
}

void SlotVecEnv::report(int env, const FailureNote& note, const std::string& cause, bool repeated,
                        Lead lead) {
  FailureReport failure{.purpose = options_.purpose,
                        .env_name = title_,
                        .env = env < 0 ? env : first_env() + env,
                        .seed = seed_,
                        .episode = note.episode,
                        .step = note.length,
                        .phase = note.phase == Phase::kReset ? "reset" : "step",
                        .action = std::move(lead.action),
                        .cause = cause,
                        .repeated = repeated,
                        .bundle = ""};
  if (env >= 0 && !repeated) write_bundle(failure, note, env, std::move(lead.actions));
  if (options_.on_failure == OnFailure::kRestart || repeated) ++restarts_;
  if (options_.on_failure == OnFailure::kDrop && !repeated) ++dropped_;
  // With `stop`, the exception that follows says it all.
  if (options_.on_failure != OnFailure::kStop) {
    log::warn(failure.message(), {{"outcome", outcome_of(options_.on_failure, repeated)}});
  }
  failures_.push_back(std::move(failure));
}

void SlotVecEnv::write_bundle(FailureReport& failure, const FailureNote& note, int env,
                              std::vector<std::vector<double>> actions) {
  // An env of another program cannot be replayed in this one.
  if (crash_dir_.empty() || bundles_ >= kMaxBundles || loop_->is_remote()) return;
  CrashBundle bundle{.env_name = env_name_,
                     .config_yaml = config_yaml_,
                     .spec_sha256 = spec().sha256(),
                     .time_limit = options_.time_limit,
                     .seed = seed_,
                     .env = stream_of_row(env),  // it had the numbers of this one
                     .episode = note.episode,
                     .episode_start = note.episode_start,
                     .steps_lost = 0,
                     .actions = std::move(actions),
                     .cause = failure.cause};
  if (note.phase == Phase::kStep) {
    bundle.steps_lost = uint64_t{note.length} + 1 - bundle.actions.size();
  }
  const std::string stem =
      fmt::format("{}-seed{}-env{}-episode{}", env_name_, seed_, failure.env, note.episode);
  try {
    const Directory folder = crash_dir_.make();
    const std::string name = unused_name(folder, stem);
    folder.write_new(name, bundle.text(), false);
    failure.bundle = folder.path(name);
    ++bundles_;
  } catch (const std::exception& error) {
    log::error("no crash bundle was written", {{"cause", error.what()}});
  }
}

void SlotVecEnv::throw_if_over(size_t first_failure) const {
  if (failures_.size() == first_failure) return;
  const FailureReport& first = failures_[first_failure];
  if (options_.on_failure == OnFailure::kStop) throw EnvFailure(first, "");
  if (out_of_service_) throw EnvFailure(first, "; it could not be restarted");
  require_restart_budget();
  if (dropped_ == num_envs()) throw EnvFailure(first, "; no environment is left");
}

void SlotVecEnv::throw_last_failure(const std::string& consequence) const {
  throw EnvFailure(failures_.back(), consequence);
}

void SlotVecEnv::require_restart_budget() const {
  if (options_.on_failure == OnFailure::kStop || restarts_ <= options_.restart_budget) return;
  throw_last_failure(fmt::format("; the restart budget of {} is used up", options_.restart_budget));
}

void SlotVecEnv::check_idle(const char* operation) const {
  for (int g = 0; g < groups(); ++g) {
    if (busy_[g]) {
      throw Error(ErrorCode::kUsage, fmt::format("{}() while group {} steps", operation, g));
    }
  }
}

void SlotVecEnv::check_view(const StepView& view) const {
  const auto n = static_cast<size_t>(num_envs());
  const bool inside =
      arena_->contains(view.obs, n * spec().obs.row_bytes()) &&
      arena_->contains(view.reward, n * sizeof(float)) && arena_->contains(view.terminated, n) &&
      arena_->contains(view.truncated, n) && arena_->contains(view.valid, n) &&
      arena_->contains(view.final_obs, n * spec().obs.row_bytes()) &&
      arena_->contains(view.episode_return, n * sizeof(float)) &&
      arena_->contains(view.episode_length, n * sizeof(int32_t)) &&
      arena_->contains(view.metrics, n * spec().metrics.size() * sizeof(float)) &&
      std::ranges::all_of(std::array{view.mask, view.advice}, [&](const uint8_t* choices) {
        return choices == nullptr || arena_->contains(choices, n * spec().action.mask_size());
      });
  if (!inside) throw Error(ErrorCode::kUsage, "a step view does not lie in this VecEnv's arena");
}

void SlotVecEnv::check_actions_place(ActionView actions) const {
  const size_t bytes = static_cast<size_t>(num_envs()) * spec().action.dims() * sizeof(int32_t);
  if (!arena_->contains(actions.data, bytes)) {
    throw Error(ErrorCode::kUsage, "the actions do not lie in this VecEnv's arena");
  }
}

void SlotVecEnv::save_head(Writer& writer, int envs) const {
  writer.text("env", env_name_);
  writer.text("spec_sha256", spec().sha256());
  writer.u64("num_envs", static_cast<uint64_t>(envs));
  writer.u64("slot_bytes", loop_->slot_bytes());
  writer.u64("seed", seed_);
}

void SlotVecEnv::save(Writer& writer) const {
  check_idle("save");
  if (!is_reset_) throw Error(ErrorCode::kUsage, "save() before reset()");
  save_head(writer, num_envs());
  const size_t slot_bytes = loop_->slot_bytes();
  for (int g = 0; g < groups(); ++g) {
    const Span envs = group(g);
    for (int env = envs.begin; env < envs.end; ++env) {
      const std::byte* slot = current_bank(g) + static_cast<size_t>(env) * slot_bytes;
      writer.bytes("slot", {slot, slot_bytes});
    }
  }
  if (memory() != nullptr) memory()->save(writer);
}

void SlotVecEnv::join(std::span<const std::vector<std::byte>> saved, Writer& writer) const {
  save_head(writer, options_.all_envs);
  for (const std::vector<std::byte>& bytes : saved) {
    Reader reader(bytes, "the environments of another process");
    const SavedHead head = read_head(reader);
    for (uint64_t env = 0; env < head.envs; ++env) writer.bytes("slot", reader.bytes("slot"));
  }
  if (memory() != nullptr) memory()->save(writer);
}

void SlotVecEnv::observe(const StepView& out) const {
  check_idle("observe");
  for (int g = 0; g < groups(); ++g) loop_->observe(group(g), current_bank(g), out);
}

void SlotVecEnv::expect_same(bool same, const std::string& what) const {
  if (!same) throw Error(ErrorCode::kData, "saved environments differ from these: " + what);
}

SlotVecEnv::SavedHead SlotVecEnv::read_head(Reader& reader) const {
  const std::string name = reader.text("env");
  expect_same(name == env_name_,
              fmt::format("{} was saved, this is '{}'", in_quotes(name), env_name_));
  expect_same(reader.text("spec_sha256") == spec().sha256(), "another spec of '" + env_name_ + "'");
  const uint64_t envs = reader.u64("num_envs");
  const uint64_t slot_bytes = reader.u64("slot_bytes");
  return {.envs = envs, .slot_bytes = slot_bytes, .seed = reader.u64("seed")};
}

void SlotVecEnv::load(Reader& reader, const StepView& out) {
  check_idle("load");
  check_view(out);
  const SavedHead head = read_head(reader);
  const auto own = static_cast<uint64_t>(num_envs());
  const bool of_all =
      options_.all_envs > num_envs() && head.envs == static_cast<uint64_t>(options_.all_envs);
  expect_same(head.envs == own || of_all,
              fmt::format("{} were saved, these are {}", head.envs, own));
  const size_t slot_bytes = loop_->slot_bytes();
  const uint64_t first = of_all ? static_cast<uint64_t>(first_env()) : 0;

  // Everything is read and checked before anything is changed.
  std::vector<std::byte> slots(own * slot_bytes);
  for (uint64_t i = 0; i < head.envs; ++i) {
    if (i < first || i >= first + own) {
      reader.bytes("slot");
      continue;
    }
    const uint64_t env = i - first;
    std::byte* slot = slots.data() + env * slot_bytes;
    const std::span<const std::byte> saved = reader.bytes("slot");
    expect_same(saved.size() == head.slot_bytes && loop_->read_slot(saved, slot),
                "states of another size");
    SlotHeader header;
    std::memcpy(static_cast<void*>(&header), slot, sizeof(header));
    const bool known = header.status <= SlotStatus::kDropped;
    expect_same(known && loop_->valid_state(slot),
                fmt::format("the state of env {} is damaged", env));
    const auto stream = static_cast<uint64_t>(stream_of_row(static_cast<int>(env)));
    expect_same(header.rng.stream() == stream_of(Purpose::kEnv, stream),
                fmt::format("the random numbers of env {} are those of another", env));
  }
  if (memory() != nullptr) memory()->load(reader);
  seed_ = head.seed;
  dropped_ = 0;
  out_of_service_ = false;
  const size_t first_failure = failures_.size();
  for (int env = 0; env < num_envs(); ++env) {
    dropped_ += slot_header(slots.data(), env).status == SlotStatus::kDropped;
  }
  for (int g = 0; g < groups(); ++g) {
    const Span envs = group(g);
    const size_t at = static_cast<size_t>(envs.begin) * slot_bytes;
    std::memcpy(current_bank(g) + at, slots.data() + at,
                static_cast<size_t>(envs.size()) * slot_bytes);
    steps_[g] = 0;
    if (loop_->is_remote()) {
      start_and_complete({.work = Work::kRestore,
                          .group = g,
                          .seed = head.seed,
                          .actions = {},
                          .view = out,
                          .actor = {}});
    } else {
      loop_->observe(envs, current_bank(g), out);
    }
  }
  is_reset_ = true;
  throw_if_over(first_failure);
}

std::vector<FailureReport> SlotVecEnv::take_failures() { return std::exchange(failures_, {}); }

}  // namespace flotilla
