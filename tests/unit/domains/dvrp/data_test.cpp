// The made-up city has the statistics it should have; tables are read back as they were written,
// and what is wrong with one is named by file, row and column.
#include "flotilla/domains/dvrp/data/data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "flotilla/core/csv.h"
#include "flotilla/core/file.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/sha256.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "support/error_text.h"
#include "support/source_dir.h"

namespace flotilla::dvrp {
namespace {

namespace fs = std::filesystem;
using test::error_text;

TEST(Actions, AreSixteenShifts) {
  EXPECT_EQ(shift_of(0).pickup, 30);
  EXPECT_EQ(shift_of(0).dropoff, 0);
  EXPECT_EQ(shift_of(3).pickup, 30);
  EXPECT_EQ(shift_of(3).dropoff, 30);
  EXPECT_EQ(shift_of(15).pickup, 0);
  EXPECT_EQ(shift_of(15).dropoff, 30);
  const auto rule = accepts_by_rule();
  EXPECT_EQ(rule[static_cast<size_t>(Flexibility::kNone)].to_ulong(), 1u << kNoShift);
  EXPECT_EQ(rule[static_cast<size_t>(Flexibility::kBoth)].count(), 16u);
  EXPECT_EQ(rule[static_cast<size_t>(Flexibility::kLate)].to_ulong(), 0xF000u);   // sp = 0
  EXPECT_EQ(rule[static_cast<size_t>(Flexibility::kEarly)].to_ulong(), 0x1111u);  // sd = 0
}

TEST(MadeUpData, HasTheStatisticsOfTheRealOne) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    const Data data = generate_data({.seed = seed});
    const DataFacts facts = facts_of(data);
    EXPECT_EQ(facts.cells, 31);
    EXPECT_EQ(facts.travellers, 30);
    EXPECT_NEAR(facts.mean_minutes, 1226.0 / 60, 0.1);
    EXPECT_EQ(facts.of_flexibility, (std::array<int, 4>{8, 13, 6, 3}));
    EXPECT_GT(facts.accepted, 0.26);
    EXPECT_LT(facts.accepted, 0.31);
    EXPECT_NEAR(facts.mean_trip_minutes, 15, 5);
    EXPECT_GT(facts.same_cell, 0.02);
    EXPECT_LT(facts.same_cell, 0.2);
    EXPECT_EQ(facts.infeasible, 0);
    EXPECT_EQ(facts.triangle_violations, 0);
    for (const std::vector<int>& trips : data.travellers.trips_of) {
      EXPECT_GE(trips.size(), 43u);
      EXPECT_LE(trips.size(), 70u);
    }
    for (const Trip& trip : data.travellers.trips) {
      EXPECT_EQ(trip.pickup.late - trip.pickup.early, 30);
      EXPECT_EQ(trip.dropoff.late - trip.dropoff.early, 30);
      for (const auto& accepts : trip.accepts) EXPECT_TRUE(accepts[kNoShift]);
    }
  }
}

TEST(MadeUpData, DependsOnTheSeedAlone) {
  const Data one = generate_data({.seed = 4}), same = generate_data({.seed = 4}),
             other = generate_data({.seed = 5});
  EXPECT_EQ(city_csv(one.city), city_csv(same.city));
  EXPECT_EQ(decisions_csv(one.travellers), decisions_csv(same.travellers));
  EXPECT_NE(city_csv(one.city), city_csv(other.city));
  const DataFacts large = facts_of(generate_data({.cells = 207, .travellers = 60, .seed = 1}));
  EXPECT_EQ(large.cells, 207);
  EXPECT_EQ(large.travellers, 60);
  EXPECT_EQ(large.infeasible, 0);
}

// A table with some of its columns.
std::string with_columns(const std::string& text, const std::vector<std::string>& columns) {
  const CsvTable table = read_csv(text, "a table");
  CsvWriter csv(columns);
  for (size_t row = 0; row < table.rows(); ++row) {
    for (const std::string& column : columns) csv.add(table.text(row, table.column(column)));
    csv.end_row();
  }
  return csv.text();
}

