// Instances as files, to solve and to look at:
//   {"format": 1, "city": "9e107d9d372bb682",
//    "requests": [{"trip": 17, "from": "a", "to": "b", "pickup": [430, 460], "dropoff": [455,
//    485]},
//                 ...]}
// Limits of rides, in minutes, stand beside the requests where there are any: "max_ride": 60,
// "max_excess": 30. Windows are read to the nearest second. A trip is the row of the data's table
// of trips, from 1; the windows may be shifted ones. City and cells tell files of other data apart;
// older files do not have them.
#pragma once

#include <string>

#include "flotilla/domains/dvrp/data/instance.h"

namespace flotilla::dvrp {

std::string encode_instance(const Instance& instance);
// The same on one line, with what a program needs that does not have the data, by node:
//   "capacity": 8, "windows": [[0, 1440], ...] in minutes, "seconds": [[0, 612, ...], ...]
// A reader takes these from its data, and does not look at them.
std::string encode_full_instance(const Instance& instance);
// Whether it is one, of whatever data and with whatever faults.
bool is_instance(const std::string& text);
// Throws Error(kData) that names the file, the request and what is wrong: also that it is of
// another city, or of other trips. `data` must outlive the instance.
Instance decode_instance(const std::string& text, const std::string& path, const Data& data);

}  // namespace flotilla::dvrp
