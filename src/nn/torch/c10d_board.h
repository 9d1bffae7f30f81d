// Where processes that have met leave words for each other: the store of their meeting.
//
// Whoever has a TCPStore answers all from one thread, which a visitor who says half of something
// holds up. So nobody waits long for an answer here, and a connection on which one is late is left:
// the answer would be taken for that to the next question.
#pragma once

#include <functional>
#include <mutex>
#include <type_traits>

#include "flotilla/core/clock.h"
#include "flotilla/nn/torch/c10d_store.h"

namespace flotilla::torch_nn {

// Thread safety: any number of callers. What has no answer throws std::exception.
class Board {
 public:
  using Open = std::function<StorePtr(double limit_s)>;

  // By which a store is known again, after another process may have come to have the port.
  static constexpr const char* kMark = "mark";

  // `open`: another connection to the store, which has a mark; empty where it is a file.
  Board(StorePtr store, Open open, double answer_s)
      : answer_s_(answer_s),
        open_(std::move(open)),
        mark_(text_of(store->get(kMark))),
        store_(std::move(store)) {
    try {
      store_->setTimeout(in_ms(answer_s_));
      store_->wait({}, in_ms(answer_s_));  // holds for all answers that follow
    } catch (const std::exception&) {
      leave();
    }
  }

  bool has(const std::string& key) {
    return ask([&](c10d::Store& store) { return store.check({key}); });
  }
  // REQUIRES: it is there.
  std::string read(const std::string& key) {
    return ask([&](c10d::Store& store) { return text_of(store.get(key)); });
  }
  void write(const std::string& key, const std::string& words) {
    ask([&](c10d::Store& store) { store.set(key, bytes_of(words)); });
  }
  int64_t add(const std::string& key, int64_t number) {
    return ask([&](c10d::Store& store) { return store.add(key, number); });
  }

 private:
  template <class Ask>
  std::invoke_result_t<Ask, c10d::Store&> ask(const Ask& question) {
    const std::lock_guard lock(mutex_);
    try {
      if (store_ == nullptr) store_ = opened();
      return question(*store_);
    } catch (const std::exception&) {
      leave();
      throw;
    }
  }

  void leave() {
    if (!open_ || store_ == nullptr) return;
    store_.reset();
    left_ns_ = now_ns();
  }

  StorePtr opened() {
    // Whoever has the store has to end each of these connections one day.
    if (seconds_since(left_ns_) < 2 * answer_s_) throw Error(ErrorCode::kEnvironment, "no answer");
    left_ns_ = now_ns();
    StorePtr store = open_(answer_s_);
    if (!store->check({kMark}) || text_of(store->get(kMark)) != mark_) {
      throw Error(ErrorCode::kEnvironment, "another store");
    }
    return store;
  }

  const double answer_s_;
  const Open open_;
  const std::string mark_;
  std::mutex mutex_;
  StorePtr store_;
  uint64_t left_ns_ = 0;
};

}  // namespace flotilla::torch_nn
