// Processes on c10d and Gloo: src/nn/c10d.h. For the one file of the plugin.
//
// Two groups of connections: one for what is exchanged, where processes of one host do not have
// memory in common for that, one for signs of life, on which a thread meets the others every
// second. Gloo says that something broke, never who broke it. So whoever notices calls the roll in
// the store: those who are there sign, and those who do not are lost. Where all sign and nothing
// broke, one of them was only late, and they go on.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "flotilla/core/clock.h"
#include "flotilla/core/collective.h"
#include "flotilla/core/descriptor.h"
#include "flotilla/core/launch.h"
#include "flotilla/core/shared_exchange.h"
#include "flotilla/core/text.h"
#include "flotilla/nn/meeting_file.h"
#include "flotilla/nn/torch/c10d_board.h"
#include "flotilla/nn/torch/c10d_store.h"
#include "flotilla/nn/torch/libtorch.h"

namespace flotilla {
namespace {

using namespace torch_nn;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Who waits looks up this often.
constexpr milliseconds kGlance{100};
// Gloo's own limit, which ends connections: the signs of life come before it.
constexpr milliseconds kNever = std::chrono::hours(24 * 30);
// For the others to sign, and to hear what failed; a third of a shorter deadline.
constexpr double kRollCall_s = 3;

// Bytes of all processes together up to which each sends its own to every other one.
constexpr size_t kSentToAll = size_t{1} << 24;

std::string here(int rank) { return text("here/", rank); }
// Of a roll, which are numbered from 0: that it is called, who has signed it and how it ended.
std::string trouble(int roll) { return text("trouble/", roll); }
std::string signature(int roll, int rank) { return text("alive/", roll, "/", rank); }
std::string outcome(int roll) { return text("lost/", roll); }
constexpr const char* kAddress = "MASTER_ADDR";
constexpr const char* kFailed = "failed";
constexpr const char* kHeard = "heard";

// Where processes meet: on one host a file, for a TCPStore listens on all interfaces.
struct MeetingPlace {
  std::optional<MeetingFile> file = {};
  StorePtr store = {};
  Board::Open reopen = {};  // another connection to it; empty: it is the file
};

// A process whose group is one of several with this one in it: what the two are called.
using PairNames = std::optional<std::array<std::string, 2>>;

class C10dCollective final : public Collective {
 public:
  C10dCollective(const Launch& launch, double deadline_s, MeetingPlace place,
                 PairNames names = std::nullopt)
      : rank_(launch.rank),
        size_(launch.size),
        deadline_s_(deadline_s),
        roll_call_s_(std::min(kRollCall_s, deadline_s / 3)),
        period_s_(std::min(1.0, deadline_s / 5)),
        hosts_store_((names || !launch.one_host()) && launch.rank == 0),
        names_(std::move(names)),
        file_(std::move(place.file)),
        store_(std::move(place.store)) {
    const std::string own =
        launch.one_host() ? "127.0.0.1" : own_address_towards(launch.address, kAddress);
    if (rank_ == 0) store_->set(Board::kMark, bytes_of(text(::getpid(), ".", now_ns())));
    wait_for_all();
    exchange_ = make_group("exchange", own);
    life_ = make_group("life", own);
    board_ = std::make_unique<Board>(store_, std::move(place.reopen), period_s_ / 2);
    watcher_ = std::thread([this] { watch(); });
    if (!launch.one_host() || names_) return;
    try {
      share_memory();
    } catch (...) {
      let_go();
      throw;
    }
  }

  ~C10dCollective() override {
    stop_watching();
    if (names_ && rank_ == 0 && lost_to_others_ && !failed_) clear_away();
    let_go();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string way() const override { return shared_ ? "shared memory" : "Gloo"; }

  // What Gloo exchanges lies in tensors of libtorch, which live until Gloo is done with them: where
  // a process is lost, that may be after whoever called has given up.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    if (mine.empty()) return;
    if (shared_) return shared_->all_gather(mine, all, glance());
    at::Tensor received;
    complete([&] {
      WorkPtr work;
      received = start_gather(*exchange_, mine, work);
      return work;
    });
    std::memcpy(all.data(), received.data_ptr(), all.size());
  }

  void all_reduce(std::span<float> numbers) override {
    if (shared_) return shared_->all_reduce(numbers, glance());
    std::vector<at::Tensor> tensors = {
        at::empty({static_cast<int64_t>(numbers.size())}, at::kFloat)};
    std::memcpy(tensors[0].data_ptr(), numbers.data(), numbers.size_bytes());
    complete([&] { return exchange_->allreduce(tensors); });
    std::memcpy(numbers.data(), tensors[0].data_ptr(), numbers.size_bytes());
  }

