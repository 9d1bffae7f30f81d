#include "flotilla/core/alloc_count.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "support/build.h"

namespace flotilla {
namespace {

template <class F>
uint64_t counted(F&& body) {
  const uint64_t before = allocation_count();
  body();
  return allocation_count() - before;
}

class AllocCount : public testing::Test {
 protected:
  void SetUp() override {
    if (test::kSanitized) GTEST_SKIP() << why_not_counted();
    ASSERT_TRUE(can_count_allocations()) << "this program links what counts";
  }
};

TEST_F(AllocCount, EveryFormOfNewCounts) {
  // Direct calls: the compiler may leave out a new-expression it can see through.
  EXPECT_EQ(counted([] { ::operator delete(::operator new(10)); }), 1u);
  EXPECT_EQ(counted([] { ::operator delete[](::operator new[](10)); }), 1u);
  EXPECT_EQ(counted([] { ::operator delete(::operator new(10, std::nothrow)); }), 1u);
  constexpr std::align_val_t kAlign{128};
  EXPECT_EQ(counted([] { ::operator delete(::operator new(10, kAlign), kAlign); }), 1u);
  EXPECT_EQ(counted([] { ::operator delete[](::operator new[](10, kAlign), kAlign); }), 1u);
  EXPECT_EQ(counted([] {
              std::vector<int> v(100);
              EXPECT_EQ(v.back(), 0);
            }),
            1u);
}

TEST_F(AllocCount, NothingElseCounts) {
  EXPECT_EQ(counted([] {
              int on_stack[100] = {};
              std::vector<int> empty;
              EXPECT_EQ(on_stack[99] + static_cast<int>(empty.size()), 0);
            }),
            0u);
  EXPECT_EQ(counted([] { ::operator delete(nullptr); }), 0u);
}

TEST_F(AllocCount, AllThreadsCount) {
  std::vector<std::thread> team;
  team.reserve(4);
  const uint64_t before = allocation_count();
  for (int i = 0; i < 4; ++i) {
    team.emplace_back([] {
      for (int k = 0; k < 1000; ++k) ::operator delete(::operator new(8));
    });
  }
  for (std::thread& thread : team) thread.join();
  const uint64_t made = allocation_count() - before;
  EXPECT_GE(made, 4000u);
  EXPECT_LE(made, 4020u) << "4000 and those of starting the threads";
}

TEST_F(AllocCount, MemoryIsAlignedAndDistinct) {
  // Small alignments come from std::pmr, which names them all.
  for (const size_t align : {1, 2, 4, 8, 32, 64, 4096}) {
    void* memory = ::operator new (10, std::align_val_t{align});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % align, 0u);
    ::operator delete (memory, std::align_val_t{align});
  }
  void* a = ::operator new(0);
  void* b = ::operator new(0);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  ::operator delete(a);
  ::operator delete(b);
}

TEST_F(AllocCount, WhatDoesNotFitIsABadAlloc) {
  volatile size_t too_much = SIZE_MAX - 10;  // volatile: the compiler would warn
  EXPECT_THROW((void)::operator new(too_much), std::bad_alloc);
  EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
  EXPECT_THROW((void)::operator new (too_much, std::align_val_t{64}), std::bad_alloc);
}

}  // namespace
}  // namespace flotilla
