// The functions of the plugin libflotilla_c10d.so.
#pragma once

#include "flotilla/nn/c10d.h"

namespace flotilla {

using MeetByC10d = Collective*(const Launch&, const MeetingOptions&);
constexpr const char* kMeetByC10d = "flotilla_meet_by_c10d";
using ListenByC10d = Listener*(const Endpoint&, double deadline_s);
constexpr const char* kListenByC10d = "flotilla_listen_by_c10d";
using JoinByC10d = Collective*(const Endpoint&, double wait_s);
constexpr const char* kJoinByC10d = "flotilla_join_by_c10d";

}  // namespace flotilla
