#include "flotilla/core/activity.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/core/terminal.h"

namespace flotilla {
namespace {

using std::chrono::milliseconds;

constexpr double kFirstLine_s = 0.3;  // what is quicker has no line
constexpr double kBetweenLines_s = 0.2;
constexpr double kSilence_s = 1;  // after which the line goes on by itself
constexpr double kBetweenPlain_s = 5;
constexpr size_t kBar = 12;
constexpr size_t kNarrow = 60;  // no room for a bar
constexpr size_t kSpared = 3;   // at the end of the line: the terminal may write ^C there

std::string_view rough_time(double seconds, std::array<char, 32>& memory) {
  const double s = std::max(0.0, seconds);
  const auto end = s < 99.5 ? fmt::format_to_n(memory.data(), memory.size(), "{:.0f} s", s)
                   : s < 2 * 3600
                       ? fmt::format_to_n(memory.data(), memory.size(), "{:.0f} min", s / 60)
                       : fmt::format_to_n(memory.data(), memory.size(), "{:.1f} h", s / 3600);
  return {memory.data(), std::min(end.size, memory.size())};
}

// A line that is put together in place. Parts that have no room are left out.
class Line {
 public:
  explicit Line(size_t width) : width_(width == 0 ? SIZE_MAX : width) {}

  bool add(std::string_view part, size_t columns) {
    const size_t gap = size_ == 0 ? 0 : 2;
    if (columns_ + gap + columns > width_ || size_ + gap + part.size() > text_.size()) return false;
    std::fill_n(text_.data() + size_, gap, ' ');
    std::ranges::copy(part, text_.data() + size_ + gap);
    size_ += gap + part.size();
    columns_ += gap + columns;
    return true;
  }
  bool add(std::string_view part) { return part.empty() || add(part, columns_of(part)); }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  const size_t width_;
  std::array<char, 512> text_{};
  size_t size_ = 0, columns_ = 0;
};

void add_bar(Line& line, double fraction) {
  const auto full = static_cast<size_t>(std::lround(fraction * static_cast<double>(kBar)));
  const bool colour = has_colours(Stream::kErr);
  std::array<char, 64> bar{};
  const auto end =
      fmt::format_to_n(bar.data(), bar.size(), "[{}{:#<{}}{}{:.<{}}]", colour ? "\033[32m" : "", "",
                       full, colour ? "\033[0m" : "", "", kBar - full);
  line.add({bar.data(), end.size}, kBar + 2);
}

void fill(Line& line, std::string_view what, const Status& status, double age_s, bool bar) {
  std::array<char, 32> number{}, with_word{};
  line.add(what);
  if (std::isfinite(status.fraction)) {
    const double fraction = std::clamp(status.fraction, 0.0, 1.0);
    if (bar) add_bar(line, fraction);
    const auto end = fmt::format_to_n(number.data(), number.size(), "{:.1f} %", 100 * fraction);
    line.add({number.data(), end.size});
  }
  if (std::isfinite(status.left_s)) {
    const auto end = fmt::format_to_n(with_word.data(), with_word.size(), "{} left",
                                      rough_time(status.left_s, number));
    line.add({with_word.data(), end.size});
  } else {
    line.add(rough_time(age_s, number));
  }
  for (const std::string& fact : status.facts) {
    if (!line.add(fact)) return;
  }
}

}  // namespace

// Those that last, and the thread that keeps the line of the last one alive.
class Activities {
 public:
  static Activities& all() {  // never destroyed: a process may end while some last
    static Activities& activities = *new Activities;
    return activities;
  }

  void begin_to_show() {
    clear_live();  // its lock is taken after ours at a fork, too
    pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                   [] {
                     all().shown_ = false;  // the terminal is the parent's
                     all().mutex_.unlock();
                   });
    live_ = has_escapes(Stream::kErr);
    shown_ = true;
  }

