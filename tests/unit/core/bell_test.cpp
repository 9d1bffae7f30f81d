#include "flotilla/core/bell.h"

#include <gtest/gtest.h>

#include <thread>

#include "flotilla/core/arena.h"
#include "support/child.h"

namespace flotilla {
namespace {

constexpr double kLong = 60;  // only reached when a ring was lost

// Waits until `word` has reached `value`, the way users of a bell do.
bool await(Bell& bell, const std::atomic<int>& word, int value, Patience& patience) {
  while (true) {
    const uint32_t heard = bell.heard();
    if (word.load(std::memory_order_acquire) >= value) return true;
    if (!bell.wait(heard, patience, Deadline::after(kLong))) return false;
  }
}

Patience patience_for(bool patient) {
  Patience patience;
  for (int i = 0; !patient && i < 2; ++i) {
    patience.spin_ns();
    patience.learn(false);
  }
  return patience;
}

// Two sides that answer each other; a lost ring stops them both.
struct Table {
  Bell ping, pong;
  std::atomic<int> served{0}, returned{0};

  // A patient side keeps its experience, an impatient one spins a little and sleeps.
  bool serve(int rounds, bool patient) {
    Patience patience = patience_for(patient);
    for (int i = 1; i <= rounds; ++i) {
      served.store(i, std::memory_order_release);
      ping.ring();
      if (!await(pong, returned, i, patience)) return false;
      if (!patient) patience = patience_for(false);
    }
    return true;
  }
  bool answer(int rounds, bool patient) {
    Patience patience = patience_for(patient);
    for (int i = 1; i <= rounds; ++i) {
      if (!await(ping, served, i, patience)) return false;
      if (!patient) patience = patience_for(false);
      returned.store(i, std::memory_order_release);
      pong.ring();
    }
    return true;
  }
};

TEST(Bell, NoRingIsLostBetweenTwoThreads) {
  for (const bool server : {true, false}) {
    for (const bool answerer : {true, false}) {
      Table table;
      bool answered = false;
      std::thread other([&] { answered = table.answer(5000, answerer); });
      EXPECT_TRUE(table.serve(5000, server));
      other.join();
      EXPECT_TRUE(answered);
      EXPECT_EQ(table.ping.sleepers.load(), 0u);
      EXPECT_EQ(table.pong.sleepers.load(), 0u);
    }
  }
}

TEST(Bell, NoRingIsLostWhenTheRingerDoesNotWait) {
  Bell bell;
  std::atomic<int> written{0};
  constexpr int kRings = 20'000;
  bool heard_all = false;
  std::thread waiter([&] {
    Patience patience;
    heard_all = await(bell, written, kRings, patience);
  });
  for (int i = 1; i <= kRings; ++i) {
    written.store(i, std::memory_order_release);
    bell.ring();
  }
  waiter.join();
  EXPECT_TRUE(heard_all);
}

TEST(Bell, OneRingWakesAllWaiters) {
  Bell bell;
  std::atomic<int> word{0}, awake{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 6; ++i) {
    waiters.emplace_back([&] {
      Patience patience;
      awake += await(bell, word, 1, patience);
    });
  }
  while (bell.sleepers.load() < 6) std::this_thread::yield();
  word.store(1, std::memory_order_release);
  bell.ring();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(awake.load(), 6);
}

TEST(Bell, WorksAcrossFork) {
  ArenaLayout layout;
  const auto id = layout.add<std::byte>("table", 1, sizeof(Table));
  const Arena arena(layout, Arena::Backing::kShared);
  Table& table = *new (arena.view(id).row(0)) Table;
  const pid_t child = fork();
  if (child == 0) _exit(table.answer(2000, true) ? 0 : 1);
  EXPECT_TRUE(table.serve(2000, true));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(test::exited_with(status, 0));
}

TEST(Bell, WritesBeforeTheRingAreSeenAfterTheWait) {
  Bell bell;
  Patience patience;
  int plain = 0;  // no atomic: the bell alone publishes it
  for (int i = 1; i <= 2000; ++i) {
    const uint32_t heard = bell.heard();
    std::thread writer([&] {
      plain = i;
      bell.ring();
    });
    ASSERT_TRUE(bell.wait(heard, patience, Deadline::after(kLong)));
    ASSERT_EQ(plain, i);
    writer.join();
  }
}

TEST(Bell, AnEarlierRingIsAnswerEnough) {
  Bell bell;
  Patience patience;
  const uint32_t heard = bell.heard();
  bell.ring();
  EXPECT_TRUE(bell.wait(heard, patience, Deadline::after(0)));
  EXPECT_TRUE(bell.wait(heard, patience, Deadline::never()));
  EXPECT_FALSE(bell.wait(bell.heard(), patience, Deadline::after(0)));
}

TEST(Bell, TheCounterMayWrap) {
  Bell bell;
  bell.rings.store(UINT32_MAX);
  const uint32_t heard = bell.heard();
  bell.ring();
  EXPECT_EQ(bell.heard(), 0u);
  Patience patience;
  EXPECT_TRUE(bell.wait(heard, patience, Deadline::after(0)));
}

TEST(Bell, ADeadSleeperDoesNoHarm) {
  Table table;
  table.ping.sleepers.store(3);
  std::thread other([&] { table.answer(100, false); });
  EXPECT_TRUE(table.serve(100, false));
  other.join();
  EXPECT_EQ(table.ping.sleepers.load(), 3u);
}

TEST(Bell, TheDeadlineIsKept) {
  Bell bell;
  Patience patience;
  for (const double seconds : {0.0, 0.01, 0.1}) {
    const uint64_t start = now_ns();
    EXPECT_FALSE(bell.wait(bell.heard(), patience, Deadline::after(seconds)));
    const double took = seconds_since(start);
    EXPECT_GE(took, seconds);
    EXPECT_LT(took, seconds + 5);
  }
  EXPECT_EQ(bell.sleepers.load(), 0u);
}

TEST(Bell, AWaiterUsesNoCpu) {
  Bell bell;
  Patience patience;
  const double before = process_cpu_seconds();
  EXPECT_FALSE(bell.wait(bell.heard(), patience, Deadline::after(0.5)));
  EXPECT_LT(process_cpu_seconds() - before, 0.05);
}

TEST(Patience, SpinsLongOnlyWhileItPays) {
  Patience patience;
  const uint64_t long_ns = patience.spin_ns();
  EXPECT_EQ(long_ns, 500'000u);
  patience.learn(false);
  EXPECT_EQ(patience.spin_ns(), long_ns) << "one failure is not a habit";
  patience.learn(false);
  EXPECT_EQ(patience.spin_ns(), 300u);
  uint64_t lost_ns = 0;
  int long_tries = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t spin = patience.spin_ns();
    long_tries += spin > 300;
    if (spin > 300) lost_ns += spin;
    patience.learn(false);
  }
  EXPECT_GE(long_tries, 5) << "it tries again now and then";
  EXPECT_LE(lost_ns, 1000 * 500u) << "and loses half a microsecond per wait over all";
  for (int i = 0; i < 120; ++i) {
    patience.spin_ns();
    patience.learn(true);
  }
  EXPECT_EQ(patience.spin_ns(), long_ns) << "success brings it back";
}

// A coin toss between success and failure costs more than sleeping would.
TEST(Patience, HalfAndHalfDoesNotPay) {
  Patience patience;
  uint64_t lost_ns = 0;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t spin = patience.spin_ns();
    const bool rang = i % 2 == 0;
    if (!rang) lost_ns += spin;
    patience.learn(rang);
  }
  EXPECT_LE(lost_ns, 2000 * 4'000u);
}

}  // namespace
}  // namespace flotilla
