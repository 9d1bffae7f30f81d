// flotilla actor HOST:PORT: plays for a learner that listens there.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "flotilla/cli/commands.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/endpoint.h"
#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/nn/c10d.h"
#include "flotilla/train/actor_process.h"

namespace flotilla {
namespace {

struct ActorArguments {
  std::string learner;
  int threads = 0;
  double wait_s = 30;
};

constexpr const char* kLeaving =
    "flotilla: interrupted: this rollout ends, then the actor leaves\n";

void play_for(const Program& program, Collective& learner, int threads) {
  ActorProcess actor(program.registry, program.algorithms, program.policy_factory, learner,
                     threads);
  say(fmt::format("envs {} to {} of {}, {}\n", actor.first_env(),
                  actor.first_env() + actor.num_envs() - 1, actor.run().type.name,
                  counted(actor.run().threads, "thread")));
  wait_for_interrupted_work(kLeaving);
  Activity playing("playing");
  const uint64_t start = now_ns();
  actor.play([&](int64_t steps) {
    playing.tell([&] {
      const double per_second = static_cast<double>(steps) / seconds_since(start);
      return Status{.facts = {rate(per_second) + " steps/s", grouped(steps) + " steps"}};
    });
  });
}

void act_for(const Program& program, const ActorArguments& arguments) {
  const Endpoint at = endpoint_from(arguments.learner, "actor");
  const std::unique_ptr<Collective> learner = [&] {
    const Activity waiting("waiting for the learner at " + at.text());
    return join_learner(at, arguments.wait_s);
  }();
  try {
    play_for(program, *learner, arguments.threads);
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    // By the learner, which has told all of its actors so.
    if (error.code() == ErrorCode::kInterrupted && !interrupted()) {
      return say(std::string(error.what()) + "\n");
    }
    learner->fail(error);
    throw;
  }
}

}  // namespace

void add_actor_command(Command& root, Program& program) {
  Command& command = root.add("actor", "play for a learner on another machine");
  auto arguments = std::make_shared<ActorArguments>();
  command.option("learner", arguments->learner, "HOST:PORT of its cluster.listen").required();
  command.option("--threads", arguments->threads, "that play (default one per CPU)").range(1, 1024);
  command.option("--wait", arguments->wait_s, "seconds for the learner to be there (default 30)")
      .range(0.1, 1e6);
  command.action([&program, arguments] { act_for(program, *arguments); });
}

}  // namespace flotilla
