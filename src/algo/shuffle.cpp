#include "flotilla/algo/shuffle.h"

#include <utility>

#include "flotilla/core/random_words.h"

namespace flotilla {

// Fisher and Yates. A position among n is drawn from one 32-bit word: its bias is below n / 2^32.
void shuffle(std::vector<int32_t>& items, uint64_t seed, uint64_t stream) {
  uint32_t words[kWordsAtOnce];
  size_t have = 0, block = 0;
  for (size_t left = items.size(); left > 1; --left) {
    if (have == 0) {
      random_words(seed, stream, block * (kWordsAtOnce / 4), words);
      ++block;
      have = kWordsAtOnce;
    }
    const size_t pick = (uint64_t{words[--have]} * left) >> 32;
    std::swap(items[left - 1], items[pick]);
  }
}

}  // namespace flotilla
