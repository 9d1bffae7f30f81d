#include "flotilla/train/actor_messages.h"

#include <algorithm>
#include <cmath>

#include "flotilla/core/error.h"
#include "flotilla/core/serial.h"

namespace flotilla {
namespace {

constexpr const char* kOfActor = "what the actor says";
constexpr const char* kOfLearner = "what the learner says";

// Throws Error(kData) for what is not in 0..most.
int64_t number_of(Reader& reader, const char* tag, int64_t most) {
  const uint64_t value = reader.u64(tag);
  if (value > static_cast<uint64_t>(most)) {
    throw Error(ErrorCode::kData, std::string(tag) + ": a number out of range");
  }
  return static_cast<int64_t>(value);
}

void require_end(const Reader& reader) {
  if (!reader.at_end()) throw Error(ErrorCode::kData, "a message that goes on behind its end");
}

}  // namespace

Message encode(const ActorHello& hello) {
  Writer writer;
  writer.text("version", hello.version);
  writer.text("host", hello.host);
  return writer.buffer();
}

ActorHello read_hello(std::span<const std::byte> message) {
  Reader reader(message, kOfActor);
  ActorHello hello;
  hello.version = reader.text("version");
  hello.host = reader.text("host");
  require_end(reader);
  return hello;
}

Message encode(const ActorWelcome& welcome) {
  Writer writer;
  writer.text("refusal", welcome.refusal);
  writer.text("config", welcome.config);
  writer.u64("first_env", static_cast<uint64_t>(welcome.first_env));
  writer.u64("num_envs", static_cast<uint64_t>(welcome.num_envs));
  writer.u64("seed", welcome.seed);
  writer.f64("gamma", welcome.gamma);
  return writer.buffer();
}

ActorWelcome read_welcome(std::span<const std::byte> message) {
  Reader reader(message, kOfLearner);
  ActorWelcome welcome;
  welcome.refusal = reader.text("refusal");
  welcome.config = reader.text("config");
  welcome.first_env = static_cast<int>(number_of(reader, "first_env", kMaxEnvNumber));
  welcome.num_envs = static_cast<int>(number_of(reader, "num_envs", kMaxEnvs));
  welcome.seed = reader.u64("seed");
  welcome.gamma = reader.f64("gamma");
  require_end(reader);
  return welcome;
}

Message encode(const ActorReport& report, const Rollout& rollout) {
  Writer writer;
  writer.u64("state", static_cast<uint64_t>(report.state));
  if (report.state == ActorState::kColumns) {
    writer.u64("version", static_cast<uint64_t>(report.version));
    writer.u64("failures", static_cast<uint64_t>(report.failures));
    writer.bytes("returns", std::as_bytes(std::span(report.returns)));
    rollout.save(writer);
  }
  return writer.buffer();
}

ActorReport read_report(std::span<const std::byte> message, Rollout& rollout) {
  Reader reader(message, kOfActor);
  ActorReport report;
  const int64_t last = static_cast<int64_t>(ActorState::kLeaving);
  report.state = static_cast<ActorState>(number_of(reader, "state", last));
  if (report.state == ActorState::kColumns) {
    report.version = number_of(reader, "version", INT64_MAX);
    report.failures = number_of(reader, "failures", rollout.rows());
    report.returns.resize(static_cast<size_t>(rollout.num_envs()));
    reader.bytes_into("returns", std::as_writable_bytes(std::span(report.returns)));
    if (!std::ranges::all_of(report.returns, [](double one) { return std::isfinite(one); })) {
      throw Error(ErrorCode::kData, "a return that is not finite");
    }
    rollout.load(reader);
    rollout.require_learnable();
  }
  require_end(reader);
  return report;
}

uint64_t largest_report(const Rollout& rollout, const EnvSpec& spec) {
  const ActorReport report{.state = ActorState::kColumns,
                           .returns = std::vector<double>(static_cast<size_t>(rollout.num_envs()))};
  Writer episode;
  save_episode({.metrics = std::vector<float>(spec.metrics.size())}, episode);
  return encode(report, rollout).size() +
         static_cast<uint64_t>(rollout.rows()) * episode.buffer().size();
}

Message encode(const ActorPolicy& policy) {
  Writer writer;
  writer.u64("version", static_cast<uint64_t>(policy.version));
  writer.text("model", policy.model);
  return writer.buffer();
}

ActorPolicy read_policy(std::span<const std::byte> message) {
  Reader reader(message, kOfLearner);
  ActorPolicy policy;
  policy.version = number_of(reader, "version", INT64_MAX);
  policy.model = reader.text("model");
  require_end(reader);
  return policy;
}

}  // namespace flotilla
