// Who travels: trips with their time windows, how flexible each traveller is, and which shifts of
// the windows he accepts.
#pragma once

#include <array>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/data/city.h"

namespace flotilla::dvrp {

// What a traveller may be asked for: a pickup up to 30 minutes earlier, a drop-off up to 30 later.
constexpr int kShifts = 4, kActions = kShifts * kShifts;
constexpr std::array<int, kShifts> kShiftMinutes = {0, 10, 20, 30};
constexpr int kNoShift = 12;
struct Shift {
  int pickup = 0;   // minutes earlier
  int dropoff = 0;  // minutes later
};
constexpr Shift shift_of(int action) {
  return {.pickup = kShiftMinutes[static_cast<size_t>(3 - action / kShifts)],
          .dropoff = kShiftMinutes[static_cast<size_t>(action % kShifts)]};
}
constexpr int minutes_of(int action) { return shift_of(action).pickup + shift_of(action).dropoff; }
static_assert(shift_of(kNoShift).pickup == 0 && shift_of(kNoShift).dropoff == 0);

enum class Flexibility : uint8_t { kLate, kEarly, kNone, kBoth };
constexpr int kFlexibilities = 4;
extern const std::array<const char*, kFlexibilities> kFlexibilityTexts;

// Minutes of the day, on whole seconds: a float is some thousandths of a second beside those that
// are no whole minutes.
struct Window {
  float early = 0, late = 0;
  double early_s() const { return std::round(60 * static_cast<double>(early)); }
  double late_s() const { return std::round(60 * static_cast<double>(late)); }
  bool operator==(const Window&) const = default;
};

struct Trip {
  int traveller = 0;  // from 0
  Flexibility flexibility = Flexibility::kNone;
  int origin = 0, destination = 0;  // cells
  Window pickup, dropoff;
  std::string purpose, departure, arrival;     // places
  int earlier_minutes = 0, later_minutes = 0;  // that the traveller bears
  // As stated with the trip; routes go by the city's times. 0: not known.
  double miles = 0, duration_minutes = 0;
  size_t line = 0;  // of the table it was read from; 0: none
  // What a traveller of each flexibility would say to each action.
  std::array<std::bitset<kActions>, kFlexibilities> accepts = {};

  bool accepted(int action) const {
    return accepts[static_cast<size_t>(flexibility)][static_cast<size_t>(action)];
  }
};

// By rule alone: early pickups only, late drop-offs only, both or none.
std::array<std::bitset<kActions>, kFlexibilities> accepts_by_rule();
// By the minutes that a traveller bears.
std::bitset<kActions> accepts_within(int earlier_minutes, int later_minutes);

// Bands and classes, as texts; empty: not known.
struct Person {
  std::string age, occupation, income;
  bool operator==(const Person&) const = default;
};

struct Travellers {
  int count = 0;
  std::vector<Trip> trips;                 // in the order of the file
  std::vector<std::vector<int>> trips_of;  // by traveller: places in `trips`
  std::vector<Person> people = {};         // by traveller, or none at all
};

// Sorts trips by traveller.
Travellers gathered(std::vector<Trip> trips);

// Throws Error(kData) that names file, row and column: a column that is missing, a text that is no
// window, a window outside of the day, a decision on a trip that the first file does not have.
// Trips of cells that the city does not have are left out, with a warning; a decision that the
// second file does not have is a rejection. The people, the miles, the duration and the positions
// of trips may be missing; a cell of the city gets the mean of all positions in it. Without a
// second file (""), everybody answers by his kind of flexibility alone.
Travellers read_travellers(const std::string& trips_path, const std::string& decisions_path,
                           City& city);
std::string trips_csv(const Travellers& travellers, const City& city);
std::string decisions_csv(const Travellers& travellers);

// Trips that no vehicle can serve alone under the largest shift, and why.
std::vector<std::string> infeasible_rows(const Travellers& travellers, const City& city);

}  // namespace flotilla::dvrp
