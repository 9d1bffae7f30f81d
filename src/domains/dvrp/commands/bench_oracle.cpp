// flotilla bench oracle: routes per second of the dial-a-ride oracle, many instances in one call
// against one by one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/oracle/options.h"
#include "flotilla/domains/dvrp/oracle/torch_router.h"
#include "flotilla/report/statistics.h"

namespace flotilla {
namespace {

struct OracleBench {
  int customers = 30, num_envs = 64, threads = 1, repeats = 5;
  double seconds = 1;
  std::string torch;  // device of libtorch; empty: the CPU kernels
  int max_batch = 512;
  dvrp::DecodeOptions decode;
  bool json = false;
};

// Multiply-adds count twice; every decoding step is counted as if it looked at all nodes.
double nominal_flop(int customers, int cells, double vehicles) {
  const double n = 2.0 * customers + 1, d = dvrp::kOracleWidth;
  return 78 * n * d * d + 12 * n * n * d + 2 * n * (cells + 3) * d +
         (2.0 * customers + vehicles) * (4 * d * d + 6 * n * d);
}

using Instances = std::vector<const dvrp::Instance*>;

// Instances per second, `batch` of them in a call.
double measure(dvrp::Router& router, const Instances& instances, std::vector<dvrp::Tour>& tours,
               size_t batch, double seconds) {
  const uint64_t begin = now_ns();
  double done = 0;
  do {
    for (size_t i = 0; i < instances.size(); i += batch) {
      const size_t count = std::min(batch, instances.size() - i);
      router.route(std::span(instances).subspan(i, count), std::span(tours).subspan(i, count));
    }
    done += static_cast<double>(instances.size());
  } while (seconds_since(begin) < seconds);
  return done / seconds_since(begin);
}

bool equal(const std::vector<dvrp::Tour>& a, const std::vector<dvrp::Tour>& b) {
  return std::ranges::equal(a, b, [](const dvrp::Tour& x, const dvrp::Tour& y) {
    return x.routes == y.routes && x.cost == y.cost;
  });
}

void bench_oracle(const OracleBench& options) {
  const dvrp::Data data = dvrp::generate_data({});
  const dvrp::OracleWeights weights = dvrp::read_oracle(dvrp::oracle_path(""), data.city);
  ThreadPool pool(options.threads);
  const auto router = options.torch.empty()
                          ? dvrp::make_network_router(weights, data.city, options.decode, pool)
                          : dvrp::make_torch_router(weights, data.city, options.decode,
                                                    options.max_batch, options.torch, pool);
  std::vector<dvrp::Instance> drawn;
  for (int i = 0; i < options.num_envs; ++i) {
    Rng rng(0, stream_of(Purpose::kTest, static_cast<uint64_t>(i)));
    drawn.push_back(dvrp::draw_instance(data, options.customers, rng));
  }
  Instances instances;
  for (const dvrp::Instance& each : drawn) instances.push_back(&each);
  std::vector<dvrp::Tour> together(instances.size()), alone(instances.size());
  std::vector<double> rates, single_rates, ratios;
  Activity measuring("measuring", "repeat", options.repeats);
  for (int i = 0; i < options.repeats; ++i) {
    rates.push_back(measure(*router, instances, together, instances.size(), options.seconds));
    single_rates.push_back(measure(*router, instances, alone, 1, options.seconds));
    ratios.push_back(rates.back() / single_rates.back());
    measuring.done(i + 1);
  }
  double vehicles = 0, cost = 0;
  for (const dvrp::Tour& tour : together) {
    vehicles += static_cast<double>(tour.routes.size()) / static_cast<double>(together.size());
    cost += tour.cost / static_cast<double>(together.size());
  }
  const double flop = nominal_flop(options.customers, data.city.size(), vehicles);
  const double rate = median(rates), gflops = rate * flop * 1e-9 / options.threads;
  const bool same = equal(together, alone);
  if (options.json) {
    const Json line = {{"router", router->name()},
                       {"customers", options.customers},
                       {"num_envs", options.num_envs},
                       {"threads", options.threads},
                       {"samples_per_s", rate},
                       {"one_by_one_per_s", median(single_rates)},
                       {"ratio", median(ratios)},
                       {"gflops_per_core", gflops},
                       {"same_bits", same},
                       {"mean_cost", cost},
                       {"cpu", cpu_model()},
                       {"cores", cpu_count()}};
    display_data(line.dump() + "\n");
  } else {
    display(fmt::format("{}, {} of {}, {}, on {} x {}\n", router->name(),
                        counted(options.num_envs, "instance"),
                        counted(options.customers, "request"), counted(options.threads, "thread"),
                        cpu_count(), cpu_model()));
    display(
        fmt::format("in one call {:.4g} instances/s ({:.1f} nominal GFLOP/s per thread), one "
                    "by one {:.4g}: ratio {:.2f}\n",
                    rate, gflops, median(single_rates), median(ratios)));
    display(fmt::format("the same tours: {}; {:.1f} minutes, {:.1f} vehicles on average\n",
                        same ? "yes" : "NO", cost, vehicles));
  }
  // A device may round differently in batches of another size.
  if (!same && options.torch.empty())
    throw Error(ErrorCode::kCheckFailed, "tours differ between one call and several");
}

}  // namespace

void add_bench_oracle(Command& bench) {
  Command& command = bench.add("oracle", "routes of the dial-a-ride oracle");
  auto options = std::make_shared<OracleBench>();
  command.option("--customers", options->customers, "requests of an instance (default 30)")
      .range(1, 30);
  command.option("--num-envs,--n-envs", options->num_envs, "instances in a call (default 64)")
      .range(1, 100'000);
  command.option("--threads", options->threads, "of the pool (default 1)").range(1, 256);
  command.option("--starts", options->decode.starts, "first pickups that are tried (default 1)")
      .range(1, 1000);
  command.option("--improve", options->decode.improve, "passes of local search (default 0)")
      .range(0, 1000);
  command.option("--torch", options->torch, "device of libtorch (default: the CPU kernels)")
      .choices({"cpu", "cuda"});
  command.option("--max-batch", options->max_batch, "instances on that device (default 512)")
      .range(1, 1'000'000);
  command.option("--seconds", options->seconds, "of each measurement (default 1)");
  command.option("--repeats", options->repeats, "measurements; medians are printed (default 5)")
      .range(1, 1000);
  command.flag("--json", options->json, "print one JSON object on stdout");
  command.action([options] { bench_oracle(*options); });
}

}  // namespace flotilla
