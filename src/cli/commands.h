// The general sub-commands. Each one lives in a file of its own and is added by one function here.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void add_list_command(Command& root, Program& program);
void add_train_command(Command& root, Program& program);
void add_actor_command(Command& root, Program& program);
void add_eval_command(Command& root, Program& program);
void add_plot_command(Command& root);
void add_compare_command(Command& root);
void add_export_command(Command& root);
void add_verify_command(Command& root, Program& program);
void add_bench_command(Command& root, Program& program);
void add_bench_ppo_command(Command& bench, Program& program);  // these are of the bench command
void add_bench_parallel_command(Command& bench, Program& program);
void add_bench_scaling_command(Command& bench, Program& program);
void add_bench_threads_command(Command& bench, Program& program);
void add_check_command(Command& root, Program& program);
void add_doctor_command(Command& root, Program& program);

}  // namespace flotilla
