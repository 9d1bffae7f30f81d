#include "flotilla/domains/dvrp/oracle/options.h"

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/oracle/torch_router.h"

namespace flotilla::dvrp {

Schema OracleOptions::schema() {
  const OracleOptions d;
  Schema schema;
  schema
      .choice(
          "kind", "network", {"network", "insertion", "continued"},
          "what makes the first routes: the trained network, insertion, or the step before, with "
          "the new request where it costs least")
      .text("weights", d.weights, "of the network; empty: those that come with the program")
      .integer("starts", d.decode.starts, {1, 1000}, "first pickups that are tried, on the CPU")
      .integer("improve", d.decode.improve, {0, 1000}, "most passes of local search over a tour")
      .integer("refine", d.decode.refine, {0, 1'000'000},
               "iterations of large-neighbourhood search behind that")
      .choice("device", d.device, {"cpu", "cuda"}, "of the network")
      .integer("max_batch", d.max_batch, {1, 1'000'000}, "instances on a GPU at once");
  return schema;
}

namespace {

OracleOptions::Kind kind_from(const std::string& name) {
  if (name == "insertion") return OracleOptions::Kind::kInsertion;
  return name == "continued" ? OracleOptions::Kind::kContinued : OracleOptions::Kind::kNetwork;
}

}  // namespace

OracleOptions OracleOptions::from(const Config& config) {
  const auto integer = [&](const char* key) { return static_cast<int>(config.get_integer(key)); };
  OracleOptions o;
  o.kind = kind_from(config.get_text("kind"));
  o.weights = config.get_text("weights");
  o.decode.starts = integer("starts");
  o.decode.improve = integer("improve");
  o.decode.refine = integer("refine");
  o.device = config.get_text("device");
  o.max_batch = integer("max_batch");
  return o;
}

std::string oracle_path(const std::string& given) {
  if (!given.empty()) return given;
  std::string path = find_asset("dvrp/oracle/oracle.safetensors");
  if (path.empty()) {
    throw Error(ErrorCode::kUsage,
                "the oracle's weights are not beside the program: name a file, or make one with "
                "flotilla dvrp oracle train");
  }
  return path;
}

std::unique_ptr<Router> make_router(const OracleOptions& options, const City& city,
                                    ThreadPool& pool) {
  if (options.kind == OracleOptions::Kind::kInsertion) {
    return make_insertion_router(options.decode, pool);
  }
  if (options.kind == OracleOptions::Kind::kContinued) {
    return make_continuing_router(options.decode, pool);
  }
  const OracleWeights weights = read_oracle(oracle_path(options.weights), city);
  if (options.device == "cpu") return make_network_router(weights, city, options.decode, pool);
  return make_torch_router(weights, city, options.decode, options.max_batch, options.device, pool);
}

}  // namespace flotilla::dvrp
