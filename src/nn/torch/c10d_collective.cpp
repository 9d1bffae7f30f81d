// The functions of the plugin: where processes meet (src/nn/c10d.h).
#include "flotilla/nn/torch/c10d_collective.h"

#include <functional>
#include <future>

#include "flotilla/core/endpoint.h"
#include "flotilla/nn/torch/c10d_plugin.h"

namespace flotilla {
namespace {

// In a thread that can be left behind: a program that is no store and has the port lets c10d wait
// for ever.
template <class Made>
Made in_time(double limit_s, const std::function<Made()>& make, const std::string& late) {
  auto made = std::make_shared<std::promise<Made>>();
  std::future<Made> result = made->get_future();
  std::thread([made, make] {
    try {
      made->set_value(guarded(make));
    } catch (...) {
      made->set_exception(std::current_exception());
    }
  }).detach();
  if (result.wait_for(in_ms(limit_s)) == std::future_status::ready) return result.get();
  throw Error(ErrorCode::kEnvironment, late);
}

constexpr const char* kPort = "cluster.port";
// The key of a store that says what the deadline of whoever has it is.
constexpr const char* kDeadline = "deadline_s";

double deadline_in(c10d::Store& store) {
  return std::clamp(std::atof(text_of(store.get(kDeadline)).c_str()), 1., 1e6);
}

// By which a store is known to be that of a run, of as many processes.
constexpr const char* kGreeting = "flotilla";
// For a store to answer once it lets others connect; half of a shorter deadline.
constexpr double kAnswer_s = 5;

// Every rank takes its number once: where it is taken, the store is that of another run.
bool takes_its_rank(c10d::Store& store, int rank) { return store.add(text("rank/", rank), 1) == 1; }

// Rank 0's, for the others to find.
StorePtr opened_store(const Launch& launch, int port, double deadline_s) {
  StorePtr store = tcp_store(launch.address, port, true, deadline_s, kPort);
  takes_its_rank(*store, 0);
  store->set(kGreeting, bytes_of(text(launch.size)));
  return store;
}

// Null where what lets others connect does not answer as the store of this run does.
StorePtr answering_store(const Launch& launch, int port, double limit_s) {
  try {
    return in_time<StorePtr>(
        limit_s,
        [=]() -> StorePtr {
          StorePtr store = tcp_store(launch.address, port, false, limit_s, kPort);
          const bool ours = text_of(store->get(kGreeting)) == text(launch.size);
          return ours && takes_its_rank(*store, launch.rank) ? store : StorePtr();
        },
        "no answer");
  } catch (const std::exception&) {
    return {};
  }
}

// Rank 0 cannot tell the others that another program has its port: they find that program there.
StorePtr found_store(const Launch& launch, int port, double deadline_s) {
  const uint64_t start = now_ns();
  while (seconds_since(start) < deadline_s) {
    const Port there = port_at(launch.address, port);
    if (there != Port::kClosed) {
      StorePtr store;
      if (there == Port::kSilent) {
        store = answering_store(launch, port, std::min(kAnswer_s, deadline_s / 2));
      }
      if (store != nullptr) return store;
      // Or it was that of an earlier start, which has ended meanwhile.
      if (port_at(launch.address, port) != Port::kClosed) {
        throw port_is_taken(kPort, launch.address, port);
      }
    }
    std::this_thread::sleep_for(kGlance);
  }
  throw Error(ErrorCode::kEnvironment,
              text("rank 0 of ", launch.size, " has not come within ", deadline_s, " s to port ",
                   port, " of ", launch.address));
}

MeetingPlace place_of(const Launch& launch, const MeetingOptions& options) {
  MeetingPlace place;
  if (launch.one_host()) {
    place.file.emplace(launch, options.deadline_s);
    place.store = c10::make_intrusive<c10d::FileStore>(place.file->path(), launch.size);
  } else {
    if (options.port == 0 && launch.port == 0) {
      throw Error(ErrorCode::kUsage, "MASTER_PORT is not set: give it, or cluster.port");
    }
    own_address_towards(launch.address, kAddress);  // which is refused before it is waited for
    const int port = options.port > 0 ? options.port : launch.port + 1;
    if (port > UINT16_MAX) {
      throw Error(ErrorCode::kUsage, "MASTER_PORT is the last there is: give cluster.port");
    }
    place.store = launch.rank == 0 ? opened_store(launch, port, options.deadline_s)
                                   : found_store(launch, port, options.deadline_s);
    place.reopen = [launch, port](double limit_s) {
      return tcp_store_again(launch.address, port, limit_s, kPort);
    };
  }
  place.store->setTimeout(in_ms(options.deadline_s));
  return place;
}

// That of rank 0, which has the run's settings though the others may not.
double deadline_of_all(c10d::Store& store, int rank, double own_s) {
  if (rank == 0) store.set(kDeadline, bytes_of(text(own_s)));
  return deadline_in(store);
}

Collective* meet_in_time(const Launch& launch, const MeetingOptions& options) {
  return in_time<Collective*>(
      options.deadline_s + kRollCall_s,
      [=] {
        MeetingPlace place = place_of(launch, options);
        const double deadline_s = deadline_of_all(*place.store, launch.rank, options.deadline_s);
        place.store->setTimeout(in_ms(deadline_s));
        return new C10dCollective(launch, deadline_s, std::move(place));
      },
      text("rank ", launch.rank, " could not meet the others within ", options.deadline_s, " s at ",
           launch.one_host() ? "this host" : launch.address));
}

// The key of a listener's store that says how many have come.
constexpr const char* kArrived = "arrived";
constexpr const char* kListen = "cluster.listen";

Launch pair_launch(const Endpoint& at, int rank) {
  return {.rank = rank,
          .size = 2,
          .local_size = at.on_loopback() ? 2 : 1,
          .address = at.host,
          .port = at.port,
          .id = text("listener at ", at.port)};
}

// The pair with the process of that number, through a connection to the store of its own: c10d
// lets one caller wait for the answers of another.
Collective* new_pair(const Launch& launch, const Endpoint& at, double deadline_s, StorePtr store,
                     int number) {
  store->setTimeout(in_ms(deadline_s));
  const auto own_part = [number](StorePtr whole) -> StorePtr {
    return c10::make_intrusive<c10d::PrefixStore>(text("pair/", number), std::move(whole));
  };
  MeetingPlace place{.store = own_part(std::move(store))};
  if (!at.on_loopback()) {
    place.reopen = [at, own_part](double limit_s) {
      return own_part(tcp_store_again(at.host, at.port, limit_s, kListen));
    };
  }
  return new C10dCollective(launch, deadline_s, std::move(place),
                            std::array<std::string, 2>{"the learner", text("actor ", number)});
}

class C10dListener final : public Listener {
 public:
  C10dListener(const Endpoint& at, double deadline_s)
      : at_(at), launch_(pair_launch(at, 0)), deadline_s_(deadline_s) {
    if (at.on_loopback()) {
      if (MeetingFile::exists(launch_.id)) {
        throw Error(ErrorCode::kUsage, text(kListen, ": ", at.port, " is another learner's"));
      }
      file_.emplace(launch_, deadline_s);
      store_ = open(answer_s_);
    } else {
      require_own_address(at.host, kListen);
      store_ = tcp_store(at.host, at.port, true, answer_s_, kListen);
    }
    store_->set(kDeadline, bytes_of(text(deadline_s)));
  }
  ~C10dListener() override {
    if (file_) {
      file_->remove();
      store_.release();  // it would count its users in the file that is gone
    } else {
      close(std::move(store_));
    }
  }

