#include "flotilla/domains/workflow/orders.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace flotilla::workflow {

Orders::Orders(int types) : types_(types) {
  Order order(static_cast<size_t>(types));
  std::iota(order.begin(), order.end(), 0);
  do {
    all_.push_back(order);
    std::vector<int> places(order.size());
    for (size_t place = 0; place < order.size(); ++place) {
      places[static_cast<size_t>(order[place])] = static_cast<int>(place);
    }
    places_.push_back(std::move(places));
  } while (std::ranges::next_permutation(order).found);
}

int Orders::index_of(const Order& order) const {
  return static_cast<int>(std::ranges::lower_bound(all_, order) - all_.begin());
}

double Orders::kendall(int a, int b) const {
  int reversed = 0;
  for (size_t i = 0; i < static_cast<size_t>(types_); ++i) {
    for (size_t j = 0; j < i; ++j) {
      reversed += (places(a)[i] < places(a)[j]) != (places(b)[i] < places(b)[j]) ? 1 : 0;
    }
  }
  return static_cast<double>(reversed) / (types_ * (types_ - 1) / 2.0);
}

double Orders::hamming(int a, int b) const {
  int differ = 0;
  for (size_t i = 0; i < (*this)[a].size(); ++i) differ += (*this)[a][i] != (*this)[b][i] ? 1 : 0;
  return static_cast<double>(differ) / types_;
}

double Orders::footrule(int a, int b) const {
  int sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(types_); ++i) {
    sum += std::abs(places(a)[i] - places(b)[i]);
  }
  return static_cast<double>(sum) / (types_ * types_ / 2);  // rounded down: the greatest there is
}

}  // namespace flotilla::workflow
