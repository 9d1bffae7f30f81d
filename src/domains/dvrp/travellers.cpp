#include "flotilla/domains/dvrp/travellers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "flotilla/core/csv.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/text.h"

namespace flotilla::dvrp {
namespace {

constexpr int kMostTravellers = 100'000;

// "07:30" in minutes. Hours may be 24 at the end of the day.
std::optional<float> parse_time(std::string_view text) {
  const auto digit = [&text](size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  if (text.size() != 5 || text[2] != ':' || !digit(0) || !digit(1) || !digit(3) || !digit(4)) {
    return std::nullopt;
  }
  const int hours = 10 * (text[0] - '0') + text[1] - '0';
  const int minutes = 10 * (text[3] - '0') + text[4] - '0';
  if (minutes >= 60 || 60 * hours + minutes > static_cast<int>(kDay)) return std::nullopt;
  return static_cast<float>(60 * hours + minutes);
}

Window window_at(const CsvTable& table, size_t row, size_t column) {
  const std::string_view text = table.text(row, column);
  const size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto early = parse_time(text.substr(0, dash)), late = parse_time(text.substr(dash + 1));
    if (early && late && *early <= *late) return {*early, *late};
  }
  table.refuse(
      row, column,
      fmt::format("expected a window of the day such as 07:30-08:00, got {}", in_quotes(text)));
}

std::string window_text(const Window& window) {
  const auto time = [](float minutes) {
    const int whole = static_cast<int>(minutes);
    return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
  };
  return time(window.early) + "-" + time(window.late);
}

// Sentences of other files say the same in other words.
std::optional<Flexibility> parse_flexibility(std::string_view text) {
  const auto place = [text](std::string_view word) {
    return std::min(text.find(word), text.size());
  };
  if (text.starts_with("inflexible")) return Flexibility::kNone;
  if (!text.starts_with("flexible")) return std::nullopt;
  if (place("both") < text.size()) return Flexibility::kBoth;
  if (place("late") == place("early")) return std::nullopt;  // neither
  return place("late") < place("early") ? Flexibility::kLate : Flexibility::kEarly;
}

Flexibility flexibility_at(const CsvTable& table, size_t row, size_t column) {
  if (const auto flexibility = parse_flexibility(table.text(row, column))) return *flexibility;
  table.refuse(row, column,
               fmt::format("expected one of '{}', got {}",
                           join({kFlexibilityTexts.begin(), kFlexibilityTexts.end()}, "', '"),
                           in_quotes(table.text(row, column))));
}

int cell_at(const CsvTable& table, size_t row, const char* column, const City& city) {
  return city.find(std::string(table.text(row, table.column(column))));
}

std::vector<Trip> read_trips(const CsvTable& table, const City& city, int& left_out) {
  const size_t pickup = table.column("departure_time_window");
  const size_t dropoff = table.column("arrival_time_window");
  const auto text = [&table](size_t row, const char* column) {
    return std::string(table.text(row, table.column(column)));
  };
  std::vector<Trip> trips;
  for (size_t row = 0; row < table.rows(); ++row) {
    Trip trip;
    const int64_t id = table.integer(row, table.column("traveler_id"));
    if (id < 1 || id > kMostTravellers) {
      table.refuse(row, table.column("traveler_id"), "travellers are numbered from 1");
    }
    trip.traveller = static_cast<int>(id - 1);
    trip.flexibility = flexibility_at(table, row, table.column("flexibility"));
    trip.origin = cell_at(table, row, "origin_h3", city);
    trip.destination = cell_at(table, row, "destination_h3", city);
    trip.pickup = window_at(table, row, pickup);
    trip.dropoff = window_at(table, row, dropoff);
    trip.purpose = text(row, "trip_purpose");
    trip.departure = text(row, "departure_location");
    trip.arrival = text(row, "arrival_location");
    const auto minutes = [&](const char* column) {
      if (table.integer(row, table.column(column)) < 0) {
        table.refuse(row, table.column(column), "minutes below 0");
      }
      return static_cast<int>(
          std::clamp<int64_t>(table.integer(row, table.column(column)), 0, 1440));
    };
    trip.earlier_minutes = minutes("flexibility_pickup_earlier");
    trip.later_minutes = minutes("flexibility_dropoff_later");
    if (trip.origin < 0 || trip.destination < 0) {
      ++left_out;
    } else {
      trips.push_back(std::move(trip));
    }
  }
  return trips;
}

constexpr std::array<const char*, 6> kDecisionKey = {
    "traveler_id",      "trip_purpose",          "departure_location",
    "arrival_location", "departure_time_window", "arrival_time_window"};

// The column of each flexibility, by its sentence.
std::array<size_t, kFlexibilities> answer_columns(const CsvTable& table) {
  std::array<size_t, kFlexibilities> columns{};
  columns.fill(table.columns().size());
  for (size_t column = 0; column < table.columns().size(); ++column) {
    if (const auto flexibility = parse_flexibility(table.columns()[column])) {
      columns[static_cast<size_t>(*flexibility)] = column;
    }
  }
  for (size_t i = 0; i < kFlexibilities; ++i) {
    if (columns[i] == table.columns().size()) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: there is no column '{}'", table.origin(), kFlexibilityTexts[i]));
    }
  }
  return columns;
}

// Minutes of a shift, as its place in kShiftMinutes.
int shift_at(const CsvTable& table, size_t row, size_t column) {
  const auto at = std::ranges::find(kShiftMinutes, table.integer(row, column));
  if (at == kShiftMinutes.end()) table.refuse(row, column, "expected 0, 10, 20 or 30 minutes");
  return static_cast<int>(at - kShiftMinutes.begin());
}

bool accept_at(const CsvTable& table, size_t row, size_t column) {
  const std::string_view text = table.text(row, column);
  if (text != "accept" && text != "reject") {
    table.refuse(row, column, "expected accept or reject, got " + in_quotes(text));
  }
  return text == "accept";
}

// Fills in what the table says of each trip, found by all that a row and a trip share. What it does
// not say is a rejection.
void read_decisions(const CsvTable& table, Travellers& travellers) {
  std::array<size_t, kDecisionKey.size()> key{};
  for (size_t i = 0; i < key.size(); ++i) key[i] = table.column(kDecisionKey[i]);
  const size_t pickup = table.column("pickup_shift_min");
  const size_t dropoff = table.column("dropoff_shift_min");
  const std::array<size_t, kFlexibilities> answers = answer_columns(table);
  std::map<std::string, std::vector<size_t>> trips;  // by key
  for (size_t i = 0; i < travellers.trips.size(); ++i) {
    const Trip& trip = travellers.trips[i];
    trips[join({std::to_string(trip.traveller + 1), trip.purpose, trip.departure, trip.arrival,
                window_text(trip.pickup), window_text(trip.dropoff)},
               "\n")]
        .push_back(i);
  }
  for (size_t row = 0; row < table.rows(); ++row) {
    std::vector<std::string> values;
    for (const size_t column : key) values.emplace_back(table.text(row, column));
    const auto found = trips.find(join(values, "\n"));
    if (found == trips.end()) continue;
    const int earlier = shift_at(table, row, pickup);
    const int action = kShifts * (kShifts - 1 - earlier) + shift_at(table, row, dropoff);
    for (size_t type = 0; type < kFlexibilities; ++type) {
      const bool accept = accept_at(table, row, answers[type]);
      for (const size_t trip : found->second) {
        travellers.trips[trip].accepts[type][static_cast<size_t>(action)] = accept;
      }
    }
  }
}

}  // namespace

