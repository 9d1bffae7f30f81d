#include "flotilla/core/collective.h"

#include <fmt/format.h>

#include <algorithm>

namespace flotilla {
namespace {

class Alone final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string way() const override { return "nothing"; }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::ranges::copy(mine, all.begin());
  }
  void all_reduce(std::span<float>) override {}
  void broadcast(std::span<std::byte>, int) override {}
};

}  // namespace

Collective& alone() {
  static Alone one;
  return one;
}

std::vector<std::vector<std::byte>> gather_bytes(Collective& collective,
                                                 std::span<const std::byte> mine) {
  const auto ranks = static_cast<size_t>(collective.size());
  const uint64_t own = mine.size();
  std::vector<uint64_t> sizes(ranks);
  collective.all_gather(std::as_bytes(std::span(&own, 1)),
                        std::as_writable_bytes(std::span(sizes)));
  const uint64_t most = std::ranges::max(sizes);
  std::vector<std::byte> padded(most), all(most * ranks);
  std::ranges::copy(mine, padded.begin());
  collective.all_gather(padded, all);
  std::vector<std::vector<std::byte>> gathered;
  for (size_t r = 0; r < ranks; ++r) {
    const auto from = all.begin() + static_cast<ptrdiff_t>(r * most);
    gathered.emplace_back(from, from + static_cast<ptrdiff_t>(sizes[r]));
  }
  return gathered;
}

std::vector<std::byte> broadcast_bytes(Collective& collective, std::span<const std::byte> bytes,
                                       int from, uint64_t most) {
  uint64_t size = bytes.size();
  collective.broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  if (size > most) {
    throw Error(ErrorCode::kData,
                fmt::format("a message of {} bytes, of which {} are expected at most", size, most));
  }
  std::vector<std::byte> all(size);
  if (collective.rank() == from) std::ranges::copy(bytes, all.begin());
  collective.broadcast(all, from);
  return all;
}

std::string broadcast_text(Collective& collective, const std::string& text) {
  const std::vector<std::byte> bytes =
      broadcast_bytes(collective, std::as_bytes(std::span(text.data(), text.size())));
  std::string all(bytes.size(), '\0');
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(all)).begin());
  return all;
}

}  // namespace flotilla