// What commands work on by default: it may not change unnoticed. First what routing depends on,
// then the whole table of trips.
TEST(MadeUpData, OfSeedZeroStaysWhatItIs) {
  const Data data = generate_data({});
  EXPECT_EQ(data.travellers.trips.size(), 1565u);
  const std::string trips = trips_csv(data.travellers, data.city);
  const std::string routed =
      with_columns(trips, {"traveler_id", "flexibility", "trip_purpose", "departure_location",
                           "arrival_location", "departure_time_window", "arrival_time_window",
                           "flexibility_pickup_earlier", "flexibility_dropoff_later", "origin_h3",
                           "destination_h3"});
  EXPECT_EQ(sha256_hex(city_csv(data.city) + routed + decisions_csv(data.travellers)),
            "ac78c4eb812fb610212f473c2d76705c6da42a8850f7ba09ef79be866f211212");
  EXPECT_EQ(sha256_hex(trips), "10c6a7c8ef48a2e34756e3adfd8a1865d4b6019ca5c3bb879ca9508399a77ef7");
}

TEST(MadeUpData, HasPeopleAndLengths) {
  const Data data = generate_data({});
  std::set<std::string> ages, occupations, incomes;
  ASSERT_EQ(data.travellers.people.size(), 30u);
  for (const Person& person : data.travellers.people) {
    ages.insert(person.age);
    occupations.insert(person.occupation);
    incomes.insert(person.income);
  }
  EXPECT_EQ(ages.size(), 5u);
  EXPECT_EQ(occupations.size(), 7u);
  EXPECT_EQ(incomes.size(), 6u);
  double sum = 0, squares = 0;
  int as_windows = 0;
  const double n = static_cast<double>(data.travellers.trips.size());
  for (const Trip& trip : data.travellers.trips) {
    EXPECT_GE(trip.miles, 0.1);
    EXPECT_LE(trip.miles, 12.5);
    sum += trip.miles;
    squares += trip.miles * trip.miles;
    const double shown = static_cast<double>(trip.dropoff.early - trip.pickup.early);
    as_windows += trip.duration_minutes == shown ? 1 : 0;
  }
  EXPECT_NEAR(sum / n, 3.5, 0.5);
  EXPECT_NEAR(std::sqrt(squares / n - sum * sum / n / n), 1.4, 0.6);
  EXPECT_NEAR(as_windows / n, 0.97, 0.012);
  for (int cell = 0; cell < data.city.size(); ++cell) {  // the box of a degree around the city
    ASSERT_TRUE(data.city.position(cell));
    EXPECT_NEAR(data.city.position(cell)->latitude, 37.76, 0.07);
    EXPECT_NEAR(data.city.position(cell)->longitude, -122.44, 0.13);
  }
}

void expect_same(const Data& one, const Data& other) {
  EXPECT_EQ(city_csv(one.city), city_csv(other.city));
  EXPECT_EQ(one.city.depot(), other.city.depot());
  for (int cell = 0; cell < one.city.size(); ++cell) {
    EXPECT_EQ(one.city.position(cell), other.city.position(cell)) << cell;
  }
  EXPECT_EQ(trips_csv(one.travellers, one.city), trips_csv(other.travellers, other.city));
  EXPECT_EQ(decisions_csv(one.travellers), decisions_csv(other.travellers));
  EXPECT_EQ(one.travellers.people, other.travellers.people);
  EXPECT_EQ(one.travellers.trips_of, other.travellers.trips_of);
}

TEST(MadeUpData, IsInTheAssets) {
  expect_same(read_data(test::source_dir() + "/assets/dvrp"), generate_data({}));
}

class DataFiles : public testing::Test {
 protected:
  DataFiles() {
    write_data(data_, root_);
    EXPECT_NE(error_text(ErrorCode::kUsage, [this] { write_data(data_, root_); }).find("already"),
              std::string::npos);
  }
  ~DataFiles() override { fs::remove_all(root_); }

  // Reads the tables with one text replaced by another.
  std::string refusal(const std::string& file, const std::string& from, const std::string& to) {
    const std::string path = root_ + "/" + file;
    const std::string whole = read_whole_file(path, size_t{1} << 26u);
    std::string text = whole;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    std::ofstream(path) << text.replace(at, from.size(), to);
    std::string message = error_text(ErrorCode::kData, [this] { read_data(root_); });
    std::ofstream(path) << whole;
    EXPECT_TRUE(message.starts_with(path + ": ")) << message;
    return message.substr(std::min(message.size(), path.size() + 2));
  }

