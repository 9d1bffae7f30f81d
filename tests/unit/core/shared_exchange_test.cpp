#include "flotilla/core/shared_exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/child.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

constexpr size_t kPage = SharedExchange::kPageBytes;

// For whoever may be waited for in vain.
SharedExchange::Glance in_time() {
  return [deadline = Deadline::after(60)] {
    if (deadline.passed()) throw std::runtime_error("nobody came");
  };
}

void go_on() {}

// Runs body(rank, exchange) in a thread for each rank, all with mappings of their own.
template <class Body>
void in_ranks(int size, const Body& body) {
  std::vector<std::unique_ptr<SharedExchange>> exchanges;
  exchanges.push_back(std::make_unique<SharedExchange>(0, size));
  for (int r = 1; r < size; ++r) {
    exchanges.push_back(std::make_unique<SharedExchange>(r, size, exchanges[0]->fd()));
  }
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.emplace_back([&, r] { body(r, *exchanges[static_cast<size_t>(r)]); });
  }
  for (std::thread& rank : ranks) rank.join();
}

std::byte byte_of(int rank, size_t at, int round) {
  return static_cast<std::byte>((static_cast<size_t>(rank) * 7 + at * 3 + at / 251) +
                                static_cast<size_t>(round) * 11);
}

std::vector<std::byte> bytes_of(int rank, size_t count, int round) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = byte_of(rank, i, round);
  return bytes;
}

TEST(SharedExchange, EveryoneHasTheBytesOfAllInTheOrderOfRanks) {
  for (const int size : {1, 2, 3, 5}) {
    in_ranks(size, [size](int rank, SharedExchange& exchange) {
      for (const size_t count : {size_t{1}, size_t{1000}, kPage, kPage + 1, 3 * kPage + 17}) {
        const std::vector<std::byte> mine = bytes_of(rank, count, 0);
        std::vector<std::byte> all(count * static_cast<size_t>(size));
        exchange.all_gather(mine, all, go_on);
        std::vector<std::byte> expected;
        for (int r = 0; r < size; ++r) {
          const std::vector<std::byte> of_rank = bytes_of(r, count, 0);
          expected.insert(expected.end(), of_rank.begin(), of_rank.end());
        }
        EXPECT_EQ(all, expected) << size << " ranks, " << count << " bytes";
      }
    });
  }
}

TEST(SharedExchange, TheBytesOfOneGoToAll) {
  in_ranks(3, [](int rank, SharedExchange& exchange) {
    for (const size_t count : {size_t{8}, 2 * kPage + 5}) {
      for (int from = 0; from < 3; ++from) {
        std::vector<std::byte> bytes = bytes_of(rank, count, from);
        exchange.broadcast(bytes, from, go_on);
        EXPECT_EQ(bytes, bytes_of(from, count, from));
      }
    }
  });
}

TEST(SharedExchange, SumsAreThoseInTheOrderOfRanks) {
  const auto number = [](int rank, size_t at) {
    return std::ldexp(1.0F, rank * 9) + static_cast<float>(at) * 1e-3F;
  };
  for (const int size : {2, 3, 4}) {
    in_ranks(size, [&, size](int rank, SharedExchange& exchange) {
      for (const size_t count : {size_t{1}, size_t{1001}, kPage / 4, kPage / 2 + 3}) {
        std::vector<float> numbers(count);
        for (size_t i = 0; i < count; ++i) numbers[i] = number(rank, i);
        exchange.all_reduce(numbers, go_on);
        std::vector<float> expected(count, 0.0F);
        for (int r = 0; r < size; ++r) {
          for (size_t i = 0; i < count; ++i) expected[i] += number(r, i);
        }
        EXPECT_EQ(numbers, expected) << size << " ranks, " << count << " numbers";
      }
    });
  }
}

// Nobody waits between the calls: a page that is written too early shows.
TEST(SharedExchange, NoPageIsWrittenOverThatSomebodyStillReads) {
  in_ranks(3, [](int rank, SharedExchange& exchange) {
    std::vector<std::byte> all(3 * 4096), one(4096);
    for (int round = 0; round < 2000; ++round) {
      if ((round + rank) % 97 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (round % 3 == 0) {
        exchange.all_gather(bytes_of(rank, 4096, round), all, go_on);
        for (int r = 0; r < 3; ++r) {
          const auto from = all.begin() + r * 4096;
          ASSERT_EQ(std::vector(from, from + 4096), bytes_of(r, 4096, round)) << round;
        }
      } else {
        const int from = round % 2;
        if (rank == from) one = bytes_of(from, 4096, round);
        exchange.broadcast(one, from, go_on);
        ASSERT_EQ(one, bytes_of(from, 4096, round)) << round;
      }
    }
  });
}

TEST(SharedExchange, WorksAcrossFork) {
  SharedExchange first(0, 2);
  constexpr int kRounds = 100;
  const float expected = std::ldexp(3.0F, kRounds - 1);  // each sum is twice the one before
  const auto sum = [](SharedExchange& exchange, float own) {
    std::vector<float> numbers(1, own);
    for (int i = 0; i < kRounds; ++i) exchange.all_reduce(numbers, in_time());
    return numbers[0];
  };
  const pid_t child = fork();
  if (child == 0) {
    SharedExchange second(1, 2, first.fd());
    _exit(sum(second, 2) == expected ? 0 : 1);
  }
  EXPECT_EQ(sum(first, 1), expected);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(test::exited_with(status, 0));
}

// Whoever is gone rings no bell: the glance ends the wait, also of one that sleeps.
TEST(SharedExchange, AGlanceEndsTheWaitForOneThatIsLost) {
  SharedExchange first(0, 2);
  const pid_t child = fork();
  if (child == 0) {
    SharedExchange second(1, 2, first.fd());
    std::vector<std::byte> all(2);
    const SharedExchange::Glance glance = in_time();
    for (;;) second.all_gather(bytes_of(1, 1, 0), all, glance);
  }
  std::vector<std::byte> all(2);
  const auto exchange = [&](int times, const SharedExchange::Glance& glance) {
    for (int i = 0; i < times; ++i) first.all_gather(bytes_of(0, 1, 0), all, glance);
  };
  exchange(100, in_time());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  int glances = 0;
  EXPECT_THROW(exchange(1000,
                        [&] {
                          if (++glances == 2) throw std::runtime_error("lost");
                        }),
               std::runtime_error);
  EXPECT_EQ(glances, 2);
}

TEST(SharedExchange, MemoryOfOthersIsRefusedOrKnown) {
  const SharedExchange of_three(0, 3), of_other_three(0, 3);
  EXPECT_EQ(SharedExchange(1, 3, of_three.fd()).mark(), of_three.mark());
  EXPECT_NE(of_other_three.mark(), of_three.mark());
  EXPECT_EQ(test::error_text(ErrorCode::kInternal, [&] { SharedExchange(1, 2, of_three.fd()); }),
            "the shared memory is not that of these processes");
  EXPECT_EQ(test::error_text(ErrorCode::kInternal, [&] { SharedExchange(1, 2, -1); }),
            "the shared memory is not that of these processes");
}

}  // namespace
}  // namespace flotilla