const std::array<const char*, kFlexibilities> kFlexibilityTexts = {
    "flexible for late dropoff, but inflexible for early pickup",
    "flexible for early pickup, but inflexible for late dropoff",
    "inflexible for any schedule changes", "flexible for both early pickup and late dropoff"};

std::bitset<kActions> accepts_within(int earlier_minutes, int later_minutes) {
  std::bitset<kActions> accepts;
  for (int action = 0; action < kActions; ++action) {
    const Shift shift = shift_of(action);
    accepts[static_cast<size_t>(action)] =
        shift.pickup <= earlier_minutes && shift.dropoff <= later_minutes;
  }
  return accepts;
}

std::array<std::bitset<kActions>, kFlexibilities> accepts_by_rule() {
  constexpr int kAny = kShiftMinutes.back();
  return {accepts_within(0, kAny), accepts_within(kAny, 0), accepts_within(0, 0),
          accepts_within(kAny, kAny)};
}

Travellers gathered(std::vector<Trip> trips) {
  Travellers travellers{.count = 0, .trips = std::move(trips), .trips_of = {}};
  for (const Trip& trip : travellers.trips) {
    travellers.count = std::max(travellers.count, trip.traveller + 1);
  }
  travellers.trips_of.resize(static_cast<size_t>(travellers.count));
  for (size_t i = 0; i < travellers.trips.size(); ++i) {
    travellers.trips_of[static_cast<size_t>(travellers.trips[i].traveller)].push_back(
        static_cast<int>(i));
  }
  return travellers;
}