  const Data data_ = generate_data({.cells = 6, .travellers = 3, .seed = 9});
  const std::string root_ =
      fs::temp_directory_path() / ("flotilla-dvrp-" + std::to_string(getpid()));
};

TEST_F(DataFiles, AreReadAsTheyWereWritten) { expect_same(read_data(root_), data_); }

TEST_F(DataFiles, MayBeGzipped) {
  const std::string packed = root_ + "/packed", table = "/traveler_decisions_augmented.csv";
  write_data(data_, packed, Packing::kGzippedDecisions);
  EXPECT_FALSE(fs::exists(packed + table));
  expect_same(read_data(packed), data_);
  EXPECT_EQ(read_gzipped(root_ + table, size_t{1} << 26u), decisions_csv(data_.travellers))
      << "plain files are read by the same function";
  const std::string gz = packed + table + ".gz";
  const auto refusal = [&] { return error_text(ErrorCode::kData, [&] { read_data(packed); }); };
  fs::copy_file(root_ + table, packed + table);
  EXPECT_EQ(refusal(), packed + table + ": is there twice, plain and as .gz; remove one");
  fs::remove(packed + table);
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { read_gzipped(gz, fs::file_size(gz)); }),
            gz + ": is too large");
  fs::resize_file(gz, fs::file_size(gz) / 2);
  EXPECT_EQ(refusal(), gz + ": is damaged: it cannot be unpacked");
  fs::copy_file(root_ + table, gz, fs::copy_options::overwrite_existing);
  EXPECT_EQ(refusal(), gz + ": is damaged: it is no gzip file");
}

// Rows of trips that look the same belong to them in their order; what is missing for the second
// one is taken from the first.
TEST_F(DataFiles, TripsThatLookTheSameHaveTheirOwnDecisions) {
  Data twins = data_;
  std::vector<Trip>& trips = twins.travellers.trips;
  trips[1] = trips[2] = trips[0];
  constexpr size_t kEarly = static_cast<size_t>(Flexibility::kEarly);
  trips[1].accepts[kEarly].flip(3);
  trips[2].accepts[kEarly].flip(7);
  const std::string other = root_ + "/twins";
  write_data(twins, other);
  expect_same(read_data(other), twins);
  // Without the rows of the third one.
  const std::string path = other + "/traveler_decisions_augmented.csv";
  std::istringstream whole(read_whole_file(path, size_t{1} << 26u));
  std::ofstream cut(path);
  std::string line;
  for (int i = 0; std::getline(whole, line); ++i) {
    if (i <= 2 * kActions || i > 3 * kActions) cut << line << "\n";
  }
  cut.close();
  EXPECT_EQ(read_data(other).travellers.trips[2].accepts, trips[1].accepts);
}

TEST_F(DataFiles, MayLackWhatRoutingDoesNotNeed) {
  const std::string path = root_ + "/traveler_trip_types.csv";
  const std::string text = with_columns(
      read_whole_file(path, size_t{1} << 26u),
      {"destination_h3", "origin_h3", "flexibility_dropoff_later", "flexibility_pickup_earlier",
       "arrival_time_window", "departure_time_window", "arrival_location", "departure_location",
       "trip_purpose", "flexibility", "traveler_id"});
  std::ofstream(path) << text;
  const Data read = read_data(root_);
  EXPECT_EQ(decisions_csv(read.travellers), decisions_csv(data_.travellers));
  EXPECT_EQ(read.city.position(0), std::nullopt);
  EXPECT_EQ(read.travellers.people[0], Person{});
  EXPECT_EQ(read.travellers.trips[0].miles, 0);
  const CsvTable again = read_csv(trips_csv(read.travellers, read.city), "again");
  EXPECT_EQ(again.text(0, again.column("origin_gps")), "");
  EXPECT_EQ(again.text(0, again.column("trip_distance_miles")), "");
}

