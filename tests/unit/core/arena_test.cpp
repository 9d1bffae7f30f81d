#include "flotilla/core/arena.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "support/build.h"
#include "support/child.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

struct alignas(64) Line {
  uint8_t bytes[96];
};

bool all_zero(const std::byte* data, size_t bytes) {
  return std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte{0}; });
}

TEST(Arena, RowsAreAlignedDisjointAndZero) {
  ArenaLayout layout;
  const auto flags = layout.add<uint8_t>("flags", 3, 5);
  const auto none = layout.add<float>("none", 0, 7);
  const auto wide = layout.add<float>("wide", 2, 17);
  const auto lines = layout.add<Line>("lines", 4, 1);
  const auto empty = layout.add<double>("empty", 3, 0);
  const auto last = layout.add<int32_t>("last", 1, 16);
  EXPECT_EQ(flags.stride, 64u);
  EXPECT_EQ(wide.stride, 128u);   // 68 bytes
  EXPECT_EQ(lines.stride, 128u);  // 96 bytes, aligned to 64
  EXPECT_EQ(last.stride, 64u);
  EXPECT_EQ(layout.bytes(), 3u * 64 + 2 * 128 + 4 * 128 + 64);

  for (const auto backing : {Arena::Backing::kPrivate, Arena::Backing::kShared}) {
    const Arena arena(layout, backing);
    ASSERT_EQ(arena.bytes(), layout.bytes());
    ASSERT_TRUE(all_zero(arena.base(), arena.bytes()));
    std::vector<std::pair<const void*, size_t>> rows;
    const auto take = [&](const auto& id, size_t element) {
      for (size_t r = 0; r < id.rows; ++r) {
        rows.emplace_back(arena.view(id).row(r), id.columns * element);
      }
    };
    take(flags, 1);
    take(none, 4);
    take(wide, 4);
    take(lines, sizeof(Line));
    take(empty, 8);
    take(last, 4);
    ASSERT_EQ(rows.size(), 3u + 2 + 4 + 3 + 1);
    std::vector<int> owners(arena.bytes());
    for (const auto& [start, bytes] : rows) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % kRowAlignment, 0u);
      ASSERT_TRUE(arena.contains(start, bytes));
      const auto first = static_cast<size_t>(static_cast<const std::byte*>(start) - arena.base());
      for (size_t i = 0; i < bytes; ++i) ++owners[first + i];
    }
    EXPECT_EQ(std::ranges::count_if(owners, [](int n) { return n > 1; }), 0);
  }
}

TEST(Arena, DescribeNamesTheFieldsLargestFirst) {
  ArenaLayout layout;
  layout.add<float>("reward", 1, 1024);
  layout.add<float>("obs", 4, 4096);
  EXPECT_EQ(layout.describe(), "obs 64.0 KiB, reward 4.0 KiB");
  EXPECT_EQ(ArenaLayout{}.describe(), "");
}

TEST(Arena, AnEmptyLayoutGivesAnArena) {
  const Arena arena(ArenaLayout{}, Arena::Backing::kPrivate);
  EXPECT_NE(arena.base(), nullptr);
  EXPECT_EQ(arena.fd(), -1);
}

TEST(Arena, SharedMemoryIsSeenThroughASecondMapping) {
  ArenaLayout layout;
  const auto numbers = layout.add<int32_t>("numbers", 2, 100);
  const Arena first(layout, Arena::Backing::kShared);
  ASSERT_GE(first.fd(), 0);
  const Arena second(first.fd(), first.bytes());
  ASSERT_NE(first.base(), second.base());
  first.view(numbers).row(1)[99] = 7;
  EXPECT_EQ(second.view(numbers).row(1)[99], 7);
  second.view(numbers).row(0)[0] = -3;
  EXPECT_EQ(first.view(numbers).row(0)[0], -3);

  const int status = test::status_of_child([&] {
    first.view(numbers).row(0)[1] = 11;
    return 0;
  });
  EXPECT_TRUE(test::exited_with(status, 0));
  EXPECT_EQ(second.view(numbers).row(0)[1], 11);
}

TEST(Arena, PrivateMemoryIsNotSharedWithChildren) {
  ArenaLayout layout;
  const auto numbers = layout.add<int32_t>("numbers", 1, 1);
  const Arena arena(layout, Arena::Backing::kPrivate);
  test::status_of_child([&] {
    arena.view(numbers).row(0)[0] = 5;
    return 0;
  });
  EXPECT_EQ(arena.view(numbers).row(0)[0], 0);
}

