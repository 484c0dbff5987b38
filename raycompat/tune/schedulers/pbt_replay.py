"""`PopulationBasedTrainingReplay`: one trial follows the schedule that a population found."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raycompat.tune.result import TRAINING_ITERATION
from raycompat.tune.schedulers.pbt import perturbed_tag
from raycompat.tune.schedulers.trial_scheduler import (
    Controller,
    FIFOScheduler,
    TrialScheduler,
)

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.trainable.nested import Config, Metrics

logger = logging.getLogger(__name__)


def schedule(changes: list[Any]) -> tuple[Config | None, list[tuple[int, Config]]]:
    """Return the first config, and the steps at which the next ones begin.

    Parameters
    ----------
    changes : list
        The lines of a policy file, each ``[tag, donor's tag, step, donor's step, old config, new
        config]``. Changes that a later copy of another trial has overwritten do not count.
    """
    chain: list[tuple[int, Config]] = []
    first: Config | None = None
    expected = None
    for tag, donor_tag, _, donor_step, old_config, new_config in reversed(changes):
        if expected is not None and tag != expected:
            break
        expected, first = donor_tag, old_config
        chain.append((donor_step, new_config))
    return first, chain[::-1]


class PopulationBasedTrainingReplay(FIFOScheduler):
    """Train one trial with the hyperparameters that a population had, each from the step it had them.

    Parameters
    ----------
    policy_file : str
        ``pbt_policy_<trial>.txt`` of the experiment's folder.

    Raises
    ------
    ValueError
        When the file is missing, or is not a policy.

    Examples
    --------
    After a population was trained, one trial follows the path of its best::

        policy = f"{folder}/pbt_policy_8b1e_00003.txt"
        replay = PopulationBasedTrainingReplay(policy)
        tune.run(train, scheduler=replay, stop={"training_iteration": 100})
    """

    def __init__(self, policy_file: str) -> None:
        path = Path(policy_file).expanduser()
        if not path.exists():
            raise ValueError(f"The policy file {path.as_posix()!r} does not exist.")
        try:
            self.config, self._policy = schedule(
                [json.loads(line) for line in path.read_text().splitlines()]
            )
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path.as_posix()!r} is not a policy file of PopulationBasedTraining: {error}."
            ) from error
        self.policy_file = path.as_posix()
        self.experiment_tag = f"replay_{path.name}"
        self.current_config = self.config
        self._trial: Trial | None = None
        self._step = 0
        self._num_perturbations = 0

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Give the trial the first config."""
        if self._trial is not None:
            raise ValueError("A schedule is replayed by one trial: use num_samples=1 and no grid.")
        if self.config is None and not trial.config:
            raise ValueError(f"{self.policy_file!r} has no changes, and the trial has no config.")
        if self.config is not None and trial.config:
            logger.warning("The replayed config takes the place of the trial's own.")
        self._trial = trial
        self.config = self.config or trial.config
        trial.set_config(self.config)

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        if TRAINING_ITERATION not in result or self._num_perturbations == len(self._policy):
            return TrialScheduler.CONTINUE
        self._step = result[TRAINING_ITERATION]
        step, config = self._policy[self._num_perturbations]
        if self._step < step:
            return TrialScheduler.CONTINUE
        made = tune_controller.schedule_trial_save(trial, result=result).resolve()
        tune_controller.pause_trial(trial, should_checkpoint=False)
        trial.set_experiment_tag(perturbed_tag(self.experiment_tag, config, config))
        trial.set_config(config)
        if made is not None:
            trial.continue_from(made.checkpoint, made.metrics)
        self.current_config = config
        self._num_perturbations += 1
        return TrialScheduler.NOOP

    def debug_string(self) -> str:
        return (
            f"PopulationBasedTraining replay: step {self._step}, {self._num_perturbations} changes"
        )
