// Remote actors as threads: what they and the learner tell each other, whole or refused, and a
// learner that goes on when one is lost, lies or comes late.
#include "flotilla/train/remote_actors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "flotilla/core/version.h"
#include "flotilla/train/actor_process.h"
#include "flotilla/train/trainer.h"
#include "support/error_text.h"
#include "support/thread_pair.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

const Overrides kRemote = {"algo=impala",       "backend=actors",
                           "num_envs=8",        "n_steps=16",
                           "actors=4",          "steps=2560",
                           "net.hidden=16,16",  "cluster.listen=127.0.0.1:5000",
                           "threads=1",         "normalize_reward=true",
                           "normalize_obs=true"};

// A rollout by itself, played by a policy.
struct Played {
  explicit Played(const std::string& env, int num_envs = 3)
      : run(run_config(env, {"algo=impala", "net.hidden=8", "n_steps=12", "num_envs=3"})) {
    VecOptions options;
    options.num_envs = num_envs;
    ArenaLayout layout;
    rollout = std::make_unique<Rollout>(layout, run.spec, num_envs, run.n_steps);
    vec = make_vec_env(run.type, run.env_config, options, layout);
    rollout->attach(vec->arena());
    policy = make_policy(run.network, {});
    Collector collector(*vec, *rollout, *policy, run.algorithm.needs, 1);
    collector.reset(1);
    collector.collect(0);
  }
  Message message() const {
    return encode({.state = ActorState::kColumns, .version = 7, .returns = {1, 2, 3}}, *rollout);
  }
  RunConfig run;
  std::unique_ptr<Rollout> rollout;
  std::unique_ptr<VecEnv> vec;
  std::unique_ptr<Policy> policy;
};

std::string bytes_of(const Rollout& rollout) {
  Writer writer;
  rollout.save(writer);
  return {reinterpret_cast<const char*>(writer.buffer().data()), writer.buffer().size()};
}

