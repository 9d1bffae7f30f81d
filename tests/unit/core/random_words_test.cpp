#include "flotilla/core/random_words.h"

#include <gtest/gtest.h>

#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

// The slow twin: one block at a time.
TEST(RandomWords, EqualOneBlockAtATime) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, UINT64_MAX}) {
    for (const uint64_t stream : {uint64_t{0}, stream_of(Purpose::kAction, 123), UINT64_MAX}) {
      // Across a carry into the upper half of the block's number, too.
      for (const uint64_t first : {uint64_t{0}, uint64_t{1000}, (uint64_t{1} << 32) - 3}) {
        uint32_t words[kWordsAtOnce];
        random_words(seed, stream, first, words);
        for (size_t b = 0; b < kWordsAtOnce / 4; ++b) {
          const auto block = random_block(seed, stream, first + b);
          for (size_t w = 0; w < 4; ++w) ASSERT_EQ(words[4 * b + w], block[w]) << b << ' ' << w;
        }
      }
    }
  }
}

}  // namespace
}  // namespace flotilla
