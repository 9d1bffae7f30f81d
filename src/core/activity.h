// What a program is at, for who waits for it: on a terminal a live line with a bar and the time,
// which goes on while the program is silent; elsewhere a plain line now and then.
//
//   Activity evaluating("evaluating", "episode", 100);
//   evaluating.done(37);
//
// Whatever takes long has one while it lasts; of several, the last is shown. Nothing is shown
// unless the program has called show_activities().
//
// Thread safety: each is told of by one thread at a time.
// Allocates: nothing while nobody tells it anything.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace flotilla {

// From main(), once.
void show_activities();

struct Status {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double fraction = kUnknown;           // of the work that is done
  double left_s = kUnknown;             // until its end; unknown: as fast as so far
  std::vector<std::string> facts = {};  // the most important first: those without room are left out
};

// "evaluating  [####........]  33.0 %  12 s left  return 475.20". `age_s`: seconds since the work
// began, shown where nobody knows its end. `width`: columns there are; 0: any number, and no bar.
std::string status_line(const std::string& what, const Status& status, double age_s, size_t width);

// "12 s", "12 min", "3.4 h"
std::string rough_time(double seconds);

class Activity {
 public:
  explicit Activity(std::string what);
  // Which consists of `total` things.
  Activity(std::string what, std::string unit, int64_t total);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // `status` makes a Status; it is asked for only when it is time to show it.
  template <class F>
  void tell(const F& status) {
    if (due()) show(status());
  }
  void done(int64_t count);

 private:
  friend class Activities;
  bool due() const;
  void show(Status status);

  const std::string what_, unit_;
  const int64_t total_ = 0;
  const uint64_t begin_ns_;
  uint64_t told_ns_;
  std::atomic<uint64_t> shown_ns_{0};  // 0: not yet
  Status status_;
};

}  // namespace flotilla
