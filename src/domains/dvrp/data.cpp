#include "flotilla/domains/dvrp/data.h"

#include <fmt/format.h>

#include <filesystem>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/log.h"

namespace flotilla::dvrp {
namespace {

constexpr const char* kMatrix = "/travel_time_matrix.csv";
constexpr const char* kTrips = "/traveler_trip_types.csv";
constexpr const char* kDecisions = "/traveler_decisions_augmented.csv";

void warn_of_doubts(const Data& data, const std::string& directory) {
  if (const int64_t count = data.city.triangle_violations(); count > 0) {
    log::warn("ways that are longer than a detour",
              {{"file", directory + kMatrix}, {"triples", std::to_string(count)}});
  }
  for (const std::string& row : infeasible_rows(data.travellers, data.city)) {
    log::warn("a trip that cannot be served alone under every shift",
              {{"file", directory + kTrips}, {"which", row}});
  }
}

}  // namespace

Data read_data(const std::string& directory) {
  City city = read_city(directory + kMatrix);
  Travellers travellers = read_travellers(directory + kTrips, directory + kDecisions, city);
  Data data{std::move(city), std::move(travellers)};
  warn_of_doubts(data, directory);
  return data;
}

void write_data(const Data& data, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw Error(ErrorCode::kUsage, "cannot make '" + directory + "': " + error.message());
  }
  for (const char* table : {kMatrix, kTrips, kDecisions}) {
    if (std::filesystem::exists(directory + table, error)) {
      throw Error(ErrorCode::kUsage, "'" + directory + table + "' is there already");
    }
  }
  write_file_atomically(directory + kMatrix, city_csv(data.city));
  write_file_atomically(directory + kTrips, trips_csv(data.travellers, data.city));
  write_file_atomically(directory + kDecisions, decisions_csv(data.travellers));
}

DataFacts facts_of(const Data& data) {
  const City& city = data.city;
  DataFacts facts{.cells = city.size(),
                  .travellers = data.travellers.count,
                  .trips = static_cast<int>(data.travellers.trips.size())};
  for (int i = 0; i < city.size(); ++i) {
    for (int j = 0; j < city.size(); ++j) {
      facts.mean_minutes += static_cast<double>(city.minutes(i, j)) /
                            (static_cast<double>(city.size()) * (city.size() - 1));
    }
  }
  const double weight = 1.0 / facts.trips;
  for (const Trip& trip : data.travellers.trips) {
    facts.mean_trip_minutes +=
        weight * static_cast<double>(city.minutes(trip.origin, trip.destination));
    facts.same_cell += trip.origin == trip.destination ? weight : 0;
    facts.accepted +=
        weight * static_cast<double>(trip.accepts[static_cast<size_t>(trip.flexibility)].count()) /
        kActions;
  }
  for (const std::vector<int>& trips : data.travellers.trips_of) {
    const Trip& any = data.travellers.trips[static_cast<size_t>(trips.front())];
    ++facts.of_flexibility[static_cast<size_t>(any.flexibility)];
  }
  facts.triangle_violations = city.triangle_violations();
  facts.infeasible = static_cast<int>(infeasible_rows(data.travellers, city).size());
  return facts;
}

}  // namespace flotilla::dvrp
