#include "flotilla/domains/dvrp/figures/city_map.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace flotilla::dvrp {
namespace {

constexpr double kKilometresPerDegree = 111.2;  // of latitude

CityMap by_positions(const City& city) {
  CityMap map{.places = {}, .of_positions = true};
  double latitude = 0, known = 0;
  for (int cell = 0; cell < city.size(); ++cell) {
    if (!city.position(cell)) continue;
    known += 1;
    latitude += (city.position(cell)->latitude - latitude) / known;
  }
  // A city is small: a degree of longitude is as long everywhere as in its middle.
  const double shrink = std::cos(latitude * std::numbers::pi / 180);
  for (int cell = 0; cell < city.size(); ++cell) {
    const auto position = city.position(cell);
    map.places.push_back(
        position ? std::optional(MapPoint{kKilometresPerDegree * shrink * position->longitude,
                                          kKilometresPerDegree * position->latitude})
                 : std::nullopt);
  }
  return map;
}

using Vector = std::vector<double>;

double product(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Squared times, with the means of rows and columns taken off: the scalar products of the places.
Vector centred_products(const City& city) {
  const auto n = static_cast<size_t>(city.size());
  Vector squares(n * n), means(n);
  double mean = 0;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      const int from = static_cast<int>(i), to = static_cast<int>(j);
      const double minutes = 0.5 * (static_cast<double>(city.minutes(from, to)) +
                                    static_cast<double>(city.minutes(to, from)));
      squares[i * n + j] = minutes * minutes;
      means[i] += squares[i * n + j] / static_cast<double>(n);
    }
    mean += means[i] / static_cast<double>(n);
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      squares[i * n + j] = -0.5 * (squares[i * n + j] - means[i] - means[j] + mean);
    }
  }
  return squares;
}

// The eigenvector of the largest eigenvalue that is orthogonal to `other`, as long as the root of
// the eigenvalue: by power iteration, with the trace added so that no negative one is larger.
Vector coordinates(const Vector& matrix, size_t n, const Vector& other) {
  double shift = 0;
  for (size_t i = 0; i < n; ++i) shift += std::abs(matrix[i * n + i]);
  Vector at(n), next(n);
  for (size_t i = 0; i < n; ++i) at[i] = std::sin(1 + static_cast<double>(i * i));
  double value = 0;
  for (int iteration = 0; iteration < 300; ++iteration) {
    for (size_t i = 0; i < n; ++i) {
      next[i] = shift * at[i];
      for (size_t j = 0; j < n; ++j) next[i] += matrix[i * n + j] * at[j];
    }
    const double along =
        product(other, other) > 0 ? product(next, other) / product(other, other) : 0;
    for (size_t i = 0; i < n; ++i) next[i] -= along * other[i];
    const double length = std::sqrt(product(next, next));
    if (length == 0) return Vector(n);
    value = length / std::sqrt(product(at, at)) - shift;
    for (size_t i = 0; i < n; ++i) at[i] = next[i] / length;
  }
  const double scale = std::sqrt(std::max(0.0, value));
  for (double& each : at) each *= scale;
  return at;
}

CityMap by_travel_times(const City& city) {
  const auto n = static_cast<size_t>(city.size());
  const Vector products = centred_products(city);
  const Vector x = coordinates(products, n, Vector(n));
  const Vector y = coordinates(products, n, x);
  CityMap map;
  for (size_t i = 0; i < n; ++i) map.places.emplace_back(MapPoint{x[i], y[i]});
  return map;
}

}  // namespace

CityMap map_of(const City& city, std::span<const int> needed) {
  const bool known =
      std::ranges::all_of(needed, [&city](int cell) { return city.position(cell).has_value(); });
  return known ? by_positions(city) : by_travel_times(city);
}

}  // namespace flotilla::dvrp
