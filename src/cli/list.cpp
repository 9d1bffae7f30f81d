// flotilla list [ENV]: the environments, or the settings of one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/command.h"

namespace flotilla {
namespace {

std::string describe_obs(const ObsSpace& obs) {
  return fmt::format("{} [{}]", obs.type == ObsType::kUint8 ? "uint8" : "float32",
                     fmt::join(obs.shape, ", "));
}

void print_all(const Registry& registry) {
  for (const EnvType& type : registry.types()) {
    const auto kernel = type.make_kernel(Config(type.schema), 0);
    fmt::print("{:<10} {:<18} {:<20} {}\n", type.name, describe_obs(kernel->spec().obs),
               kernel->spec().action.describe(), type.summary);
  }
}

void print_one(const EnvType& type) {
  const auto kernel = type.make_kernel(Config(type.schema), 0);
  const EnvSpec& spec = kernel->spec();
  fmt::print("{}: {}\n\n", type.name, type.summary);
  fmt::print("observation  {}\naction       {}{}\ntime limit   {}\nmetrics      {}\n\n",
             describe_obs(spec.obs), spec.action.describe(), spec.has_mask ? ", masked" : "",
             spec.time_limit > 0 ? fmt::format("{} steps", spec.time_limit) : "none",
             spec.metrics.empty() ? "none" : fmt::format("{}", fmt::join(spec.metrics, ", ")));
  fmt::print("{}", type.schema.help());
}

}  // namespace

void add_list_command(CLI::App& app, Program& program) {
  CLI::App* command = app.add_subcommand("list", "show the environments, or the settings of one");
  auto name = std::make_shared<std::string>();
  command->add_option("env", *name, "environment to show in detail");
  command->callback([&program, name] {
    if (name->empty()) {
      print_all(program.registry);
    } else {
      print_one(program.registry.find(*name));
    }
  });
}

}  // namespace flotilla
