#include "fuzz/mutator.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

namespace flotilla::fuzz {
namespace {

constexpr size_t kLongest = 1u << 16u;

// At the edges of what integers of some size hold.
uint64_t interesting_integer(Rng& rng) {
  constexpr std::array<uint64_t, 5> kSmall = {0, 1, 7, 8, 16};
  if (rng.below(4) == 0) return kSmall[rng.below(kSmall.size())];
  const uint64_t power = uint64_t{1} << rng.below(64);
  return power + rng.below(3) - 1;
}

// A place in the text, `size` itself being one.
size_t place(Rng& rng, size_t size) { return rng.below(static_cast<uint32_t>(size) + 1); }

// A piece of at most `longest` bytes.
std::string piece(Rng& rng, const std::string& text, uint32_t longest) {
  return text.substr(place(rng, text.size()), 1 + rng.below(longest));
}

// Where the words of the text begin and end: runs of letters, digits and what numbers hold.
std::vector<std::pair<size_t, size_t>> words_of(const std::string& text) {
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  };
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!in_word(text[i])) continue;
    const size_t begin = i;
    while (i < text.size() && in_word(text[i])) ++i;
    words.emplace_back(begin, i);
  }
  return words;
}

void swap_words(std::string& text, Rng& rng) {
  const auto words = words_of(text);
  if (words.size() < 2) return;
  const auto count = static_cast<uint32_t>(words.size());
  uint32_t a = rng.below(count), b = rng.below(count);
  if (a == b) return;
  if (a > b) std::swap(a, b);
  const auto [a_begin, a_end] = words[a];
  const auto [b_begin, b_end] = words[b];
  text = text.substr(0, a_begin) + text.substr(b_begin, b_end - b_begin) +
         text.substr(a_end, b_begin - a_end) + text.substr(a_begin, a_end - a_begin) +
         text.substr(b_end);
}

void replace_word(std::string& text, const std::string& with, Rng& rng) {
  const auto words = words_of(text);
  if (words.empty()) return;
  const auto [begin, end] = words[rng.below(static_cast<uint32_t>(words.size()))];
  text.replace(begin, end - begin, with);
}

}  // namespace

Mutator::Mutator(std::vector<std::string> good, const std::vector<std::string>& corpus,
                 std::vector<std::string> tokens, uint64_t seed)
    : good_(good.size()), corpus_(std::move(good)), tokens_(std::move(tokens)), seed_(seed) {
  corpus_.insert(corpus_.end(), corpus.begin(), corpus.end());
}

std::string Mutator::input(uint64_t number) const {
  if (number < corpus_.size()) return corpus_[number];
  Rng rng(seed_, stream_of(Purpose::kTest, number));
  // Half of them begin as one that is accepted: those come further.
  const size_t from = rng.below(2) == 0 ? good_ : corpus_.size();
  std::string input = corpus_[rng.below(static_cast<uint32_t>(from))];
  // One edit finds what is checked; several, what is checked behind it.
  const uint32_t edits = 1 + (rng.below(2) == 0 ? 0 : rng.below(8));
  for (uint32_t i = 0; i < edits; ++i) edit(input, rng);
  if (input.size() > kLongest) input.resize(kLongest);
  return input;
}

void Mutator::edit(std::string& input, Rng& rng) const {
  const size_t at = place(rng, input.size());
  const auto byte_at = [&]() -> char* { return at < input.size() ? &input[at] : nullptr; };
  switch (rng.below(12)) {
    case 0:  // flip a bit
      if (char* byte = byte_at()) *byte = static_cast<char>(*byte ^ (1 << rng.below(8)));
      break;
    case 1:  // another byte
      if (char* byte = byte_at()) *byte = static_cast<char>(rng.below(256));
      break;
    case 2:  // truncate
      input.resize(at);
      break;
    case 3:  // cut a piece out
      input.erase(at, 1 + rng.below(32));
      break;
    case 4:  // write a piece twice
      input.insert(at, piece(rng, input, 64));
      break;
    case 5: {  // splice: go on as another one does
      const std::string& other = corpus_[rng.below(static_cast<uint32_t>(corpus_.size()))];
      input = input.substr(0, at) + other.substr(place(rng, other.size()));
      break;
    }
    case 6: {  // a binary integer; half of the time where formats have their lengths
      const auto word = std::bit_cast<std::array<char, 8>>(interesting_integer(rng));
      const size_t size = size_t{1} << rng.below(4);
      const size_t begin = rng.below(2) == 0 ? 0 : at;
      if (rng.below(2) == 0 && begin + size <= input.size()) {
        input.replace(begin, size, word.data(), size);
      } else {
        input.insert(begin, word.data(), size);
      }
      break;
    }
    case 7: {  // a number in digits
      const uint64_t number = interesting_integer(rng);
      const std::string digits = rng.below(4) == 0 ? fmt::format("{}", static_cast<int64_t>(number))
                                                   : fmt::format("{}", number);
      if (rng.below(4) == 0) {
        input.insert(at, digits);
      } else {
        replace_word(input, digits, rng);
      }
      break;
    }
    case 8:  // a word of the format
    case 9: {
      const std::string& token = tokens_[rng.below(static_cast<uint32_t>(tokens_.size()))];
      if (rng.below(3) == 0) {
        replace_word(input, token, rng);
      } else {
        input.insert(at, token);
      }
      break;
    }
    case 10:
      swap_words(input, rng);
      break;
    default: {  // one thing many times
      const std::string& token = tokens_[rng.below(static_cast<uint32_t>(tokens_.size()))];
      std::string run;
      for (uint32_t n = 1u << rng.below(11); n > 0 && run.size() < kLongest; --n) run += token;
      input.insert(at, run);
    }
  }
}

}  // namespace flotilla::fuzz
