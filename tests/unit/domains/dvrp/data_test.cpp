// The made-up city has the statistics it should have; tables are read back as they were written,
// and what is wrong with one is named by file, row and column.
#include "flotilla/domains/dvrp/data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/core/file.h"
#include "flotilla/core/sha256.h"
#include "flotilla/domains/dvrp/generate.h"
#include "support/error_text.h"

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

// What commands work on by default: it may not change unnoticed.
TEST(MadeUpData, OfSeedZeroStaysWhatItIs) {
  const Data data = generate_data({});
  EXPECT_EQ(data.travellers.trips.size(), 1565u);
  EXPECT_EQ(sha256_hex(city_csv(data.city) + trips_csv(data.travellers, data.city) +
                       decisions_csv(data.travellers)),
            "ac78c4eb812fb610212f473c2d76705c6da42a8850f7ba09ef79be866f211212");
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

TEST_F(DataFiles, AreReadAsTheyWereWritten) {
  const Data read = read_data(root_);
  EXPECT_EQ(city_csv(read.city), city_csv(data_.city));
  EXPECT_EQ(read.city.depot(), data_.city.depot());
  EXPECT_EQ(trips_csv(read.travellers, read.city), trips_csv(data_.travellers, data_.city));
  ASSERT_EQ(read.travellers.trips.size(), data_.travellers.trips.size());
  int differing = 0;
  for (size_t i = 0; i < read.travellers.trips.size(); ++i) {
    differing += read.travellers.trips[i].accepts == data_.travellers.trips[i].accepts ? 0 : 1;
  }
  // Two trips that look the same in the tables share what the last row says.
  EXPECT_LE(differing, 4);
}

TEST_F(DataFiles, AreRefusedByFileRowAndColumn) {
  const std::string matrix = "travel_time_matrix.csv", trips = "traveler_trip_types.csv",
                    decisions = "traveler_decisions_augmented.csv";
  EXPECT_NE(refusal(matrix, "\ncell001,", "\ncell001,x").find("line 3, column 'cell000'"),
            std::string::npos);
  EXPECT_NE(refusal(matrix, "\ncell001,", "\ncell001,-").find("a negative travel time"),
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
}

TEST_F(DataFiles, TripsThatCannotBeServedAreNamed) {
  Travellers travellers = data_.travellers;
  travellers.trips[4].pickup = {0, 30};
  travellers.trips[5].dropoff = {1410, 1440};
  const std::vector<std::string> rows = infeasible_rows(travellers, data_.city);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].starts_with("trip 5, of traveller 1: its pickup"));
  EXPECT_TRUE(rows[1].starts_with("trip 6, of traveller 1: its drop-off"));
}

}  // namespace
}  // namespace flotilla::dvrp
