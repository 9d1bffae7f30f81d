// Count, mean and squares of some numbers, which can be put together with those of others.
#pragma once

#include <algorithm>

namespace flotilla {

struct Moments {
  double count = 0, mean = 0;
  double squares = 0;  // sum of squared differences from the mean

  double variance() const { return squares / std::max(count - 1, 1.0); }  // of a sample

  // Chan, Golub and LeVeque (1979). What is put into nothing stays as it is, to the bit.
  void merge(const Moments& other) {
    if (other.count == 0) return;
    const double total = count + other.count, difference = other.mean - mean;
    mean += difference * (other.count / total);
    squares += other.squares + difference * difference * (count * other.count / total);
    count = total;
  }
};

}  // namespace flotilla
