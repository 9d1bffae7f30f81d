// Workflows are orders: which of n types comes first, second, and so on. All n! of them, in
// lexicographic order, and how far two are apart.
#pragma once

#include <string>
#include <vector>

namespace flotilla::workflow {

using Order = std::vector<int>;  // types, the first one first

class Orders {
 public:
  explicit Orders(int types);  // REQUIRES: 1 to 8

  int types() const { return types_; }
  int size() const { return static_cast<int>(all_.size()); }
  const Order& operator[](int index) const { return all_[static_cast<size_t>(index)]; }
  int index_of(const Order& order) const;  // REQUIRES: a permutation of the types

  // Part of the pairs of types that stand the other way round: Kendall (1938).
  double kendall(int a, int b) const;
  // Part of the places that hold another type: Hamming (1950).
  double hamming(int a, int b) const;
  // Part of the greatest possible sum of differences of places: Spearman's footrule (1904).
  double footrule(int a, int b) const;

 private:
  const std::vector<int>& places(int index) const { return places_[static_cast<size_t>(index)]; }
  int types_;
  std::vector<Order> all_;
  std::vector<std::vector<int>> places_;  // of every type, by order
};

}  // namespace flotilla::workflow
