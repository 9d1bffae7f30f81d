// The cells of a city and the minutes it takes to drive between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flotilla::dvrp {

constexpr float kDay = 1440;  // minutes

struct Position {
  double latitude = 0, longitude = 0;  // degrees
  bool operator==(const Position&) const = default;
};

class City {
 public:
  // `seconds`: row by row, of as many rows as there are names. Throws Error(kData) that names the
  // origin, the row and the column of a time that is negative, or not zero from a cell to itself.
  City(std::vector<std::string> cells, const std::vector<int64_t>& seconds,
       const std::string& origin);

  int size() const { return static_cast<int>(cells_.size()); }
  const std::string& name(int cell) const { return cells_[static_cast<size_t>(cell)]; }
  int find(const std::string& name) const;  // -1: there is none
  // Of its cells and the times between them: what files that belong to the city call it.
  const std::string& fingerprint() const { return fingerprint_; }
  float minutes(int from, int to) const {
    return minutes_[static_cast<size_t>(from) * cells_.size() + static_cast<size_t>(to)];
  }
  int64_t seconds(int from, int to) const {
    return seconds_[static_cast<size_t>(from) * cells_.size() + static_cast<size_t>(to)];
  }

  // Where vehicles start and end: the cell from which the others are nearest on average, unless
  // another one is set.
  int depot() const { return depot_; }
  void set_depot(int cell) { depot_ = cell; }

  // Where a cell lies, if that is known: for maps alone.
  std::optional<Position> position(int cell) const { return positions_[static_cast<size_t>(cell)]; }
  void set_position(int cell, Position position) {
    positions_[static_cast<size_t>(cell)] = position;
  }

  // Ordered triples of cells for which a detour is shorter than the direct way.
  struct Triangles {
    int64_t violations = 0, worst_seconds = 0;
  };
  Triangles triangles() const;

 private:
  std::vector<std::string> cells_;
  std::vector<int64_t> seconds_;
  std::string fingerprint_;
  std::vector<float> minutes_;
  std::vector<std::optional<Position>> positions_;
  int depot_ = 0;
};

// A table of whole seconds with the cells as header and as first column; it has no positions.
// Throws Error(kData).
City read_city(const std::string& path);
std::string city_csv(const City& city);

}  // namespace flotilla::dvrp
