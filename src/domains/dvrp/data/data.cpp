#include "flotilla/domains/dvrp/data/data.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/log.h"

namespace flotilla::dvrp {
namespace {

constexpr const char* kMatrix = "/travel_time_matrix.csv";
constexpr const char* kTrips = "/traveler_trip_types.csv";
constexpr const char* kDecisions = "/traveler_decisions_augmented.csv";
constexpr const char* kGz = ".gz";

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Plain or gzipped, whichever is there. Of two, nobody knows which one is meant.
std::string path_of(const std::string& directory, const char* table) {
  const std::string plain = directory + table;
  if (!exists(plain + kGz)) return plain;
  if (exists(plain)) {
    throw Error(ErrorCode::kData, plain + ": is there twice, plain and as .gz; remove one");
  }
  return plain + kGz;
}

void warn_of_doubts(const Data& data, const std::string& matrix, const std::string& trips) {
  if (const City::Triangles found = data.city.triangles(); found.violations > 0) {
    log::warn("ways that are longer than a detour",
              {{"file", matrix},
               {"triples", std::to_string(found.violations)},
               {"by_at_most", fmt::format("{} s", found.worst_seconds)}});
  }
  for (const std::string& row : infeasible_rows(data.travellers, data.city)) {
    log::warn("a trip that cannot be served alone under every shift",
              {{"file", trips}, {"which", row}});
  }
}

}  // namespace

Data read_data(const std::string& directory, Decisions decisions) {
  const std::string matrix = path_of(directory, kMatrix), trips = path_of(directory, kTrips);
  const std::string answers = path_of(directory, kDecisions);
  const bool by_rule = decisions == Decisions::kIfThere && !exists(answers);
  City city = read_city(matrix);
  Travellers travellers = read_travellers(trips, by_rule ? "" : answers, city);
  Data data{std::move(city), std::move(travellers)};
  // Once: an env is made many times from the same tables.
  static std::atomic<bool> said = false;
  if (by_rule && !said.exchange(true)) {
    log::warn("no table of decisions: where travellers answer, they do so by rule (env.acceptance)",
              {{"file", answers}});
  }
  warn_of_doubts(data, matrix, trips);
  return data;
}

void write_data(const Data& data, const std::string& directory, Packing packing) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw Error(ErrorCode::kUsage, "cannot make '" + directory + "': " + error.message());
  }
  for (const char* table : {kMatrix, kTrips, kDecisions}) {
    for (const std::string& path : {directory + table, directory + table + kGz}) {
      if (exists(path)) throw Error(ErrorCode::kUsage, "'" + path + "' is there already");
    }
  }
  write_file_atomically(directory + kMatrix, city_csv(data.city));
  write_file_atomically(directory + kTrips, trips_csv(data.travellers, data.city));
  const std::string decisions = decisions_csv(data.travellers);
  if (packing == Packing::kPlain) {
    write_file_atomically(directory + kDecisions, decisions);
  } else {
    write_file_atomically(directory + kDecisions + kGz, gzipped(decisions));
  }
}

DataFacts facts_of(const Data& data) {
  const City& city = data.city;
  DataFacts facts{.city = city.fingerprint(),
                  .cells = city.size(),
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
  facts.triangle_violations = city.triangles().violations;
  facts.infeasible = static_cast<int>(infeasible_rows(data.travellers, city).size());
  return facts;
}

}  // namespace flotilla::dvrp