template <class F>
std::string text_of_error(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ActorMessages, ComeBackAsTheyWere) {
  for (const char* env : {"cartpole", "pendulum", "corners"}) {
    const Played sent(env);
    Played received(env);
    std::memset(received.rollout->obs, 0, 4);
    received.rollout->take_episodes();
    const ActorReport report = read_report(sent.message(), *received.rollout);
    EXPECT_EQ(report.version, 7);
    EXPECT_EQ(report.returns, (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(bytes_of(*received.rollout), bytes_of(*sent.rollout)) << env;
    EXPECT_LE(sent.message().size(), largest_report(*sent.rollout, sent.run.spec));
  }
  const ActorWelcome welcome = read_welcome(
      encode({.refusal = "no", .config = "a: 1", .first_env = 4, .num_envs = 2, .seed = 9}));
  EXPECT_EQ(welcome.config, "a: 1");
  EXPECT_EQ(welcome.first_env, 4);
  EXPECT_EQ(welcome.seed, 9U);
  EXPECT_EQ(read_hello(encode({.version = "v", .host = "h"})).host, "h");
  EXPECT_EQ(read_policy(encode({.version = 3, .model = "m"})).model, "m");
}

TEST(ActorMessages, ThatAreCutOrLongerAreRefused) {
  const Message whole = Played("cartpole").message();
  Played to("cartpole");
  for (size_t size = 0; size < whole.size(); size += size < 400 ? 1 : 97) {
    EXPECT_THROW(read_report(std::span(whole).first(size), *to.rollout), Error) << size;
  }
  Message longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_THROW(read_report(longer, *to.rollout), Error);
  EXPECT_THROW(read_report(Played("pendulum").message(), *to.rollout), Error);
}

// Whatever is changed: it is refused, or is a report that can be learnt from.
TEST(ActorMessages, WithAnyByteChangedAreRefusedOrWhole) {
  const Message whole = Played("corners").message();
  Played to("corners");
  int refused = 0;
  for (size_t at = 0; at < whole.size(); at += at < 400 ? 1 : 13) {
    for (const int bits : {0x01, 0x80, 0xff}) {
      Message changed = whole;
      changed[at] ^= static_cast<std::byte>(bits);
      try {
        read_report(changed, *to.rollout);
        to.rollout->require_learnable();
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300);
}

TEST(ActorMessages, OfWhatNoPolicyDidAreRefused) {
  const auto refuses = [](const std::string& env, const std::function<void(Rollout&)>& change) {
    Played sent(env), to(env);
    change(*sent.rollout);
    return text_of_error([&] { read_report(sent.message(), *to.rollout); });
  };
  EXPECT_NE(refuses("cartpole", [](Rollout& r) { r.reward[3] = NAN; }).find("reward"),
            std::string::npos);
  EXPECT_NE(refuses("cartpole", [](Rollout& r) { r.logprob[3] = INFINITY; }).find("logprob"),
            std::string::npos);
  EXPECT_NE(refuses("cartpole", [](Rollout& r) { r.valid[3] = 2; }).find("valid"),
            std::string::npos);
  EXPECT_NE(refuses("pendulum", [](Rollout& r) { reinterpret_cast<float*>(r.latent)[1] = NAN; })
                .find("action"),
            std::string::npos);
}

// Columns go where they belong, and nowhere else.
TEST(Rollout, TakesColumns) {
  Played all("corners", 6);
  const Played part("corners", 2);
  all.rollout->take_columns(*part.rollout, {2, 4}, 0);
  const Rollout &to = *all.rollout, &from = *part.rollout;
  for (int step = 0; step < to.horizon(); ++step) {
    for (int env = 0; env < 2; ++env) {
      EXPECT_EQ(to.logprob[to.row(step, 2 + env)], from.logprob[from.row(step, env)]);
      EXPECT_EQ(to.reward[to.row(step, 2 + env)], from.reward[from.row(step, env)]);
    }
  }
  const Played again("corners", 6);
  EXPECT_EQ(to.logprob[to.row(3, 1)], again.rollout->logprob[to.row(3, 1)]);
  EXPECT_EQ(to.logprob[to.row(3, 4)], again.rollout->logprob[to.row(3, 4)]);
}

class Learning {
 public:
  explicit Learning(const Overrides& more = {})
      : run_(run_config("cartpole", with(kRemote, more))) {
    run_.cluster.listener = &listener;
    trainer = std::make_unique<Trainer>(run_);
  }
  ~Learning() { end(); }
  void end() {
    trainer.reset();
    for (std::thread& each : actors_) each.join();
    actors_.clear();
  }
  // Plays until the learner ends, or so many steps.
  void start_actor(int64_t most = INT64_MAX) {
    actors_.emplace_back([this, most, pair = listener.join()]() mutable {
      try {
        ActorProcess actor(registry(), built_in_algorithms(), {}, *pair, {.threads = 1});
        actor.play([&](int64_t steps) {
          if (steps >= most) throw Error(ErrorCode::kEnvironment, "killed");
        });
      } catch (const Error& error) {
        ended_by = error.what();
      }
      pair.reset();
    });
  }

  ThreadListener listener;
  std::unique_ptr<Trainer> trainer;
  std::string ended_by;  // of the last actor to end

 private:
  RunConfig run_;
  std::vector<std::thread> actors_;
};

TEST(RemoteActors, LearnFromOneAndTellItTheEnd) {
  Learning learning;
  learning.start_actor();
  learning.trainer->train();
  EXPECT_EQ(learning.trainer->progress().steps, 2560);
  EXPECT_EQ(learning.trainer->progress().updates, 20);
  EXPECT_GT(learning.trainer->progress().episodes, 20);
  EXPECT_TRUE(std::isnan(learning.trainer->expected_eval_s()));
  learning.end();
  EXPECT_EQ(learning.ended_by, "the run has ended");
}

TEST(RemoteActors, GoOnWithoutOneThatIsLostAndTakeAnotherIn) {
  Learning learning;
  learning.start_actor(96);
  learning.start_actor(160);
  learning.trainer->iterate();
  learning.start_actor();
  learning.trainer->train();
  EXPECT_EQ(learning.trainer->progress().steps, 2560);
}

TEST(RemoteActors, JoinOnceTheListenerAnswersAgain) {
  Learning learning;
  learning.listener.be_silent(3);
  learning.start_actor();
  learning.trainer->train();
  EXPECT_EQ(learning.trainer->progress().steps, 2560);
}

TEST(RemoteActors, EndTheRunWhereNoneIsThereAndNoneCanCome) {
  Learning learning;
  learning.listener.be_silent(INT_MAX);
  EXPECT_EQ(error_text(ErrorCode::kEnvironment, [&] { learning.trainer->train(); }), "no answer");
}

TEST(RemoteActors, EndTheConnectionOfOneThatSendsWhatCannotBe) {
  Learning learning;
  const auto liar = learning.listener.join();
  broadcast_bytes(*liar, encode(ActorHello{.version = kVersionLine, .host = "x\n\x1b"}), 1);
  const uint64_t size = uint64_t{1} << 60U;
  std::vector<std::byte> bytes(8);
  std::memcpy(bytes.data(), &size, 8);
  liar->broadcast(bytes, 1);
  learning.start_actor();
  learning.trainer->train();
  EXPECT_EQ(learning.trainer->progress().steps, 2560);
  EXPECT_TRUE(read_welcome(broadcast_bytes(*liar, {}, 0, kLargestWelcome)).refusal.empty());
  EXPECT_NE(error_text(ErrorCode::kData, [&] { broadcast_bytes(*liar, {}, 0); })
                .find("a message of 1152921504606846976 bytes"),
            std::string::npos);
}

TEST(RemoteActors, RefuseAnotherVersion) {
  Learning learning;
  const auto other = learning.listener.join();
  broadcast_bytes(*other, encode(ActorHello{.version = "flotilla 0.0", .host = "x"}), 1);
  learning.start_actor();
  learning.trainer->iterate();
  EXPECT_NE(read_welcome(broadcast_bytes(*other, {}, 0)).refusal.find("this actor is flotilla 0.0"),
            std::string::npos);
}

TEST(RemoteActors, AreRefusedWhereTheyCannotBe) {
  const auto refusal = [](const Overrides& more) {
    return error_text(ErrorCode::kUsage, [&] { run_config("cartpole", with(kRemote, more)); });
  };
  for (const auto& [setting, text] : std::vector<std::pair<std::string, std::string>>{
           {"cluster.listen=x:y", "cluster.listen: expected HOST:PORT"},
           {"cluster.listen=0.0.0.0:5000", "cluster.listen: expected the address"},
           {"backend=threads", "algo, backend: expected"},
           {"async.schedule=fixed", "async.schedule: expected free"},
           {"actors=3", "actors: expected a number that divides num_envs 8"},
           {"workers=2", "workers: expected none"},
           {"replicas=2", "replicas: expected 1"}}) {
    EXPECT_NE(refusal({setting}).find(text), std::string::npos) << refusal({setting});
  }
}

}  // namespace
}  // namespace flotilla::test
