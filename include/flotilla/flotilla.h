// Everything a program needs that brings environments of its own: to describe one (env/env.h), to
// register it, to train it, to keep or load its policy, and to give it the whole command line.
//
//   find_package(flotilla REQUIRED)
//   target_link_libraries(mine PRIVATE flotilla::flotilla)
//
// docs/library.md shows it at work. The headers of single layers can be included instead; this one
// brings in no headers but the project's own and those of the standard library.
#pragma once

#include "flotilla/algo/algorithms.h"    // Learner, Algorithms: an algorithm of your own
#include "flotilla/cli/program.h"        // run_program: the command line for your environments
#include "flotilla/command/program.h"    // Program: with commands of your own
#include "flotilla/core/config.h"        // Schema, Config
#include "flotilla/core/error.h"         // Error, exit_status
#include "flotilla/core/file.h"          // read_whole_file
#include "flotilla/core/rng.h"           // Rng
#include "flotilla/core/system.h"        // install_interrupt_handler
#include "flotilla/core/version.h"       // kVersionLine
#include "flotilla/domains/domains.h"    // register_domains: the environments that ship with it
#include "flotilla/env/conformance.h"    // check_env
#include "flotilla/env/env.h"            // what an environment is
#include "flotilla/env/registry.h"       // Registry, env_type
#include "flotilla/env/vec_env.h"        // make_vec_env: a batch to step without training
#include "flotilla/env/worker.h"         // run_if_worker, for programs without run_program
#include "flotilla/nn/policy_file.h"     // a trained policy
#include "flotilla/train/checkpoint.h"   // Checkpoints of a run, and the policies in them
#include "flotilla/train/evaluator.h"    // Evaluator
#include "flotilla/train/find_policy.h"  // load_policy, Policy::predict
#include "flotilla/train/recipes.h"      // load_run_config
#include "flotilla/train/run.h"          // Run
#include "flotilla/train/run_config.h"   // RunConfig
