// flotilla actor HOST:PORT: plays for a learner that listens there.
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <string>

#include "flotilla/cli/commands.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/endpoint.h"
#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/env/python_env.h"
#include "flotilla/nn/c10d.h"
#include "flotilla/train/actor_process.h"

namespace flotilla {
namespace {

struct ActorArguments {
  std::string learner;
  ActorOptions options;
  double wait_s = 30;
};

constexpr const char* kLeaving =
    "flotilla: interrupted: this rollout ends, then the actor leaves\n";

std::string counted_workers(const RunConfig& run) {
  return run.vec.in_workers() ? ", " + counted(run.vec.workers, "worker") : "";
}

void play_for(const Program& program, Collective& learner, const ActorOptions& options) {
  ActorProcess actor(program.registry, program.algorithms, program.policy_factory, learner,
                     options);
  say(fmt::format("envs {} to {} of {}, {}{}\n", actor.first_env(),
                  actor.first_env() + actor.num_envs() - 1, actor.run().type.name,
                  counted(actor.run().threads, "thread"), counted_workers(actor.run())));
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
  std::signal(SIGPIPE, SIG_IGN);  // what is sent to a learner that dies just then
  const Endpoint at = endpoint_from(arguments.learner, "actor");
  const std::unique_ptr<Collective> learner = [&] {
    const Activity waiting("waiting for the learner at " + at.text());
    return join_learner(at, arguments.wait_s);
  }();
  try {
    play_for(program, *learner, arguments.options);
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
  command.option("--threads", arguments->options.threads, "that play (default one per CPU)")
      .range(1, 1024);
  command
      .option("--workers", arguments->options.workers,
              "processes that have the environments (default none; in Python, one per thread)")
      .range(1, 1024);
  command.option("--env", arguments->options.env,
                 "gym:ID or py:MODULE:NAME that the learner may have this actor run");
  add_python_option(command);
  command.option("--wait", arguments->wait_s, "seconds for the learner to be there (default 30)")
      .range(0.1, 1e6);
  command.action([&program, arguments] {
    python_settings().named.insert(arguments->options.env);
    act_for(program, *arguments);
  });
}

}  // namespace flotilla
