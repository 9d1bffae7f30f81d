// The tables of trips and of decisions, read and written.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "flotilla/core/error.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/log.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/data/travellers.h"

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

// "[37.76, -122.44]"
std::optional<Position> parse_position(std::string_view text) {
  const auto take = [&text](std::string_view sign) {
    const bool there = text.starts_with(sign);
    if (there) text.remove_prefix(sign.size());
    return there;
  };
  const auto take_degrees = [&text](double& degrees, double most) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), degrees);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return error == std::errc() && degrees >= -most && degrees <= most;
  };
  Position position;
  if (!take("[") || !take_degrees(position.latitude, 90) || !take(",")) return std::nullopt;
  take(" ");  // or none
  if (!take_degrees(position.longitude, 180) || text != "]") return std::nullopt;
  return position;
}

std::string position_text(const std::optional<Position>& position) {
  return position ? fmt::format("[{:.6f}, {:.6f}]", position->latitude, position->longitude) : "";
}

// The mean of all positions that trips name in each cell.
class PositionMeans {
 public:
  explicit PositionMeans(City& city) : city_(city), counts_(static_cast<size_t>(city.size())) {}

  // An empty text is no position.
  void add(const CsvTable& table, size_t row, const char* column, int cell) {
    if (!table.has(column)) return;
    const std::string_view text = table.text(row, table.column(column));
    if (text.empty()) return;
    const std::optional<Position> position = parse_position(text);
    if (!position) {
      table.refuse(row, table.column(column),
                   "expected a position such as [37.76, -122.44], got " + in_quotes(text));
    }
    if (cell < 0) return;
    // So that the mean of equal ones is the same to the last bit.
    const double part = 1.0 / ++counts_[static_cast<size_t>(cell)];
    Position mean = city_.position(cell).value_or(*position);
    mean.latitude += part * (position->latitude - mean.latitude);
    mean.longitude += part * (position->longitude - mean.longitude);
    city_.set_position(cell, mean);
  }

 private:
  City& city_;
  std::vector<int> counts_;  // by cell
};

double amount_at(const CsvTable& table, size_t row, const char* column) {
  if (!table.has(column) || table.text(row, table.column(column)).empty()) return 0;
  const double amount = table.number(row, table.column(column));
  if (amount < 0) table.refuse(row, table.column(column), "expected a number that is not negative");
  return amount;
}