Travellers read_travellers(const std::string& trips_path, const std::string& decisions_path,
                           const City& city) {
  int left_out = 0;
  const CsvTable table = read_csv_file(trips_path);
  Travellers travellers = gathered(read_trips(table, city, left_out));
  if (left_out > 0) {
    log::warn("trips of cells that the city does not have are left out",
              {{"file", trips_path}, {"rows", std::to_string(left_out)}});
  }
  if (travellers.trips.empty()) {
    throw Error(ErrorCode::kData, trips_path + ": has no trip in the cells of the city");
  }
  for (size_t i = 0; i < travellers.trips_of.size(); ++i) {
    if (travellers.trips_of[i].empty()) {
      throw Error(ErrorCode::kData, fmt::format("{}: traveller {} has no trip", trips_path, i + 1));
    }
  }
  read_decisions(read_csv_file(decisions_path), travellers);
  return travellers;
}

std::string trips_csv(const Travellers& travellers, const City& city) {
  CsvWriter csv({"traveler_id", "flexibility", "trip_purpose", "departure_location",
                 "arrival_location", "departure_time_window", "arrival_time_window",
                 "flexibility_pickup_earlier", "flexibility_dropoff_later", "origin_h3",
                 "destination_h3"});
  for (const Trip& trip : travellers.trips) {
    csv.add(trip.traveller + 1)
        .add(kFlexibilityTexts[static_cast<size_t>(trip.flexibility)])
        .add(trip.purpose)
        .add(trip.departure)
        .add(trip.arrival)
        .add(window_text(trip.pickup))
        .add(window_text(trip.dropoff))
        .add(trip.earlier_minutes)
        .add(trip.later_minutes)
        .add(city.name(trip.origin))
        .add(city.name(trip.destination));
    csv.end_row();
  }
  return csv.text();
}

std::string decisions_csv(const Travellers& travellers) {
  std::vector<std::string> columns(kDecisionKey.begin(), kDecisionKey.end());
  columns.insert(columns.end(), {"pickup_shift_min", "dropoff_shift_min"});
  columns.insert(columns.end(), kFlexibilityTexts.begin(), kFlexibilityTexts.end());
  CsvWriter csv(columns);
  for (const Trip& trip : travellers.trips) {
    for (int action = 0; action < kActions; ++action) {
      csv.add(trip.traveller + 1)
          .add(trip.purpose)
          .add(trip.departure)
          .add(trip.arrival)
          .add(window_text(trip.pickup))
          .add(window_text(trip.dropoff))
          .add(shift_of(action).pickup)
          .add(shift_of(action).dropoff);
      for (const auto& accepts : trip.accepts) {
        csv.add(accepts[static_cast<size_t>(action)] ? "accept" : "reject");
      }
      csv.end_row();
    }
  }
  return csv.text();
}

std::vector<std::string> infeasible_rows(const Travellers& travellers, const City& city) {
  std::vector<std::string> rows;
  constexpr auto kMost = static_cast<float>(kShiftMinutes.back());
  for (size_t i = 0; i < travellers.trips.size(); ++i) {
    const Trip& trip = travellers.trips[i];
    const float out = city.minutes(city.depot(), trip.origin);
    const float way = city.minutes(trip.origin, trip.destination);
    const float back = city.minutes(trip.destination, city.depot());
    const auto say = [&](const std::string& what) {
      rows.push_back(fmt::format("trip {}, of traveller {}: {}", i + 1, trip.traveller + 1, what));
    };
    if (trip.pickup.late - kMost < out) {
      say(fmt::format("its pickup, 30 minutes earlier, is {:.1f} minutes from the depot", out));
    } else if (std::max(out, trip.pickup.early) + way > trip.dropoff.late) {
      say(fmt::format("the way takes {:.1f} minutes, longer than its windows allow", way));
    } else if (trip.dropoff.late + kMost + back > kDay) {
      say("its drop-off, 30 minutes later, leaves no time for the way to the depot");
    }
  }
  return rows;
}

}  // namespace flotilla::dvrp
