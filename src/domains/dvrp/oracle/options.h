// Which router prices instances, as the keys of a config say.
#pragma once

#include "flotilla/core/config.h"
#include "flotilla/domains/dvrp/oracle/network_router.h"

namespace flotilla::dvrp {

struct OracleOptions {
  enum class Kind : uint8_t { kNetwork, kInsertion, kContinued };
  Kind kind = Kind::kNetwork;
  std::string weights;  // file; empty: those that come with the program
  DecodeOptions decode{.starts = 1, .improve = 20, .refine = 40};
  std::string device = "cpu";
  int max_batch = 512;  // instances on a GPU at once

  static Schema schema();
  static OracleOptions from(const Config& config);
};

// The weights that come with the program, unless others are given. Throws Error(kUsage) with the
// command that makes them where there are none.
std::string oracle_path(const std::string& given);

// Throws Error(kData): weights that do not fit the city; Error(kUsage): no such device.
std::unique_ptr<Router> make_router(const OracleOptions& options, const City& city,
                                    ThreadPool& pool);

}  // namespace flotilla::dvrp
