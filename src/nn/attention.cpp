#include "flotilla/nn/attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "flotilla/core/text.h"

namespace flotilla {
namespace {

using Kind = TokenStep::Kind;
using First = TokenStep::First;

class Builder {
 public:
  Builder(const std::vector<Group>& groups, int fusion) {
    for (const Group& group : groups) add({.count = group.count, .width = group.features});
    std::vector<int> all;
    for (size_t g = 0; g < groups.size(); ++g) {
      name_ = fmt::format("torso.{}", g);
      number_ = 0;
      const int own = static_cast<int>(g), encoded = groups[g].count == 1
                                                         ? encode_one(own, groups[g].width)
                                                         : encode_several(own, groups[g].width);
      all.push_back(linear(encoded, fusion));
    }
    name_ = "torso.fusion";
    number_ = 0;
    fuse(add({.count = static_cast<int>(all.size()), .width = fusion, .parts = all}));
  }

  AttentionTorso take() { return std::move(torso_); }

 private:
  int encode_one(int x, int width) {
    x = norm(linear(x, width), true);
    return norm(linear(x, width), false);
  }

  int encode_several(int x, int width) {
    x = norm(linear(x, width), true);
    x = attend(x, width / kGroupUnit);
    const int all = torso_.tokens[at(x)].count * width;
    return norm(linear(add({.count = 1, .width = all, .flat_of = x}), 2 * width), false);
  }

  void fuse(int x) {
    const int width = torso_.tokens[at(x)].width;
    x = attend(x, kFusionHeads);
    const int inner = linear(x, 2 * width);
    torso_.steps.back().relu = true;
    x = norm(linear(inner, width, First::kUniform, x), false);
    torso_.steps.push_back(
        {.kind = Kind::kMean, .in = x, .out = add({.count = 1, .width = width})});
  }

  // With what it was given added, normalised.
  int attend(int x, int heads) {
    const Tokens own = torso_.tokens[at(x)];
    const int asked = linear(x, 3 * own.width, First::kXavierNoBias);
    const int seen = add({.count = own.count, .width = own.width});
    torso_.steps.push_back({.kind = Kind::kAttend, .in = asked, .out = seen, .heads = heads});
    return norm(linear(seen, own.width, First::kUniformNoBias, x), false);
  }

  int linear(int x, int width, First first = First::kUniform, int added = -1) {
    const int out = add({.count = torso_.tokens[at(x)].count, .width = width});
    torso_.steps.push_back({.kind = Kind::kLinear,
                            .name = next_name(),
                            .in = x,
                            .out = out,
                            .added = added,
                            .first = first});
    return out;
  }

  int norm(int x, bool relu) {
    const int out = add(torso_.tokens[at(x)]);
    torso_.steps.push_back(
        {.kind = Kind::kNorm, .name = next_name(), .in = x, .out = out, .relu = relu});
    return out;
  }

  int add(Tokens tokens) {
    torso_.tokens.push_back(std::move(tokens));
    return static_cast<int>(torso_.tokens.size()) - 1;
  }
  std::string next_name() { return fmt::format("{}.{}", name_, number_++); }
  static size_t at(int index) { return static_cast<size_t>(index); }

  AttentionTorso torso_;
  std::string name_;
  int number_ = 0;
};

constexpr int kMostCount = 64, kMostFeatures = 1024, kWidest = 512;

int number_in(std::string_view word, int most, const std::string& whole) {
  int number = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (status != std::errc() || end != word.data() + word.size() || number < 1 || number > most) {
    throw std::invalid_argument(fmt::format("expected a number from 1 to {}, got {} in {}", most,
                                            in_quotes(word), in_quotes(whole)));
  }
  return number;
}

Group parse_group(const std::string& word) {
  const size_t x = word.find('x'), colon = word.find(':');
  if (x == word.npos || colon == word.npos || colon < x) {
    throw std::invalid_argument(
        fmt::format("expected COUNTxFEATURES:WIDTH, got {}", in_quotes(word)));
  }
  const std::string_view view = word;
  const Group group = {number_in(view.substr(0, x), kMostCount, word),
                       number_in(view.substr(x + 1, colon - x - 1), kMostFeatures, word),
                       number_in(view.substr(colon + 1), kWidest, word)};
  if (group.width % kGroupUnit != 0) {
    throw std::invalid_argument(fmt::format("expected a width that is a multiple of {}, got {}",
                                            kGroupUnit, in_quotes(word)));
  }
  return group;
}

}  // namespace

AttentionTorso make_attention(const std::vector<Group>& groups, int fusion) {
  return Builder(groups, fusion).take();
}

std::vector<Group> parse_groups(const std::string& text) {
  std::vector<Group> groups;
  for (size_t first = 0; first <= text.size();) {
    const size_t comma = std::min(text.find(',', first), text.size());
    groups.push_back(parse_group(text.substr(first, comma - first)));
    first = comma + 1;
  }
  return groups;
}

std::string to_text(const std::vector<Group>& groups) {
  std::vector<std::string> words;
  for (const Group& group : groups) {
    words.push_back(fmt::format("{}x{}:{}", group.count, group.features, group.width));
  }
  return fmt::format("{}", fmt::join(words, ","));
}

}  // namespace flotilla
