// What the verbs of `flotilla dvrp` share. Those that are not in dvrp.cpp register themselves with
// one function here.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "flotilla/cli/command.h"
#include "flotilla/domains/dvrp/instance_file.h"
#include "flotilla/domains/dvrp/routes.h"

namespace flotilla {

constexpr const char* kDvrpDataHelp = "directory of the tables (default: what `dvrp data` makes)";
constexpr const char* kDvrpInstanceHelp = "an instance, as `dvrp instance` writes it";

// The tables of a directory; of none, the data that `dvrp data` makes by default.
dvrp::Data dvrp_data_of(const std::string& directory);

// Throw Error(kData) that names the file.
dvrp::Instance read_dvrp_instance(const std::string& path, const dvrp::Data& data);
std::vector<dvrp::Route> read_dvrp_routes(const std::string& path);

void add_dvrp_check(CLI::App& dvrp, Program& program);
void add_dvrp_show(CLI::App& dvrp);
void add_dvrp_oracle(CLI::App& dvrp);

}  // namespace flotilla
