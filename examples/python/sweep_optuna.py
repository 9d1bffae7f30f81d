#!/usr/bin/env python3
"""Looks for settings with Optuna: pip install optuna.

    ./flotilla python examples/python/sweep_optuna.py [TRIALS [STEPS]]

Each trial is a run. It tells Optuna how far it has come, and ends early where others were better at
the same step.
"""

import sys
import tempfile

import flotilla
import optuna

FOLDER = tempfile.mkdtemp()
TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 50_000


def objective(trial: optuna.Trial) -> float:
    def report(progress: flotilla.Progress) -> None:
        if not progress.episodes:  # nothing to compare yet
            return
        trial.report(progress.return_mean, progress.updates)
        if trial.should_prune():
            raise optuna.TrialPruned  # comes out of train(), which leaves a checkpoint

    run = flotilla.train(
        "cartpole", seed=trial.number, callback=report, out=f"{FOLDER}/trial{trial.number}",
        total_timesteps=STEPS,
        settings={"ppo.learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
                  "ppo.gamma": 1 - trial.suggest_float("one_minus_gamma", 0.002, 0.1, log=True),
                  "net.hidden": trial.suggest_categorical("hidden", ["32,32", "64,64"])})
    return run.summary["eval"]["mean"]


if __name__ == "__main__":
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1),
                                pruner=optuna.pruners.MedianPruner())
    study.optimize(objective, n_trials=TRIALS)
    pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
    print(f"{TRIALS} trials, {pruned} ended early")
    print(f"best mean return {study.best_value:.1f} with {study.best_params}")
