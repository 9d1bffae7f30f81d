// Inputs for a reader: good ones with a few edits.
//
// Determinism: input number i is a function of (corpus, tokens, seed, i), so any of them can be
// made again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/core/rng.h"

namespace flotilla::fuzz {

class Mutator {
 public:
  // `good` are inputs that are accepted; the first inputs are these as they are, then the corpus.
  // REQUIRES: there is a good one, and a token.
  Mutator(std::vector<std::string> good, const std::vector<std::string>& corpus,
          std::vector<std::string> tokens, uint64_t seed);

  std::string input(uint64_t number) const;

 private:
  void edit(std::string& input, Rng& rng) const;

  size_t good_;
  std::vector<std::string> corpus_, tokens_;  // the first good_ of the corpus are good
  uint64_t seed_;
};

}  // namespace flotilla::fuzz
