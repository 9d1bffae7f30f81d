#include "flotilla/domains/funding/market/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/domains/funding/market/files.h"

namespace flotilla::funding {
namespace {

// What was asked for last, by its key.
template <class T>
class LastFew {
 public:
  template <class Make>
  std::shared_ptr<const T> find(const std::string& key, const Make& make) {
    const auto found = std::ranges::find(kept_, key, &Entry::first);
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());
      return kept_.back().second;
    }
    std::shared_ptr<const T> made = make();
    if (kept_.size() == kKept) kept_.erase(kept_.begin());
    kept_.emplace_back(key, std::move(made));
    return kept_.back().second;
  }

 private:
  static constexpr size_t kKept = 2;
  using Entry = std::pair<std::string, std::shared_ptr<const T>>;
  std::vector<Entry> kept_;
};

Market market_of(const TableOptions& options) {
  const bool made_up = options.data.empty();
  const Activity activity(made_up ? "making a market" : "reading " + options.data);
  return made_up ? make_market(options.synthetic) : read_market(options.data);
}

}  // namespace

Times Split::times_of(Part part, int times) const {
  const auto at = [times](double share) { return static_cast<int>(std::floor(times * share)); };
  const int first = at(train), second = at(train + validation);
  switch (part) {
    case Part::kTrain:
      return {0, first};
    case Part::kValidation:
      return {std::min(first + embargo, second), second};
    default:
      return {std::min(second + embargo, times), times};
  }
}

void TableOptions::add_to(Schema& schema) {
  schema
      .text("data", "",
            "directory of a market as `funding data` writes it; without one it is made up")
      .integer("market.days", SyntheticOptions{}.days, {1, kMostDays}, "of the made-up market")
      .integer("market.symbols", SyntheticOptions{}.symbols, {1, kMostSymbols}, "coins in it")
      .integer("market.seed", 1, {0, INT64_MAX}, "of everything in it")
      .number("split.train", Split{}.train, {0, 1}, "part of the days, the first, for training")
      .number("split.validation", Split{}.validation, {0, 1},
              "part of the days behind them; the rest is for testing")
      .number("split.embargo_days", 3, {0, 30},
              "left out before validation and test; means of 3 days look back that far")
      .text("scaler", "",
            "mean/deviation of each feature of a row; a run fits it on its training part and "
            "keeps it")
      .text("trained_on", "", "the days a run was trained on: it notes them itself");
}

TableOptions TableOptions::from(const Config& config) {
  TableOptions options;
  options.data = config.get_text("data");
  options.synthetic = {.days = static_cast<int>(config.get_integer("market.days")),
                       .symbols = static_cast<int>(config.get_integer("market.symbols")),
                       .seed = static_cast<uint64_t>(config.get_integer("market.seed"))};
  options.split = {.train = config.get_number("split.train"),
                   .validation = config.get_number("split.validation"),
                   .embargo = static_cast<int>(
                       std::lround(config.get_number("split.embargo_days") * kStepsPerDay))};
  if (options.split.train + options.split.validation > 1) {
    throw Error(
        ErrorCode::kUsage,
        fmt::format("split.validation: with split.train {:g} expected at most {:g}, got {:g}",
                    options.split.train, 1 - options.split.train, options.split.validation));
  }
  options.scaler = config.get_text("scaler");
  if (!options.scaler.empty()) scaler_of(options.scaler);  // what is wrong with it is said at once
  options.both_directions = config.get_text("rules") == "era";
  return options;
}

std::string TableOptions::market_key() const {
  if (!data.empty()) return "read " + data;
  return fmt::format("made {} {} {}", synthetic.days, synthetic.symbols, synthetic.seed);
}

std::string TableOptions::key() const {
  return fmt::format("{} {} {} {}", both_directions, split.train, scaler, market_key());
}

Tables::Tables(const TableOptions& options)
    : shared(shared_market(options)),
      market(*shared),
      scaler(options.scaler.empty()
                 ? fit_scaler(market, options.split.times_of(Part::kTrain, market.times()))
                 : scaler_of(options.scaler)),
      board(market, scaler, options.both_directions) {}

const Tables& SharedTables::make() const {
  const std::lock_guard lock(mutex_);
  if (tables_ == nullptr) {
    tables_ = std::make_unique<const Tables>(options_);
    made_.store(tables_.get(), std::memory_order_release);
  }
  return *tables_;
}

std::shared_ptr<const Market> shared_market(const TableOptions& options) {
  static std::mutex mutex;
  static LastFew<Market> kept;
  const std::lock_guard lock(mutex);
  return kept.find(options.market_key(),
                   [&] { return std::make_shared<const Market>(market_of(options)); });
}

std::shared_ptr<const SharedTables> shared_tables(const TableOptions& options) {
  static std::mutex mutex;
  static LastFew<SharedTables> kept;
  const std::lock_guard lock(mutex);
  return kept.find(options.key(), [&] { return std::make_shared<const SharedTables>(options); });
}

}  // namespace flotilla::funding
