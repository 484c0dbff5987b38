"""Stand-ins for trials and their runner: schedulers decide on reported values, and nothing runs."""

from __future__ import annotations

from types import SimpleNamespace


class Trial:
    """A trial that a test moves by hand."""

    def __init__(self, number: int, config: dict | None = None) -> None:
        self.trial_id = f"t{number}"
        self.experiment_tag = str(number)
        self.config = {} if config is None else config
        self.evaluated_params = {}
        self.status = "PENDING"
        self.is_saving = False
        self.last_result = {}
        self.temporary_state = SimpleNamespace(saving_to=None)
        keeping = SimpleNamespace(num_to_keep=None)
        self.run_metadata = SimpleNamespace(
            checkpoint_manager=SimpleNamespace(checkpoint_config=keeping)
        )

    def is_finished(self) -> bool:
        return self.status in ("TERMINATED", "ERROR")

    def set_status(self, status: str) -> None:
        self.status = status

    def set_config(self, config: dict) -> None:
        self.config = config

    def __repr__(self) -> str:
        return self.trial_id


class Controller:
    """A runner that starts trials, passes results on, and does what the scheduler decides."""

    search_alg = None

    def __init__(self, scheduler, num_trials: int, running: int | None = None) -> None:
        self.scheduler = scheduler
        self.trials = []
        for number in range(num_trials):
            trial = Trial(number)
            self.trials.append(trial)
            scheduler.on_trial_add(self, trial)
            if running is None or number < running:
                trial.status = "RUNNING"
        self.stopped = []

    def get_trials(self):
        return self.trials

    def get_live_trials(self):
        return [trial for trial in self.trials if not trial.is_finished()]

    def stop_trial(self, trial) -> None:
        if trial.is_finished():
            return
        self.stopped.append(trial.trial_id)
        was_running = trial.status == "RUNNING"
        trial.status = "TERMINATED"
        if was_running:
            self.scheduler.on_trial_complete(self, trial, trial.last_result)
        else:
            self.scheduler.on_trial_remove(self, trial)

    def pause_trial(self, trial, should_checkpoint=True) -> None:
        trial.status = "PAUSED"

    def report(self, number: int, **result) -> str:
        """Report a result of a trial, and do what the scheduler decides."""
        trial = self.trials[number]
        decision = self.scheduler.on_trial_result(self, trial, result)
        trial.last_result = result
        if decision == "STOP":
            trial.status = "TERMINATED"
            self.scheduler.on_trial_complete(self, trial, result)
        elif decision == "PAUSE":
            trial.status = "PAUSED"
        return decision

    def resume(self) -> str | None:
        """Run the trial that the scheduler chooses; return its id."""
        trial = self.scheduler.choose_trial_to_run(self)
        if trial is None:
            return None
        trial.status = "RUNNING"
        return trial.trial_id
