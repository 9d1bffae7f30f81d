#!/usr/bin/env python3
"""Looks for settings with Optuna: pip install optuna.

    ./flotilla python examples/python/sweep_optuna.py [TRIALS]

Each trial is a run. It tells Optuna how far it has come, and ends early where others were better at
the same step.
"""

import sys
import tempfile

import flotilla
import optuna

FOLDER = tempfile.mkdtemp()


def objective(trial: optuna.Trial) -> float:
    def report(progress: flotilla.Progress) -> bool:
        trial.report(progress.return_mean, progress.steps)
        return not trial.should_prune()

    run = flotilla.train(
        "cartpole", seed=trial.number, callback=report, out=f"{FOLDER}/trial{trial.number}",
        total_timesteps=50_000,
        settings={"ppo.learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
                  "ppo.gamma": 1 - trial.suggest_float("one_minus_gamma", 0.002, 0.1, log=True),
                  "net.hidden": trial.suggest_categorical("hidden", ["32,32", "64,64"])})
    if run.summary["ended_by"] == "callback":
        raise optuna.TrialPruned
    return run.summary["eval"]["mean"]


if __name__ == "__main__":
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner())
    study.optimize(objective, n_trials=int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    print(f"best mean return {study.best_value:.1f} with {study.best_params}")
