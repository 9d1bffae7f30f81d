// A city and its travellers in a directory:
//   travel_time_matrix.csv              seconds between cells
//   traveler_trip_types.csv             a trip per row
//   traveler_decisions_augmented.csv    what travellers say to each shift of a trip's windows
// Each may be gzipped: .csv.gz.
#pragma once

#include <string>
#include <vector>

#include "flotilla/domains/dvrp/data/city.h"
#include "flotilla/domains/dvrp/data/travellers.h"

namespace flotilla::dvrp {

struct Data {
  City city;
  Travellers travellers;
};

// Whether the table of decisions must be there. Without it travellers answer by their kind of
// flexibility alone.
enum class Decisions : uint8_t { kRequired, kIfThere };
// Warns of ways that are longer than detours, and of trips that cannot be served alone. Throws
// Error(kData) that names file, row and column.
Data read_data(const std::string& directory, Decisions decisions = Decisions::kRequired);
enum class Packing : uint8_t { kPlain, kGzippedDecisions };  // by far the largest table
// Refuses a directory that holds one of the tables: Error(kUsage).
void write_data(const Data& data, const std::string& directory, Packing packing = Packing::kPlain);

struct DataFacts {
  std::string city;  // its fingerprint
  int cells = 0, travellers = 0, trips = 0;
  double mean_minutes = 0;       // between two cells
  double mean_trip_minutes = 0;  // from origin to destination
  double same_cell = 0;          // part of the trips
  double accepted = 0;           // part of all trips and actions
  int64_t triangle_violations = 0;
  int infeasible = 0;
  std::array<int, kFlexibilities> of_flexibility = {};  // travellers
};
DataFacts facts_of(const Data& data);

}  // namespace flotilla::dvrp
