#include "flotilla/nn/c10d.h"

#include "flotilla/nn/torch/c10d_plugin.h"
#include "flotilla/nn/torch_loader.h"

namespace flotilla {
namespace {

template <class Function>
Function* plugin_function(const char* name) {
  return reinterpret_cast<Function*>(open_torch_plugin("libflotilla_c10d.so", name));
}

}  // namespace

std::unique_ptr<Collective> meet(const Launch& launch, const MeetingOptions& options) {
  return std::unique_ptr<Collective>(plugin_function<MeetByC10d>(kMeetByC10d)(launch, options));
}

std::unique_ptr<Listener> listen_for_actors(const Endpoint& at, double deadline_s) {
  return std::unique_ptr<Listener>(plugin_function<ListenByC10d>(kListenByC10d)(at, deadline_s));
}

std::unique_ptr<Collective> join_learner(const Endpoint& at, double wait_s) {
  return std::unique_ptr<Collective>(plugin_function<JoinByC10d>(kJoinByC10d)(at, wait_s));
}

}  // namespace flotilla