  // Who says half of something holds up the store, and with it the answers to all others. One that
  // comes late would be taken for that to the next question: that one has a connection of its own.
  int arrived() override {
    try {
      if (asked_ == nullptr) asked_ = file_ ? store_ : open(answer_s_);
      if (!asked_->check({kArrived})) return 0;
      return std::atoi(text_of(asked_->get(kArrived)).c_str());
    } catch (const std::exception& error) {
      asked_.reset();
      throw Error(ErrorCode::kEnvironment,
                  text(kListen, ": no answer at ", at_.text(), ": ", first_line(error)));
    }
  }
  std::unique_ptr<Collective> meet(int number) override {
    return guarded([&] {
      return std::unique_ptr<Collective>(
          new_pair(launch_, at_, deadline_s_, open(deadline_s_), number));
    });
  }

 private:
  StorePtr open(double limit_s) const {
    if (file_) return c10::make_intrusive<c10d::FileStore>(file_->path(), launch_.size);
    return tcp_store(at_.host, at_.port, false, limit_s, kListen);
  }

  // Its thread may be held up, which is not waited for.
  static void close(StorePtr store) {
    const auto held = std::make_shared<StorePtr>(std::move(store));
    const auto let_go = [held] {
      held->reset();
      return true;
    };
    try {
      in_time<bool>(1, let_go, "");
    } catch (const Error&) {
      // It ends with this process.
    }
  }