// All rows, also of cells that the city does not have (-1).
std::vector<Trip> read_trips(const CsvTable& table, City& city) {
  const size_t pickup = table.column("departure_time_window");
  const size_t dropoff = table.column("arrival_time_window");
  const auto text = [&table](size_t row, const char* column) {
    return std::string(table.text(row, table.column(column)));
  };
  PositionMeans positions(city);
  std::vector<Trip> trips;
  for (size_t row = 0; row < table.rows(); ++row) {
    Trip trip;
    trip.line = table.line(row);
    const int64_t id = table.integer(row, table.column("traveler_id"));
    if (id < 1 || id > kMostTravellers) {
      table.refuse(row, table.column("traveler_id"),
                   fmt::format("travellers are numbered from 1 to {}", kMostTravellers));
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
    trip.miles = amount_at(table, row, "trip_distance_miles");
    trip.duration_minutes = amount_at(table, row, "trip_duration_minutes");
    positions.add(table, row, "origin_gps", trip.origin);
    positions.add(table, row, "destination_gps", trip.destination);
    trips.push_back(std::move(trip));
  }
  return trips;
}

bool has_cells(const Trip& trip) { return trip.origin >= 0 && trip.destination >= 0; }

// Of each traveller what the last of his rows says.
std::vector<Person> read_people(const CsvTable& table, int count) {
  std::vector<Person> people(static_cast<size_t>(count));
  const auto text = [&table](size_t row, const char* column) {
    return table.has(column) ? std::string(table.text(row, table.column(column))) : "";
  };
  for (size_t row = 0; row < table.rows(); ++row) {
    const auto traveller = static_cast<size_t>(table.integer(row, table.column("traveler_id")) - 1);
    if (traveller >= people.size()) continue;  // of cells that the city does not have
    people[traveller] = {text(row, "age"), text(row, "occupation"), text(row, "income")};
  }
  return people;
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

// What a row of decisions and a trip share.
using DecisionKey = std::array<std::string, kDecisionKey.size()>;

DecisionKey key_of(const Trip& trip) {
  return {std::to_string(trip.traveller + 1),
          trip.purpose,
          trip.departure,
          trip.arrival,
          window_text(trip.pickup),
          window_text(trip.dropoff)};
}

// The trips of a key. Where several share one, the first rows on it are of the first of them, the
// second rows of the second, and so on; the last rows are also of those that have none.
struct SharedKey {
  std::vector<size_t> trips;
  std::array<size_t, kActions> rows = {};  // so far, by action
};

// Names the first field of a key that no trip has together with the fields before it.
[[noreturn]] void refuse_unknown(const CsvTable& table, size_t row, const DecisionKey& key,
                                 const std::vector<Trip>& trips) {
  size_t most = 0;
  for (const Trip& trip : trips) {
    const DecisionKey other = key_of(trip);
    const auto differ = std::ranges::mismatch(key, other).in1;
    most = std::max(most, static_cast<size_t>(differ - key.begin()));
  }
  table.refuse(
      row, table.column(kDecisionKey[most]),
      fmt::format("the table of trips has no such trip: {} is in none", in_quotes(key[most])));
}

// Fills in what the table says of each trip. What it does not say is a rejection.
void read_decisions(const CsvTable& table, std::vector<Trip>& trips) {
  std::array<size_t, kDecisionKey.size()> columns{};
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = table.column(kDecisionKey[i]);
  const size_t pickup = table.column("pickup_shift_min");
  const size_t dropoff = table.column("dropoff_shift_min");
  const std::array<size_t, kFlexibilities> answers = answer_columns(table);
  std::map<DecisionKey, SharedKey> by_key;
  for (size_t i = 0; i < trips.size(); ++i) by_key[key_of(trips[i])].trips.push_back(i);
  for (size_t row = 0; row < table.rows(); ++row) {
    DecisionKey key;
    for (size_t i = 0; i < key.size(); ++i) key[i] = table.text(row, columns[i]);
    const auto found = by_key.find(key);
    if (found == by_key.end()) refuse_unknown(table, row, key, trips);
    const int earlier = shift_at(table, row, pickup);
    const auto action =
        static_cast<size_t>(kShifts * (kShifts - 1 - earlier) + shift_at(table, row, dropoff));
    SharedKey& shared = found->second;
    const size_t first = shared.rows[action]++;
    for (size_t type = 0; type < kFlexibilities; ++type) {
      const bool accept = accept_at(table, row, answers[type]);
      for (size_t i = first; i < shared.trips.size(); ++i) {
        trips[shared.trips[i]].accepts[type][action] = accept;
      }
    }
  }
}

// Without those of cells that the city does not have, with a warning.
std::vector<Trip> with_cells(std::vector<Trip> trips, const std::string& path) {
  const auto first = std::ranges::find_if_not(trips, has_cells);
  if (first == trips.end()) return trips;
  const size_t line = first->line;
  const size_t count = std::erase_if(trips, [](const Trip& trip) { return !has_cells(trip); });
  log::warn(
      "trips of cells that the city does not have are left out",
      {{"file", path}, {"rows", std::to_string(count)}, {"first_line", std::to_string(line)}});
  return trips;
}

}  // namespace

Travellers read_travellers(const std::string& trips_path, const std::string& decisions_path,
                           City& city) {
  const CsvTable table = read_csv_or_gzip(trips_path);
  std::vector<Trip> trips = read_trips(table, city);
  if (decisions_path.empty()) {
    for (Trip& trip : trips) trip.accepts = accepts_by_rule();
  } else {
    read_decisions(read_csv_or_gzip(decisions_path), trips);
  }
  Travellers travellers = gathered(with_cells(std::move(trips), trips_path));
  if (travellers.trips.empty()) {
    throw Error(ErrorCode::kData, trips_path + ": has no trip in the cells of the city");
  }
  for (size_t i = 0; i < travellers.trips_of.size(); ++i) {
    if (travellers.trips_of[i].empty()) {
      throw Error(ErrorCode::kData, fmt::format("{}: traveller {} has no trip", trips_path, i + 1));
    }
  }
  travellers.people = read_people(table, travellers.count);
  return travellers;
}

std::string trips_csv(const Travellers& travellers, const City& city) {
  CsvWriter csv({"traveler_id", "age", "occupation", "income", "flexibility", "trip_purpose",
                 "departure_location", "arrival_location", "origin_gps", "destination_gps",
                 "trip_distance_miles", "trip_duration_minutes", "departure_time_window",
                 "arrival_time_window", "flexibility_pickup_earlier", "flexibility_dropoff_later",
                 "origin_h3", "destination_h3"});
  const auto known = [](double amount) { return amount > 0 ? fmt::format("{}", amount) : ""; };
  for (const Trip& trip : travellers.trips) {
    const auto traveller = static_cast<size_t>(trip.traveller);
    const Person person =
        traveller < travellers.people.size() ? travellers.people[traveller] : Person{};
    csv.add(trip.traveller + 1)
        .add(person.age)
        .add(person.occupation)
        .add(person.income)
        .add(kFlexibilityTexts[static_cast<size_t>(trip.flexibility)])
        .add(trip.purpose)
        .add(trip.departure)
        .add(trip.arrival)
        .add(position_text(city.position(trip.origin)))
        .add(position_text(city.position(trip.destination)))
        .add(known(trip.miles))
        .add(known(trip.duration_minutes))
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

}  // namespace flotilla::dvrp
