// flotilla dvrp VERB: what only the dial-a-ride domain has.
//   data       makes up a city and its travellers
//   inspect    reads a city and its travellers, and says what they are like
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "flotilla/cli/command.h"
#include "flotilla/domains/dvrp/data.h"
#include "flotilla/domains/dvrp/generate.h"

namespace flotilla {
namespace {

void print_facts(const dvrp::DataFacts& facts, bool json) {
  if (json) {
    const nlohmann::ordered_json line = {{"cells", facts.cells},
                                         {"travellers", facts.travellers},
                                         {"trips", facts.trips},
                                         {"mean_minutes", facts.mean_minutes},
                                         {"mean_trip_minutes", facts.mean_trip_minutes},
                                         {"same_cell", facts.same_cell},
                                         {"accepted", facts.accepted},
                                         {"triangle_violations", facts.triangle_violations},
                                         {"infeasible", facts.infeasible},
                                         {"late_only", facts.of_flexibility[0]},
                                         {"early_only", facts.of_flexibility[1]},
                                         {"inflexible", facts.of_flexibility[2]},
                                         {"flexible", facts.of_flexibility[3]}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print("{} cells, {:.1f} minutes apart on average\n", facts.cells, facts.mean_minutes);
  fmt::print("{} travellers: {} bear late drop-offs, {} early pickups, {} both, {} neither\n",
             facts.travellers, facts.of_flexibility[0], facts.of_flexibility[1],
             facts.of_flexibility[3], facts.of_flexibility[2]);
  fmt::print("{} trips of {:.1f} minutes on average, {:.1f} % within a cell\n", facts.trips,
             facts.mean_trip_minutes, 100 * facts.same_cell);
  fmt::print("{:.1f} % of all shifts are accepted\n", 100 * facts.accepted);
}

struct DataArguments {
  dvrp::GenerateOptions options;
  std::string directory;
  bool json = false;
};

void add_data(CLI::App& dvrp) {
  CLI::App* command = dvrp.add_subcommand("data", "make up a city and its travellers");
  auto arguments = std::make_shared<DataArguments>();
  command->add_option("--cells", arguments->options.cells, "of the city (default 31)")
      ->check(CLI::Range(2, 1000));
  command->add_option("--travellers", arguments->options.travellers, "how many (default 30)")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--seed", arguments->options.seed, "of everything that is drawn (default 0)");
  command->add_option("--out", arguments->directory, "directory of the three tables")->required();
  command->add_flag("--json", arguments->json, "print one JSON object on stdout");
  command->callback([arguments] {
    const dvrp::City city = generate_city(arguments->options);
    const dvrp::Data data{city, generate_travellers(city, arguments->options)};
    write_data(data, arguments->directory);
    print_facts(facts_of(data), arguments->json);
  });
}

void add_inspect(CLI::App& dvrp) {
  CLI::App* command =
      dvrp.add_subcommand("inspect", "read a city and its travellers, say what they are like");
  auto arguments = std::make_shared<DataArguments>();
  command->add_option("directory", arguments->directory, "with the three tables")->required();
  command->add_flag("--json", arguments->json, "print one JSON object on stdout");
  command->callback([arguments] {
    print_facts(facts_of(dvrp::read_data(arguments->directory)), arguments->json);
  });
}

}  // namespace

void add_dvrp_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("dvrp", "dial-a-ride: a city and its travellers");
  command->require_subcommand(1);
  add_data(*command);
  add_inspect(*command);
}

}  // namespace flotilla