  const Endpoint at_;
  const Launch launch_;
  const double deadline_s_;
  const double answer_s_ = std::min(kAnswer_s, deadline_s_);
  std::optional<MeetingFile> file_;
  StorePtr store_;  // has the port
  StorePtr asked_;  // by arrived()
};

StorePtr find_listener(const Endpoint& at, double wait_s) {
  const Launch launch = pair_launch(at, 1);
  if (!at.on_loopback()) {
    own_address_towards(at.host, at.text());
    return tcp_store(at.host, at.port, false, wait_s, "the learner");
  }
  return c10::make_intrusive<c10d::FileStore>(MeetingFile(launch, wait_s).path(), launch.size);
}

Collective* join_in_time(const Endpoint& at, double wait_s) {
  if (!at.on_loopback() && port_at(at.host, at.port) == Port::kSpeaks) {
    throw Error(ErrorCode::kEnvironment,
                text("what is at ", at.text(), " is no learner: it speaks unasked"));
  }
  const std::string nobody =
      text("no learner has been found at ", at.text(), " within ", wait_s, " s");
  const StorePtr store = in_time<StorePtr>(
      wait_s + kRollCall_s,
      [=] {
        try {
          return find_listener(at, wait_s);
        } catch (const Error& error) {
          const bool waited =
              error.code() == ErrorCode::kEnvironment ||
              std::string_view(error.what()).find("cannot be reached") != std::string_view::npos;
          if (waited) throw Error(ErrorCode::kEnvironment, nobody);
          throw;
        }
      },
      nobody);
  double deadline_s = 0;
  int number = 0;
  try {
    store->setTimeout(in_ms(wait_s));
    deadline_s = deadline_in(*store);
    number = static_cast<int>(store->add(kArrived, 1));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kEnvironment,
                text("what is at ", at.text(), " is no learner: ", first_line(error)));
  }
  try {
    return guarded([&] { return new_pair(pair_launch(at, 1), at, deadline_s, store, number); });
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    if (known != nullptr && known->code() == ErrorCode::kEnvironment) throw;
    throw Error(ErrorCode::kEnvironment,
                text("the learner at ", at.text(), " has ended, or cannot be reached any more"));
  }
}

}  // namespace
}  // namespace flotilla

#define FLOTILLA_SHOWN extern "C" __attribute__((visibility("default")))

FLOTILLA_SHOWN flotilla::Collective* flotilla_meet_by_c10d(
    const flotilla::Launch& launch, const flotilla::MeetingOptions& options) {
  flotilla::torch_nn::use_one_thread();
  return flotilla::meet_in_time(launch, options);
}

FLOTILLA_SHOWN flotilla::Listener* flotilla_listen_by_c10d(const flotilla::Endpoint& at,
                                                           double deadline_s) {
  flotilla::torch_nn::use_one_thread();
  return flotilla::torch_nn::guarded([&] { return new flotilla::C10dListener(at, deadline_s); });
}

FLOTILLA_SHOWN flotilla::Collective* flotilla_join_by_c10d(const flotilla::Endpoint& at,
                                                           double wait_s) {
  flotilla::torch_nn::use_one_thread();
  return flotilla::join_in_time(at, wait_s);
}