// Positions of a user's trips are not those of cells.
TEST_F(DataFiles, PositionsOfACellAreTheMeanOfItsTrips) {
  const std::string path = root_ + "/traveler_trip_types.csv";
  const CsvTable table = read_csv_file(path);
  const std::string cell(table.text(0, table.column("origin_h3")));
  CsvWriter csv(table.columns());
  int in_it = 0;
  for (size_t row = 0; row < table.rows(); ++row) {
    for (size_t column = 0; column < table.columns().size(); ++column) {
      std::string text(table.text(row, column));
      if (table.columns()[column] == "destination_gps") text = "";
      if (table.columns()[column] == "origin_gps") {
        const bool here = table.text(row, table.column("origin_h3")) == cell;
        text = here && in_it < 4 ? fmt::format("[{}, -122]", 30 + in_it) : "";
        in_it += here ? 1 : 0;
      }
      csv.add(text);
    }
    csv.end_row();
  }
  ASSERT_GE(in_it, 4);
  std::ofstream(path) << csv.text();
  const Data read = read_data(root_);
  EXPECT_NEAR(read.city.position(read.city.find(cell))->latitude, 31.5, 1e-12);
  EXPECT_EQ(read.city.position(read.city.find(cell))->longitude, -122);
}

TEST_F(DataFiles, AreRefusedByFileRowAndColumn) {
  const std::string matrix = "travel_time_matrix.csv", trips = "traveler_trip_types.csv",
                    decisions = "traveler_decisions_augmented.csv";
  EXPECT_NE(refusal(matrix, "\ncell001,", "\ncell001,x").find("line 3, column 'cell000'"),
            std::string::npos);
  EXPECT_NE(refusal(matrix, "\ncell001,", "\ncell001,-").find("a negative travel time"),
            std::string::npos);
  EXPECT_NE(refusal(matrix, "\ncell001,", "\ncell001,86401").find("of more than a day"),
            std::string::npos);
  EXPECT_NE(refusal(matrix, "\ncell005", "\ncell004").find("expected 'cell005'"),
            std::string::npos);
  EXPECT_NE(refusal(trips, "arrival_time_window", "arrival").find("arrival_time_window"),
            std::string::npos);
  EXPECT_NE(refusal(trips, "flexible for", "bendable for").find("column 'flexibility'"),
            std::string::npos);
  EXPECT_NE(refusal(trips, "\n1,", "\n0,").find("travellers are numbered from 1"),
            std::string::npos);
  const std::string window =
      trips_csv(data_.travellers, data_.city).find("08:") != std::string::npos ? "08:" : "09:";
  EXPECT_NE(refusal(trips, "," + window, ",28:").find("expected a window of the day"),
            std::string::npos);
  EXPECT_NE(refusal(decisions, "accept", "perhaps").find("expected accept or reject"),
            std::string::npos);
  EXPECT_NE(refusal(decisions, "inflexible for any", "lazy for any").find("there is no column"),
            std::string::npos);
  EXPECT_NE(refusal(trips, "\"[3", "\"[93").find("column 'origin_gps': expected a position"),
            std::string::npos);
  EXPECT_NE(refusal(trips, ",\"[3", ",\"3").find("line 2, column 'origin_gps'"), std::string::npos);
  EXPECT_EQ(refusal(decisions, "\n1,", "\n4,"),
            "line 2, column 'traveler_id': the table of trips has no such trip: '4' is in none");
  EXPECT_EQ(refusal(decisions, ",home,", ",hom,"),
            "line 2, column 'departure_location': the table of trips has no such trip: 'hom' is "
            "in none");
}

TEST_F(DataFiles, TripsThatCannotBeServedAreNamed) {
  Travellers travellers = data_.travellers;
  travellers.trips[4].pickup = {0, 30};
  travellers.trips[5].dropoff = {1410, 1440};
  const std::vector<std::string> rows = infeasible_rows(travellers, data_.city);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].starts_with("trip 5, of traveller 1: its pickup"));
  EXPECT_TRUE(rows[1].starts_with("trip 6, of traveller 1: its drop-off"));
  travellers.trips[4].line = 6;
  EXPECT_TRUE(
      infeasible_rows(travellers, data_.city)[0].starts_with("trip 5 in line 6, of traveller 1:"));
}

}  // namespace
}  // namespace flotilla::dvrp
