// Many words of one random stream at once, for whole batches of draws.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flotilla {

constexpr size_t kWordsAtOnce = 32;

// Writes kWordsAtOnce words: those of blocks first_block, first_block + 1, ... of the stream, the
// same that random_block() gives one block at a time, with the widest vectors the CPU has.
void random_words(uint64_t seed, uint64_t stream, uint64_t first_block, uint32_t* words);

}  // namespace flotilla