  void broadcast(std::span<std::byte> bytes, int from) override {
    if (bytes.empty()) return;
    if (shared_) return shared_->broadcast(bytes, from, glance());
    std::vector<at::Tensor> tensors = {bytes_in_tensor(bytes)};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    complete([&] { return exchange_->broadcast(tensors, options); });
    std::memcpy(bytes.data(), tensors[0].data_ptr(), bytes.size());
  }

  // Nobody looks into the store any more when all have met, so that its file can go.
  void end() override {
    ending_ = true;
    stop_watching();
    shared_.reset();  // Gloo notices at once who is gone
    std::vector<std::byte> one(1), all(static_cast<size_t>(size_));
    try {
      all_gather(one, all);
    } catch (const Error&) {
      return;  // all is done: whoever is gone has no more to say
    }
    if (file_ && rank_ == 0) file_->remove();
  }

  void fail(const Error& error) override {
    if (lost_to_others_) return;  // they have ended before
    failed_ = true;
    const std::string words = text(rank_, " ", exit_status(error), " ", error.what());
    const uint64_t start = now_ns();
    bool told = false;
    do {
      told = told || tell_failure(words);
      if (told && (!hosts_store_ || all_have_heard())) return;
      std::this_thread::sleep_for(kGlance);
      // Without the store nobody would hear it.
    } while (hosts_store_ && seconds_since(start) < roll_call_s_);
  }

 private:
  // A process that goes on without the other one of a pair does not keep its connections, whose
  // end may have to be waited for.
  void clear_away() {
    std::thread([exchange = std::move(exchange_), life = std::move(life_)]() mutable {
      exchange.reset();
      life.reset();
    }).detach();
  }

  // "rank 1, 2", or the name of the other one of a pair.
  std::string who(const std::vector<int>& ranks) const {
    std::vector<std::string> all;
    for (const int r : ranks) {
      all.push_back(names_ ? (*names_)[static_cast<size_t>(r)] : std::to_string(r));
    }
    return (names_ ? "" : "rank ") + join(all, ", ");
  }

  static at::Tensor bytes_in_tensor(std::span<const std::byte> bytes) {
    at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }

  // Starts it, and returns where the bytes of all will be. Gloo gathers in a ring, of which every
  // message waits for the one before; few bytes are sent to everybody at once instead.
  at::Tensor start_gather(c10d::ProcessGroupGloo& group, std::span<const std::byte> mine,
                          WorkPtr& work) const {
    at::Tensor own = bytes_in_tensor(mine);
    at::Tensor all = at::empty({size_, own.numel()}, at::kByte);
    if (mine.size() * static_cast<size_t>(size_) <= kSentToAll) {
      at::Tensor copies = own.unsqueeze(0).expand({size_, -1}).contiguous();
      std::vector<int64_t> equal_shares;
      work = group.alltoall_base(all, copies, equal_shares, equal_shares);
    } else {
      std::vector<at::Tensor> inputs = {own};
      std::vector<std::vector<at::Tensor>> outputs = {all.unbind(0)};
      work = group.allgather(outputs, inputs);
    }
    return all;
  }

  GroupPtr make_group(const char* name, const std::string& own_address) {
    auto options = c10d::ProcessGroupGloo::Options::create(kNever);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(own_address));
    options->threads = 1;
    auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    return c10::make_intrusive<c10d::ProcessGroupGloo>(prefixed, rank_, size_, options);
  }

  // Null where there is no such memory, or this process may not see it (a container of its own).
  template <class... Memory>
  std::unique_ptr<SharedExchange> seen_memory(const Memory&... memory) const {
    try {
      return std::make_unique<SharedExchange>(rank_, size_, memory...);
    } catch (const Error&) {
      return {};
    }
  }

