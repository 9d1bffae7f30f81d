// The one function of the plugin libflotilla_c10d.so.
#pragma once

#include "flotilla/nn/c10d.h"

namespace flotilla {

using MeetByC10d = Collective*(const Launch&, const MeetingOptions&);
constexpr const char* kMeetByC10d = "flotilla_meet_by_c10d";

}  // namespace flotilla
