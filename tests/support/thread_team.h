// Ranks as threads of one program: what several processes do together, under a debugger or a
// sanitizer.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "flotilla/core/collective.h"
#include "flotilla/core/error.h"

namespace flotilla::test {

class ThreadTeam {
 public:
  explicit ThreadTeam(int size) : given_(static_cast<size_t>(size)) {
    for (int r = 0; r < size; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r));
  }

  // Calls body(collective) for every rank at once. What the first of them throws comes out; the
  // others are told that it is lost.
  void run(const std::function<void(Collective&)>& body) {
    std::vector<std::thread> threads;
    for (const auto& rank : ranks_) {
      threads.emplace_back([&, one = rank.get()] {
        try {
          body(*one);
        } catch (...) {
          lose(one->rank(), std::current_exception());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (thrown_) std::rethrow_exception(thrown_);
  }

  int calls() const { return calls_; }  // of rank 0

 private:
  class Rank final : public Collective {
   public:
    Rank(ThreadTeam& team, int rank) : team_(team), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(team_.given_.size()); }
    std::string way() const override { return "threads"; }

    void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
      team_.exchange(rank_, mine, [&](const auto& given) {
        auto to = all.begin();
        for (const auto& bytes : given) {
          require(bytes.size() == mine.size() && all.size() == mine.size() * given.size());
          to = std::ranges::copy(bytes, to).out;
        }
      });
    }
    void all_reduce(std::span<float> numbers) override {
      std::vector<float> sum(numbers.size());
      team_.exchange(rank_, std::as_bytes(numbers), [&](const auto& given) {
        // Backwards: an order that is not that of ranks.
        for (size_t r = given.size(); r-- > 0;) {
          require(given[r].size() == numbers.size_bytes());
          const auto* other = reinterpret_cast<const float*>(given[r].data());
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
        }
      });
      std::ranges::copy(sum, numbers.begin());
    }
    void broadcast(std::span<std::byte> bytes, int from) override {
      const std::vector<std::byte> own(bytes.begin(), bytes.end());
      team_.exchange(rank_, own, [&](const auto& given) {
        const auto& sent = given[static_cast<size_t>(from)];
        require(sent.size() == bytes.size());
        std::ranges::copy(sent, bytes.begin());
      });
    }

   private:
    static void require(bool same) {
      if (!same) throw Error(ErrorCode::kInternal, "ranks make different calls");
    }
    ThreadTeam& team_;
    const int rank_;
  };

  using Given = std::vector<std::span<const std::byte>>;

  void exchange(int rank, std::span<const std::byte> mine,
                const std::function<void(const Given&)>& look) {
    if (rank == 0) ++calls_;
    given_[static_cast<size_t>(rank)] = mine;
    meet();
    look(given_);
    meet();
  }

  void meet() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++waiting_ == static_cast<int>(given_.size())) {
      waiting_ = 0;
      ++round_;
      bell_.notify_all();
    } else {
      bell_.wait(lock, [&] { return round_ != round || lost_ >= 0; });
    }
    if (lost_ >= 0) {
      throw Error(ErrorCode::kEnvironment, "rank " + std::to_string(lost_) + " is lost");
    }
  }

  void lose(int rank, std::exception_ptr thrown) {
    const std::lock_guard lock(mutex_);
    if (lost_ < 0) {
      lost_ = rank;
      thrown_ = std::move(thrown);
    }
    bell_.notify_all();
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  Given given_;
  std::mutex mutex_;
  std::condition_variable bell_;
  int waiting_ = 0, round_ = 0, lost_ = -1, calls_ = 0;
  std::exception_ptr thrown_;
};

}  // namespace flotilla::test