  // Rank 0 makes memory, and the others find it among its open files. All have it or none.
  void share_memory() {
    std::unique_ptr<SharedExchange> shared;
    if (rank_ == 0) shared = seen_memory();
    struct Place {
      int64_t pid, fd;
      uint64_t mark;
    };
    std::array<Place, 1> at{};
    if (shared) at[0] = {::getpid(), shared->fd(), shared->mark()};
    broadcast(std::as_writable_bytes(std::span(at)), 0);
    if (rank_ != 0 && at[0].pid != 0) {
      const std::string path = text("/proc/", at[0].pid, "/fd/", at[0].fd);
      const Descriptor memory(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
      shared = seen_memory(memory.get());
    }
    const std::byte mine{shared != nullptr && shared->mark() == at[0].mark};
    std::vector<std::byte> all(static_cast<size_t>(size_));
    all_gather({&mine, 1}, all);
    if (std::ranges::count(all, std::byte{1}) == size_) shared_ = std::move(shared);
  }

  // Without the destructors of what would wait for what never comes.
  void let_go() {
    stop_watching();
    exchange_.release();
    life_.release();
    store_.release();
  }

  void wait_for_all() {
    const uint64_t start = now_ns();
    store_->set(here(rank_), bytes_of("1"));
    for (;;) {
      std::vector<int> missing;
      for (int r = 0; r < size_; ++r) {
        if (!store_->check({here(r)})) missing.push_back(r);
      }
      if (missing.empty()) return;
      if (seconds_since(start) > deadline_s_) {
        throw Error(ErrorCode::kEnvironment, text(who(missing), names_ ? "" : text(" of ", size_),
                                                  " has not come within ", deadline_s_, " s"));
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  // For who waits: ends that when it is in vain.
  SharedExchange::Glance glance() const {
    return [this, begin = now_ns()] {
      if (!ending_ && verdict()) throw *verdict();
      if (ending_ && seconds_since(begin) > deadline_s_) {
        throw Error(ErrorCode::kEnvironment, "the others are gone");
      }
    };
  }

  // Starts an operation and waits for it, as long as all are there.
  template <class Start>
  void complete(const Start& start) {
    try {
      const WorkPtr work = start();
      const SharedExchange::Glance look_up = glance();
      while (!finished(*work)) look_up();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      if (ending_) throw Error(ErrorCode::kEnvironment, first_line(error));
      throw why_it_broke(error);
    }
  }

  // Waits for a moment. Throws what the operation failed by.
  static bool finished(c10d::Work& work) {
    try {
      work.wait(kGlance);
      return true;
    } catch (const std::exception&) {
      if (!work.isCompleted()) return false;  // it took longer
    }
    // By itself, or just after the moment was over, which is no failure.
    work.wait(kGlance);
    return true;
  }

  // What the watcher finds out.
  Error why_it_broke(const std::exception& error) {
    broken_ = true;
    bell_.notify_all();
    const uint64_t start = now_ns();
    while (!verdict() && seconds_since(start) < deadline_s_) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    if (verdict()) return *verdict();
    return {ErrorCode::kEnvironment,
            "the connection to other processes broke: " + first_line(error)};
  }

  std::optional<Error> verdict() const {
    const std::lock_guard lock(mutex_);
    return verdict_;
  }

  // False where the store does not answer: then those who would listen may be gone.
  bool tell_failure(const std::string& words) {
    try {
      board_->write(kFailed, words);
      // Others may be a roll ahead.
      board_->write(trouble(roll_), "1");
      board_->write(trouble(roll_ + 1), "1");
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  bool all_have_heard() {
    try {
      return board_->add(kHeard, 0) >= size_ - 1;
    } catch (const std::exception&) {
      return false;
    }
  }

  void watch() {
    while (!stopped()) {
      if (beat() && rest()) continue;
      if (!call_the_roll()) return;
    }
  }

  // Whether all gave a sign of life in time. One that was waited for in vain is waited for again.
  bool beat() {
    silent_ = false;
    try {
      if (sign_ == nullptr) {
        const std::byte sign{1};
        start_gather(*life_, {&sign, 1}, sign_);
        patience_s_ = most_patience_s();
      }
      uint64_t start = now_ns();
      for (uint64_t looked = start; !finished(*sign_); looked = now_ns()) {
        if (stopped()) return true;
        // A look that took long: this process was kept from running.
        if (seconds_since(looked) > period_s_) start = now_ns();
        silent_ = seconds_since(start) > patience_s_;
        if (silent_ || troubled()) return false;
      }
      sign_.reset();
      return true;
    } catch (const std::exception&) {
      if (stopped()) return true;
      broken_ = true;
      return false;
    }
  }

  // By the deadline all have ended, so that the roll is called before.
  double most_patience_s() const { return deadline_s_ - roll_call_s_ - period_s_; }
  // A sign that all waited for and nobody sent will not come.
  bool waited_before() const { return patience_s_ < most_patience_s(); }

  // Between two signs of life. False: there is trouble.
  bool rest() {
    const uint64_t start = now_ns();
    while (seconds_since(start) < period_s_ && !stopped()) {
      if (troubled()) return false;
      std::unique_lock lock(mutex_);
      bell_.wait_for(lock, kGlance);
    }
    return true;
  }

  // A store that does not answer tells of none: who has it is there as long as it gives signs.
  bool troubled() {
    if (broken_) return true;
    try {
      return board_->has(trouble(roll_));
    } catch (const std::exception&) {
      return false;
    }
  }

  // What is known of a roll.
  struct Roll {
    std::vector<int> missing = {};
    bool broken = false, silent = false;  // as one of those who signed says
    std::optional<Error> verdict = {};    // that another one has come to
  };

  // Whether the run goes on: all are there.
  bool call_the_roll() {
    std::optional<Roll> roll;
    uint64_t start = now_ns();
    bool is_last = false;
    do {
      if (ending_ || stopped()) return false;
      is_last = seconds_since(start) > roll_call_s_;
      try {
        if (!roll) sign_the_roll();
        roll = read_the_roll();
      } catch (const std::exception&) {
        roll.reset();
      }
      if (roll && roll->verdict) {
        judge(*roll->verdict);
        return false;
      }
      const uint64_t slept = now_ns();
      std::this_thread::sleep_for(milliseconds(20));
      if (seconds_since(slept) > period_s_) start = now_ns();  // it was kept from running
    } while ((!roll || !roll->missing.empty()) && !is_last);
    if (ending_) return false;
    if (!roll || !roll->missing.empty() || roll->broken) {
      judge(roll ? reason_of(*roll) : reason_without_store());
      return false;
    }
    ++roll_;
    patience_s_ = std::min(roll_call_s_, most_patience_s() / 2);
    return true;
  }

  void sign_the_roll() {
    if (silent_ && waited_before()) broken_ = true;
    board_->write(signature(roll_, rank_), broken_ ? "broken" : silent_ ? "silent" : "here");
    board_->write(trouble(roll_), "1");
  }

  Roll read_the_roll() {
    Roll roll;
    if (board_->has(kFailed)) {
      roll.verdict = passed_on(board_->read(kFailed));
      return roll;
    }
    if (board_->has(outcome(roll_))) {
      roll.verdict = Error(ErrorCode::kEnvironment, board_->read(outcome(roll_)));
      return roll;
    }
    for (int r = 0; r < size_; ++r) {
      if (!board_->has(signature(roll_, r))) {
        roll.missing.push_back(r);
        continue;
      }
      const std::string words = board_->read(signature(roll_, r));
      roll.broken |= words == "broken";
      roll.silent |= words == "silent";
    }
    return roll;
  }

  std::string no_sign() const { return text("no sign of life within ", deadline_s_, " s"); }

  // Others find it, so that all say the same.
  Error reason_of(const Roll& roll) {
    std::string reason = "the connections between the processes broke";
    if (!roll.missing.empty()) {
      const bool hangs = roll.silent && !roll.broken;
      reason = text(who(roll.missing), " is lost: ", hangs ? no_sign() : "its process ended");
    }
    try {
      board_->write(outcome(roll_), reason);
    } catch (const std::exception&) {
      // Then they find it out by themselves.
    }
    return {ErrorCode::kEnvironment, reason};
  }

  // Of two the other one is lost, of several likely rank 0, which has the store.
  Error reason_without_store() const {
    if (size_ == 2) {
      return {ErrorCode::kEnvironment,
              text(who({1 - rank_}), " is lost: ", silent_ ? no_sign() : "its process ended")};
    }
    if (hosts_store_) {
      return {ErrorCode::kEnvironment,
              "a process is lost, and the store that would say which "
              "does not answer"};
    }
    return {ErrorCode::kEnvironment, who({0}) + " is lost: its store does not answer"};
  }

  // "2 3 text": rank, exit status and text of what failed.
  Error passed_on(const std::string& failed) {
    const size_t first = failed.find(' '), second = failed.find(' ', first + 1);
    const int status = std::stoi(failed.substr(first + 1, second - first - 1));
    const std::string rank = failed.substr(0, first), text = failed.substr(second + 1);
    if (rank != std::to_string(rank_)) board_->add(kHeard, 1);
    // What rank 0 says is said of the run, not of a process.
    return {static_cast<ErrorCode>(status),
            rank == "0" ? text : who({std::stoi(rank)}) + ": " + text};
  }

  void judge(const Error& error) {
    const std::lock_guard lock(mutex_);
    verdict_ = error;
    lost_to_others_ = true;
  }

  bool stopped() const { return stop_; }
  void stop_watching() {
    stop_ = true;
    bell_.notify_all();
    if (watcher_.joinable()) watcher_.join();
  }

  const int rank_, size_;
  const double deadline_s_, roll_call_s_;
  const double period_s_;  // between signs of life
  const bool hosts_store_;
  const PairNames names_;
  std::optional<MeetingFile> file_;
  StorePtr store_;
  std::unique_ptr<Board> board_;  // once all have met
  GroupPtr exchange_, life_;
  std::unique_ptr<SharedExchange> shared_;
  mutable std::mutex mutex_;
  std::condition_variable bell_;
  std::optional<Error> verdict_;  // under mutex_
  // The watcher's: the sign of life that is waited for, how long, and whether that was too long.
  WorkPtr sign_;
  double patience_s_ = 0;
  bool silent_ = false;
  std::atomic<int> roll_{0};  // that is called next
  std::atomic<bool> stop_{false}, ending_{false}, broken_{false}, lost_to_others_{false},
      failed_{false};
  std::thread watcher_;
};

}  // namespace
}  // namespace flotilla