  bool shown() const { return shown_; }
  bool live() const { return live_; }

  void push(Activity& activity) {
    const std::lock_guard lock(mutex_);
    lasting_.push_back(&activity);
    if (!shown_ || !live_ || lasting_.size() > 1) return;
    ended_ = false;
    try {
      ticker_ = std::thread([this] { tick(); });
    } catch (const std::system_error&) {  // no thread to be had: the line stands still meanwhile
    }
  }

  void pop(const Activity& activity) {
    std::thread ended;
    {
      const std::lock_guard lock(mutex_);
      std::erase(lasting_, &activity);
      if (!shown_ || !live_ || !lasting_.empty()) return;
      ended_ = true;
      ended.swap(ticker_);
    }
    wake_.notify_one();
    if (ended.joinable()) ended.join();
    clear_live();
  }

  void show(Activity& activity, Status status) {
    const std::lock_guard lock(mutex_);
    if (std::isnan(status.left_s) && status.fraction > 0) {
      status.left_s = seconds_since(activity.begin_ns_) * (1 / status.fraction - 1);
    }
    activity.status_ = std::move(status);
    activity.told_ns_ = now_ns();
    if (lasting_.empty() || lasting_.back() != &activity) return;
    draw(activity);
  }

 private:
  void draw(Activity& activity) const {
    activity.shown_ns_ = now_ns();
    Status& status = activity.status_;
    const double left_s = status.left_s;
    status.left_s -= seconds_since(activity.told_ns_);  // it goes down while nothing is told
    const size_t width = terminal_width(Stream::kErr);
    Line line(live_ ? width - kSpared : 0);
    fill(line, activity.what_, status, seconds_since(activity.begin_ns_),
         live_ && width >= kNarrow);
    status.left_s = left_s;
    if (live_) {
      show_live(line.text());
    } else {
      say(std::string(line.text()) + "\n");
    }
  }

  void tick() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      wake_.wait_for(lock, milliseconds(250));
      if (lasting_.empty()) continue;
      Activity& last = *lasting_.back();
      const bool begun = seconds_since(last.begin_ns_) >= kFirstLine_s;
      const bool silent = last.shown_ns_ == 0 || seconds_since(last.shown_ns_) >= kSilence_s;
      if (begun && silent) draw(last);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Activity*> lasting_;
  std::thread ticker_;
  bool shown_ = false, live_ = false, ended_ = false;
};

void show_activities() { Activities::all().begin_to_show(); }

std::string rough_time(double seconds) {
  std::array<char, 32> memory{};
  return std::string(rough_time(seconds, memory));
}

std::string status_line(const std::string& what, const Status& status, double age_s, size_t width) {
  Line line(width);
  fill(line, what, status, age_s, width >= kNarrow);
  return std::string(line.text());
}

Activity::Activity(std::string what) : Activity(std::move(what), "", 0) {}

Activity::Activity(std::string what, std::string unit, int64_t total)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      begin_ns_(now_ns()),
      told_ns_(begin_ns_) {
  Activities::all().push(*this);
}

Activity::~Activity() { Activities::all().pop(*this); }

bool Activity::due() const {
  const Activities& activities = Activities::all();
  if (!activities.shown()) return false;
  const uint64_t shown_ns = shown_ns_;
  const double first_s = activities.live() ? kFirstLine_s : kBetweenPlain_s;
  const double next_s = activities.live() ? kBetweenLines_s : kBetweenPlain_s;
  return shown_ns == 0 ? seconds_since(begin_ns_) >= first_s : seconds_since(shown_ns) >= next_s;
}

void Activity::show(Status status) { Activities::all().show(*this, std::move(status)); }

void Activity::done(int64_t count) {
  tell([&] {
    return Status{.fraction = static_cast<double>(count) / static_cast<double>(total_),
                  .facts = {fmt::format("{} of {} {}s", count, total_, unit_)}};
  });
}

}  // namespace flotilla