TEST(Arena, ContainsAtTheEdges) {
  ArenaLayout layout;
  layout.add<std::byte>("data", 1, 128);
  const Arena arena(layout, Arena::Backing::kPrivate);
  const std::byte* base = arena.base();
  EXPECT_TRUE(arena.contains(base, 0));
  EXPECT_TRUE(arena.contains(base, 128));
  EXPECT_FALSE(arena.contains(base, 129));
  EXPECT_TRUE(arena.contains(base + 127, 1));
  EXPECT_FALSE(arena.contains(base + 127, 2));
  EXPECT_TRUE(arena.contains(base + 128, 0));
  EXPECT_FALSE(arena.contains(base + 128, 1));
  EXPECT_FALSE(arena.contains(base + 129, 0));
  EXPECT_FALSE(arena.contains(base - 1, 1));
  EXPECT_FALSE(arena.contains(base - 1, 2));
  EXPECT_FALSE(arena.contains(base + 1, SIZE_MAX));
  EXPECT_FALSE(arena.contains(base, SIZE_MAX));
  EXPECT_FALSE(arena.contains(nullptr, 0));
  EXPECT_FALSE(arena.contains(nullptr, 1));
}

TEST(Arena, SizesThatOverflowAreRefusedByName) {
  const std::string expected = "field 'obs' is larger than any memory";
  ArenaLayout layout;
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { layout.add<float>("obs", 1, SIZE_MAX / 4 + 1); }),
            expected);
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { layout.add<uint8_t>("obs", 1, SIZE_MAX - 10); }),
            expected);
  EXPECT_EQ(
      error_text(ErrorCode::kUsage, [&] { layout.add<uint8_t>("obs", SIZE_MAX / 64 + 1, 1); }),
      expected);
  layout.add<uint8_t>("half", 1, SIZE_MAX / 2 + 1);
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { layout.add<uint8_t>("obs", 1, SIZE_MAX / 2); }),
            expected);
  EXPECT_EQ(layout.bytes(), SIZE_MAX / 2 + 1) << "a refused field takes no room";
}

TEST(Arena, MoreThanTheMachineHasIsRefusedWithTheAmount) {
  ArenaLayout layout;
  layout.add<uint8_t>("obs", 1, size_t{1} << 50);
  for (const auto backing : {Arena::Backing::kPrivate, Arena::Backing::kShared}) {
    const std::string text = error_text(ErrorCode::kUsage, [&] { Arena arena(layout, backing); });
    const std::string size = human_bytes(uint64_t{1} << 50);
    const std::string head =
        "the batch of environments (obs " + size + ") needs " + size + " of memory; ";
    EXPECT_TRUE(text.starts_with(head)) << text;
    EXPECT_TRUE(text.ends_with(" are available")) << text;
  }
}

TEST(Arena, SharedMemoryTheSystemRefusesIsAnErrorWithTheAmount) {
  ArenaLayout layout;
  layout.add<uint8_t>("obs", 1, 8 << 20);
  const int status = test::status_of_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    try {
      const Arena arena(layout, Arena::Backing::kShared);
      return 3;
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool good = error.code() == ErrorCode::kInternal &&
                        text ==
                            "the environments need 8.0 MiB of shared memory, and the system gave "
                            "none: File too large (limit: 1.0 MiB a file)";
      return good ? 0 : 4;
    }
  });
  EXPECT_TRUE(test::exited_with(status, 0)) << "status " << status;
}

TEST(Arena, MappingAFileThatIsNotOneIsAnError) {
  error_text(ErrorCode::kInternal, [] { Arena arena(-1, 4096); });
}

TEST(Arena, MemoryAndFilesAreGivenBack) {
  if (test::kSanitized) GTEST_SKIP();
  ArenaLayout layout;
  const auto data = layout.add<std::byte>("data", 1, 4 << 20);
  const auto cycle = [&] {
    for (const auto backing : {Arena::Backing::kPrivate, Arena::Backing::kShared}) {
      const Arena arena(layout, backing);
      std::memset(arena.view(data).row(0), 1, data.columns);
    }
  };
  cycle();
  const uint64_t before = resident_bytes();
  const int fd_before = dup(0);
  close(fd_before);
  for (int i = 0; i < 50; ++i) cycle();
  const int fd_after = dup(0);
  close(fd_after);
  EXPECT_EQ(fd_after, fd_before);
  EXPECT_LT(resident_bytes(), before + (2 << 20));
}

}  // namespace
}  // namespace flotilla
