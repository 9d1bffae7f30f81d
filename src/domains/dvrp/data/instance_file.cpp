#include "flotilla/domains/dvrp/data/instance_file.h"

#include <fmt/format.h>

#include <cmath>

#include "flotilla/core/json_fields.h"
#include "flotilla/core/text.h"

namespace flotilla::dvrp {
namespace {

constexpr uint64_t kFormat = 1;
constexpr size_t kMostRequests = 1000;
constexpr const char *kRideField = "max_ride", *kExcessField = "max_excess";

// The nearest one, in minutes.
float on_second(double minutes) { return static_cast<float>(std::round(60 * minutes) / 60); }

Window window_in(const JsonFields& fields, const char* name) {
  const Json& pair = fields.list(name);
  if (pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) fields.refuse_field(name);
  const double early = pair[0].get<double>(), late = pair[1].get<double>();
  if (early > late) {
    fields.refuse(std::string(name) + ": a window that ends before it begins");
  }
  // Written so that nothing passes that is no number.
  const bool in_the_day = early >= 0 && early <= late && late <= static_cast<double>(kDay);
  if (!in_the_day) fields.refuse(std::string(name) + ": a window outside of the day");
  return {on_second(early), on_second(late)};
}

// Minutes, as exactly as a file can have them.
Json json_of(const Window& window) { return {window.early_s() / 60, window.late_s() / 60}; }

void check_city(const JsonFields& fields, const Json& json, const City& city) {
  if (!json.contains("city")) return;
  const std::string other = fields.text("city");
  if (other == city.fingerprint()) return;
  fields.refuse(fmt::format("is of city {}, the data is of city {} (`dvrp inspect` names it)",
                            in_quotes(other), in_quotes(city.fingerprint())));
}

// Minutes; files without limits have none of them.
double limit_in(const JsonFields& fields, const Json& json, const char* name) {
  if (!json.contains(name)) return kUnlimited;
  const double minutes = fields.number(name);
  if (minutes <= 0)
    fields.refuse(fmt::format("{}: expected minutes above 0, got {}", name, minutes));
  return minutes;
}

// The trip's cell, as the file has it: the same row of other tables is another trip.
void check_cell(const JsonFields& fields, const Json& json, const char* name,
                const std::string& cell) {
  if (!json.contains(name)) return;
  const std::string other = fields.text(name);
  if (other == cell) return;
  fields.refuse(
      fmt::format("{}: {}, the trip of the data has {}", name, in_quotes(other), in_quotes(cell)));
}

Json json_of(const Instance& instance) {
  Json requests = Json::array();
  for (const Request& request : instance.requests) {
    requests.push_back({{"trip", request.trip + 1},
                        {"from", instance.city->name(request.origin)},
                        {"to", instance.city->name(request.destination)},
                        {"pickup", json_of(request.pickup)},
                        {"dropoff", json_of(request.dropoff)}});
  }
  Json json = {{"format", kFormat},
               {"city", instance.city->fingerprint()},
               {"requests", std::move(requests)}};
  if (instance.limits.ride < kUnlimited) json[kRideField] = instance.limits.ride;
  if (instance.limits.excess < kUnlimited) json[kExcessField] = instance.limits.excess;
  return json;
}

}  // namespace

std::string encode_instance(const Instance& instance) { return json_of(instance).dump(1) + "\n"; }

std::string encode_full_instance(const Instance& instance) {
  Json json = json_of(instance), windows = Json::array(), seconds = Json::array();
  for (int from = 0; from < instance.nodes(); ++from) {
    windows.push_back(json_of(instance.window(from)));
    Json row = Json::array();
    for (int to = 0; to < instance.nodes(); ++to) {
      row.push_back(instance.city->seconds(instance.cell(from), instance.cell(to)));
    }
    seconds.push_back(std::move(row));
  }
  json["capacity"] = kCapacity;
  json["windows"] = std::move(windows);
  json["seconds"] = std::move(seconds);
  return json.dump() + "\n";
}

bool is_instance(const std::string& text) {
  const Json json = Json::try_parse(text).value_or(Json());
  return json.is_object() && json.contains("format") && json.contains("requests");
}

Instance decode_instance(const std::string& text, const std::string& path, const Data& data) {
  const Json json = parse_json(text, path);
  const JsonFields fields(json, path);
  if (fields.count("format") != kFormat) {
    fields.refuse(
        fmt::format("is of format {}, this program reads {}", fields.count("format"), kFormat));
  }
  check_city(fields, json, data.city);
  const std::vector<Trip>& trips = data.travellers.trips;
  Instance instance{.city = &data.city,
                    .requests = {},
                    .limits = {.ride = limit_in(fields, json, kRideField),
                               .excess = limit_in(fields, json, kExcessField)}};
  for (const Json& each : fields.list("requests")) {
    const JsonFields of(each, fmt::format("{}, request {}", path, instance.requests.size() + 1));
    const uint64_t trip = of.count("trip");
    if (trip < 1 || trip > trips.size()) {
      of.refuse(fmt::format("there is no trip {}, there are {}", trip, trips.size()));
    }
    const Trip& known = trips[trip - 1];
    check_cell(of, each, "from", data.city.name(known.origin));
    check_cell(of, each, "to", data.city.name(known.destination));
    instance.requests.push_back({.trip = static_cast<int>(trip - 1),
                                 .origin = known.origin,
                                 .destination = known.destination,
                                 .pickup = window_in(of, "pickup"),
                                 .dropoff = window_in(of, "dropoff")});
    if (instance.requests.size() > kMostRequests) fields.refuse("more than 1000 requests");
  }
  return instance;
}

}  // namespace flotilla::dvrp
