// A listener and those who join it as threads of one program.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "flotilla/core/collective.h"
#include "flotilla/core/error.h"

namespace flotilla::test {

// What two ranks send each other.
class ThreadPair {
 public:
  std::unique_ptr<Collective> rank(std::shared_ptr<ThreadPair> self, int rank) {
    return std::make_unique<Rank>(std::move(self), rank);
  }

 private:
  class Rank final : public Collective {
   public:
    Rank(std::shared_ptr<ThreadPair> pair, int rank) : pair_(std::move(pair)), rank_(rank) {}
    // Whoever goes without a word is lost.
    ~Rank() override { fail(Error(ErrorCode::kEnvironment, "the other one is lost")); }
    int rank() const override { return rank_; }
    int size() const override { return 2; }
    std::string way() const override { return "threads"; }
    void all_gather(std::span<const std::byte>, std::span<std::byte>) override {}
    void all_reduce(std::span<float>) override {}
    void broadcast(std::span<std::byte> bytes, int from) override {
      if (bytes.empty()) return;
      std::unique_lock lock(pair_->mutex_);
      auto& sent = pair_->sent_[from];
      if (rank_ == from) {
        sent.emplace_back(bytes.begin(), bytes.end());
        pair_->bell_.notify_all();
      } else {
        pair_->bell_.wait(lock, [&] { return !sent.empty() || pair_->error_; });
        if (sent.empty()) throw *pair_->error_;
        if (sent.front().size() != bytes.size()) {
          throw Error(ErrorCode::kInternal, "ranks make different calls");
        }
        std::ranges::copy(sent.front(), bytes.begin());
        sent.pop_front();
      }
    }
    void fail(const Error& error) override {
      const std::lock_guard lock(pair_->mutex_);
      if (!pair_->error_) pair_->error_ = error;
      pair_->bell_.notify_all();
    }

   private:
    const std::shared_ptr<ThreadPair> pair_;
    const int rank_;
  };

  std::mutex mutex_;
  std::condition_variable bell_;
  std::map<int, std::deque<std::vector<std::byte>>> sent_;  // by sender
  std::optional<Error> error_;
};

class ThreadListener final : public Listener {
 public:
  int arrived() override {
    const std::lock_guard lock(mutex_);
    if (silent_for_ > 0) {
      --silent_for_;
      throw Error(ErrorCode::kEnvironment, "no answer");
    }
    return static_cast<int>(pairs_.size());
  }
  std::unique_ptr<Collective> meet(int number) override {
    const std::lock_guard lock(mutex_);
    const auto& pair = pairs_[static_cast<size_t>(number - 1)];
    return pair->rank(pair, 0);
  }
  // It does not answer for so many calls.
  void be_silent(int calls) {
    const std::lock_guard lock(mutex_);
    silent_for_ = calls;
  }
  // The other side of a new one.
  std::unique_ptr<Collective> join() {
    const std::lock_guard lock(mutex_);
    const auto& pair = pairs_.emplace_back(std::make_shared<ThreadPair>());
    return pair->rank(pair, 1);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ThreadPair>> pairs_;
  int silent_for_ = 0;
};

}  // namespace flotilla::test
