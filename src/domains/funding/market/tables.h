// All that the environments of a process look up and share: the market, its parts for training and
// testing, the scale of its features, the best rows of every time. Made when it is first needed,
// once for the same settings.
//
// Thread safety: any number of threads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "flotilla/core/config.h"
#include "flotilla/domains/funding/market/board.h"
#include "flotilla/domains/funding/market/synthetic.h"

namespace flotilla::funding {

// In the order of time, with an embargo between them: what a mean of 3 days has seen in one of them
// is not in another.
enum class Part : uint8_t { kTrain, kValidation, kTest };

struct Split {
  double train = 0.6, validation = 0.2;  // parts of the times
  int embargo = 0;                       // times left out

  Times times_of(Part part, int times) const;
};

struct TableOptions {
  std::string data;  // directory of a market; empty: a made-up one
  SyntheticOptions synthetic;
  Split split;
  std::string scaler;            // empty: fitted on the training part
  bool both_directions = false;  // of a symbol on the board

  static void add_to(Schema& schema);
  // Throws Error(kUsage) for parts that are none.
  static TableOptions from(const Config& config);
  std::string market_key() const;  // the same for the same market
  std::string key() const;         // the same for the same tables
};

struct Tables {
  explicit Tables(const TableOptions& options);
  const std::shared_ptr<const Market> shared;  // with tables of another scale
  const Market& market;
  Scaler scaler;
  Board board;
};

// The same one for the same options; the last few live on when nobody uses them. Throws
// Error(kData) that names the file.
std::shared_ptr<const Market> shared_market(const TableOptions& options);

class SharedTables {
 public:
  explicit SharedTables(TableOptions options) : options_(std::move(options)) {}

  // Makes them at the first call. Throws Error(kData) that names the file.
  const Tables& get() const {
    const Tables* made = made_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make();
  }

 private:
  const Tables& make() const;

  const TableOptions options_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const Tables> tables_;
  mutable std::atomic<const Tables*> made_{nullptr};
};

// The same ones for the same options. The last few live on when nobody uses them.
std::shared_ptr<const SharedTables> shared_tables(const TableOptions& options);

}  // namespace flotilla::funding
