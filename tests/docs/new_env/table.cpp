#include "table.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "flotilla/env/vec_env.h"

namespace {

using flotilla::StepView;

std::string number(const std::byte* row) {
  float value = 0;
  std::memcpy(&value, row, sizeof(value));
  return std::to_string(static_cast<int>(value));
}

// The value that stands for everything after this step.
std::string bootstrap(const StepView& view) {
  if (view.valid[0] == 0) return "V(obs of the last valid row); this row is left out";
  if (view.terminated[0] != 0) return "0";
  return view.truncated[0] != 0 ? "V(final_obs)" : "V(obs)";
}

}  // namespace

void print_autoreset_table(const flotilla::EnvType& climb) {
  constexpr const char* kNames[] = {"wait", "up", "break"};
  constexpr int32_t kActions[] = {1, 1, 1, 0, 0, 1, 0, 1, 1, 2, 1};
  const flotilla::Config config(climb.schema);
  flotilla::VecOptions options;
  options.on_failure = flotilla::OnFailure::kRestart;
  flotilla::ArenaLayout layout;
  const flotilla::StepFields fields(layout, climb.spec(config), 1, 1);
  const auto vec = flotilla::make_vec_env(climb, config, options, layout);
  const StepView view = fields.view(vec->arena(), 0);
  vec->reset(0, view);

  std::puts(
      "| t | action | reward | terminated | truncated | valid | obs | final_obs | bootstrap |");
  std::puts("|---|---|---|---|---|---|---|---|---|");
  int t = 0;
  for (const int32_t action : kActions) {
    std::memcpy(fields.actions(vec->arena(), 0), &action, sizeof(action));
    vec->begin(0, {fields.actions(vec->arena(), 0)}, view);
    vec->wait(0);
    const bool ended = view.terminated[0] != 0 || view.truncated[0] != 0;
    std::printf("| %d | %s | %g | %d | %d | %d | %s | %s | %s |\n", t++, kNames[action],
                static_cast<double>(view.reward[0]), view.terminated[0], view.truncated[0],
                view.valid[0], number(view.obs).c_str(),
                ended ? number(view.final_obs).c_str() : "", bootstrap(view).c_str());
  }
}
