"""`TrialRunner`: starts trials, distributes their results, and carries out the scheduler's decisions.

The life of a trial:

1. The search algorithm makes it; it is PENDING, and in the journal.
2. The scheduler chooses it; an actor with its resources sets the trainable up; it is RUNNING.
3. Each result goes to the stopper, the scheduler, the search algorithm and the callbacks; the
trial waits
   for the decision.
4. It goes on; or it is PAUSED, when it makes a checkpoint and its resources go to others; or it has
   TERMINATED; or it is an ERROR, when it has failed too often.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import raycompat as ray
from raycompat.tune.callback import CallbackList
from raycompat.tune.error import NoMetricError, TuneError
from raycompat.tune.execution.experiment_state import ExperimentState
from raycompat.tune.execution.ledger import Ledger
from raycompat.tune.execution.trial_process import TrialProcess
from raycompat.tune.experiment.experiment import Experiment
from raycompat.tune.experiment.trial import Trial, flat_result
from raycompat.tune.result import (
    ADDED_KEYS,
    DEFAULT_METRIC,
    DONE,
    EXPERIMENT_TAG,
    RESULT_DUPLICATE,
    SHOULD_CHECKPOINT,
    TRIAL_ID,
)
from raycompat.tune.schedulers.trial_scheduler import TrialScheduler
from raycompat.tune.search.basic_variant import BasicVariantGenerator
from raycompat.tune.trainable.place import TrialPlace
from raycompat.tune.trainable.trainable import TrainingResult

if TYPE_CHECKING:
    from raycompat.object_ref import ObjectRef
    from raycompat.tune.callback import Callback
    from raycompat.tune.execution.placement_groups import PlacementGroupFactory
    from raycompat.tune.search.search_algorithm import SearchAlgorithm
    from raycompat.tune.search.searcher import Names
    from raycompat.tune.trainable.nested import Metrics
    from raycompat.tune.trainable.trainable import Trainable

logger = logging.getLogger(__name__)

#: Maximum seconds of one wait for results, and so between two checks of stoppers and reporters.
WAIT_S = 0.5


def pending_limit(search_alg: SearchAlgorithm, num_cpus: float) -> int:
    """Return how many trials are made ahead: a searcher shall know the results before it suggests."""
    setting = os.environ.get("TUNE_MAX_PENDING_TRIALS_PG", "auto")
    if setting != "auto":
        return int(setting)
    return max(16, int(num_cpus * 1.1)) if isinstance(search_alg, BasicVariantGenerator) else 1


class TrialRunner:
    """Runs the trials of experiments; what schedulers know as `tune_controller`.

    Parameters
    ----------
    experiments : list of Experiment
    search_alg : SearchAlgorithm
    scheduler_alg : TrialScheduler
    metric : str or list of str, optional
        The metrics that every result must have.
    callbacks : list of Callback
    trials : list of Trial
        Those of an experiment that is restored.
    fail_fast : bool or "raise"
        End, or raise, at the first trial that has failed.
    reuse_actors : bool
        Run several trials in one process.
    works_in_folder : bool
        Let each trial work in its folder.
    """

    def __init__(
        self,
        experiments: list[Experiment],
        search_alg: SearchAlgorithm,
        scheduler_alg: TrialScheduler,
        *,
        metric: Names = None,
        callbacks: list[Callback] | None = None,
        trials: list[Trial] | None = None,
        fail_fast: bool | str = False,
        reuse_actors: bool = False,
        works_in_folder: bool = True,
    ) -> None:
        self.search_alg = search_alg
        self.scheduler_alg = scheduler_alg
        self.callbacks = CallbackList(callbacks or [])
        self.state = ExperimentState(experiments[0].folder)
        self.iteration = 0
        self._experiments = {experiment.folder.path: experiment for experiment in experiments}
        self._metric = metric
        self._fail_fast = fail_fast
        self._reuse_actors = reuse_actors
        self._works_in_folder = works_in_folder
        self._ledger = Ledger(ray.cluster_resources)
        self._trials = list(trials or [])
        #: The names of trials' folders, by the experiment's folder.
        self._dirnames: defaultdict[str, set[str]] = defaultdict(set)
        for trial in self._trials:
            self._dirnames[trial.experiment_folder.path].add(trial.dirname)
        self._live = {trial: None for trial in self._trials if not trial.is_finished()}
        self._counts = Counter(trial.status for trial in self._trials)
        self._processes: dict[Trial, TrialProcess] = {}
        self._idle: list[TrialProcess] = []
        self._stopping: dict[ObjectRef[Any], TrialProcess] = {}
        #: The handler of each reference's value, and the trial to which it belongs.
        self._waiting: dict[ObjectRef[Any], tuple[Callable[[Trial, Any], None], Trial]] = {}
        self._trainables: dict[str, ObjectRef[type[Trainable]]] = {}
        self._stopped_all = self._halted = False
        self._warned_of: set[str] = set()
        self._infeasible_since: float | None = None

    # What schedulers and callbacks ask.

    def get_trials(self) -> list[Trial]:
        """Return all trials."""
        return self._trials

    def get_live_trials(self) -> list[Trial]:
        """Return the trials that have not ended."""
        return list(self._live)

    @property
    def reuses_actors(self) -> bool:
        """Whether several trials run in one process."""
        return self._reuse_actors

    def cluster_resources(self) -> dict[str, float]:
        """Return the resources of the whole cluster."""
        return self._ledger.total

    @property
    def _resource_updater(self) -> Ledger:
        """The account of resources, where functions for Ray's ResourceChangingScheduler look."""
        return self._ledger

    #: The same, under the name of Ray up to 1.8.
    _avail_resources = _resource_updater

    @property
    def trial_executor(self) -> TrialRunner:
        """The runner itself: in Ray up to 2.6, another object had the account of resources."""
        return self

    def resources_text(self) -> str:
        """Return the resources in use as a line."""
        return str(self._ledger)

    def is_finished(self) -> bool:
        """Return whether nothing is left to do."""
        searched = self._stopped_all or self.search_alg.is_finished()
        return self._halted or (searched and not self._live)

    # A step.

    def step(self) -> None:
        """Make and start trials, wait for answers, and act on them."""
        self.iteration += 1
        self.callbacks("on_step_begin", iteration=self.iteration, trials=self._trials)
        self._stop_all_if_due()
        self._make_trials()
        self._start_trials()
        self._handle_answers()
        self._stop_all_if_due()
        self.state.snapshot(self._snapshot)
        self.callbacks("on_step_end", iteration=self.iteration, trials=self._trials)

    def _make_trials(self) -> None:
        limit = pending_limit(self.search_alg, self._ledger.total.get("CPU", 0))
        while not self._stopped_all and self._counts[Trial.PENDING] < limit:
            trial = self.search_alg.next_trial()
            if trial is None:
                return
            self.add_trial(trial)

    def add_trial(self, trial: Trial) -> None:
        """Take a trial into the experiment."""
        dirnames = self._dirnames[trial.experiment_folder.path]
        trial.make_dirname_unlike(dirnames)
        dirnames.add(trial.dirname)
        self._trials.append(trial)
        self._live[trial] = None
        self._counts[trial.status] += 1
        self.scheduler_alg.on_trial_add(self, trial)
        self.state.add(trial)

    def _set_status(self, trial: Trial, status: str) -> None:
        self._counts[trial.status] -= 1
        self._counts[status] += 1
        trial.set_status(status)
        if trial.is_finished():
            self._live.pop(trial, None)
        self.state.change(trial)

    def _start_trials(self) -> None:
        while not self._stopped_all:
            trial = self.scheduler_alg.choose_trial_to_run(self)
            if trial is None or trial.is_saving:
                return
            request = trial.placement_group_factory
            process = self._idle_process(trial)
            if process is None:
                if not self._make_room(request):
                    self._check_feasible(trial)
                    return
                process = TrialProcess.start(trial.trainable_name, request)
                self._ledger.take(request)
                self._begin(trial, process)
            else:
                self._become(trial, process)

    def _idle_process(self, trial: Trial) -> TrialProcess | None:
        """Return a process of an ended trial that can be reused."""
        wanted = (trial.trainable_name, trial.placement_group_factory)
        for process in self._idle:
            if (process.trainable_name, process.request) == wanted:
                self._idle.remove(process)
                return process
        return None

    def _make_room(self, request: PlacementGroupFactory) -> bool:
        """Return whether the request fits; idle processes with other resources are ended for it."""
        while not self._ledger.fits(request) and self._idle:
            self._stop_process(self._idle.pop())
        return self._ledger.fits(request)

    def _check_feasible(self, trial: Trial) -> None:
        """Warn of a trial that no cluster of this size can run; raise when it does not grow."""
        request = trial.placement_group_factory
        if self._processes or self._stopping or self._ledger.can_ever_fit(request):
            self._infeasible_since = None
            return
        wanted = request.required_resources
        has = {name: amount for name, amount in self._ledger.total.items() if name in wanted}
        text = (
            f"{trial} asks for {wanted}, and the whole cluster has {has}: ask for less with "
            "tune.with_resources, or add nodes."
        )
        now = time.monotonic()
        if self._infeasible_since is None:
            self._infeasible_since = now
            logger.warning("%s", text)
        limit_s = float(os.environ.get("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S", "60"))
        if now - self._infeasible_since >= limit_s:
            raise TuneError(text)

    def _begin(self, trial: Trial, process: TrialProcess) -> None:
        self._processes[trial] = process
        self._set_status(trial, Trial.RUNNING)
        trial.start_time = trial.start_time or time.time()
        point = trial.starting_point()
        reference = process.actor.begin.remote(
            self._trainable(trial.trainable_name), trial.config, self._place(trial), point
        )
        self._expect(reference, self._on_begun, trial)

    def _become(self, trial: Trial, process: TrialProcess) -> None:
        self._processes[trial] = process
        self._set_status(trial, Trial.RUNNING)
        trial.start_time = trial.start_time or time.time()
        point = trial.starting_point()
        reference = process.actor.become.remote(trial.config, self._place(trial), point)
        self._expect(reference, self._on_become, trial)

    def _place(self, trial: Trial) -> TrialPlace:
        return replace(trial.place(), works_in_folder=self._works_in_folder)

    def _trainable(self, name: str) -> ObjectRef[type[Trainable]]:
        """Return the reference of a trainable, which is stored once."""
        if name not in self._trainables:
            cls = next(
                e.trainable_cls for e in self._experiments.values() if e.run_identifier == name
            )
            self._trainables[name] = ray.put(cls)
        return self._trainables[name]

    def _expect(
        self, reference: ObjectRef[Any], handler: Callable[[Trial, Any], None], trial: Trial
    ) -> None:
        self._waiting[reference] = (handler, trial)

    def _handle_answers(self) -> None:
        references = [*self._waiting, *self._stopping]
        if not references:
            if not self.is_finished():
                # Nothing is under way: a searcher waits for something else, or nodes shall come.
                time.sleep(0.05)
            return
        ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
        if not ready:
            ready, _ = ray.wait(references, num_returns=1, timeout=WAIT_S)
        for reference in ready:
            if reference in self._stopping:
                self._end_process(self._stopping.pop(reference))
            elif reference in self._waiting:  # another answer may have ended its trial
                handler, trial = self._waiting.pop(reference)
                self._handle(reference, handler, trial)
        for reference, process in list(self._stopping.items()):
            if time.monotonic() > process.deadline:
                logger.warning("%s did not clean up in time; it is killed.", process.trainable_name)
                self._end_process(self._stopping.pop(reference))

    def _handle(
        self, reference: ObjectRef[Any], handler: Callable[[Trial, Any], None], trial: Trial
    ) -> None:
        try:
            value = ray.get(reference)
        except ray.exceptions.RayError as error:
            self._on_error(trial, error)
        else:
            handler(trial, value)

    # What trials answer.

    def _on_begun(self, trial: Trial, pid: int) -> None:
        info = {"iteration": self.iteration, "trials": self._trials, "trial": trial}
        self.callbacks("on_trial_start", **info)
        if trial.starting_point() is not None:
            self.callbacks("on_trial_restore", **info)
        self._train(trial)

    def _on_become(self, trial: Trial, could_reset: bool) -> None:
        if could_reset:
            self._on_begun(trial, 0)
            return
        logger.warning(
            "%s cannot be reset, so each trial gets a process: write reset_config, or leave out "
            "reuse_actors.",
            trial.trainable_name,
        )
        self._reuse_actors = False
        self._end_process(self._processes.pop(trial))
        self._set_status(trial, Trial.PENDING)

    def _train(self, trial: Trial) -> None:
        self._expect(self._processes[trial].actor.train.remote(), self._on_result, trial)

    def _on_result(self, trial: Trial, answer: tuple[Metrics, TrainingResult | None]) -> None:
        result, checkpoint = answer
        if RESULT_DUPLICATE in result:
            if checkpoint is not None:
                self._on_checkpoint(trial, checkpoint)
            self._on_returned(trial)
            return
        result.pop(SHOULD_CHECKPOINT, None)
        result[EXPERIMENT_TAG] = trial.experiment_tag
        result[TRIAL_ID] = trial.trial_id
        if checkpoint is not None:
            self._keep_checkpoint(trial, checkpoint)  # the scheduler may copy it
        decision = self._decide(trial, result)
        if checkpoint is not None:
            self._show_checkpoint(trial, checkpoint)
        self._act(trial, decision, result)

    def _on_returned(self, trial: Trial) -> None:
        """End a trial whose function has returned; its last result stays the last."""
        if not trial.has_reported_at_least_once and self._metric:
            logger.warning(
                "%s ended without a report of %r: call tune.report, or return a dict.",
                trial,
                self._metric,
            )
        result = {**trial.last_result, DONE: True}
        trial.last_result = result
        self._complete(trial, flat_result(result), has_ended=True)

    def _decide(self, trial: Trial, result: Metrics) -> str:
        """Distribute a result, and return the next action of the trial."""
        flat = flat_result(result)
        self._check_metrics(trial, flat)
        stopper = self._experiments[trial.experiment_folder.path].stopper
        if stopper(trial.trial_id, flat) or result.get(DONE):
            decision = TrialScheduler.STOP
        else:
            decision = self.scheduler_alg.on_trial_result(self, trial, flat)
        if decision == TrialScheduler.STOP:
            result[DONE] = flat[DONE] = True
        else:
            self.search_alg.on_trial_result(trial.trial_id, flat)
        trial.update_last_result(result, flat)
        self.callbacks(
            "on_trial_result",
            iteration=self.iteration,
            trials=self._trials,
            trial=trial,
            result=dict(result),
        )
        return decision

    def _check_metrics(self, trial: Trial, flat: Metrics) -> None:
        """Raise when a result lacks what decides; warn of one that is not a number."""
        if os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING") == "1":
            return
        wanted = {"TuneConfig": self._metric, "scheduler": self.scheduler_alg.metric}
        wanted["search_alg"] = self.search_alg.metric
        for where, metrics in wanted.items():
            for metric in metrics if isinstance(metrics, list) else [metrics]:
                if metric and metric != DEFAULT_METRIC and metric not in flat:
                    known = sorted(k for k in flat if k.partition("/")[0] not in ADDED_KEYS)
                    raise NoMetricError(
                        f"{trial} reported no {metric!r}, the metric of {where}. It reported {known}: "
                        "report it in each result, or correct the metric's name."
                    )
                value = flat.get(metric) if metric else None
                if isinstance(value, float) and value != value and "nan" not in self._warned_of:
                    self._warned_of.add("nan")
                    logger.warning("%s reported %s=NaN, which is never the best.", trial, metric)

    def _act(self, trial: Trial, decision: str, result: Metrics) -> None:
        if trial not in self._processes or trial.is_finished():
            return  # a scheduler has paused or stopped it
        if decision == TrialScheduler.STOP:
            if trial.should_checkpoint(result):
                self._save(trial, then=self._complete_saved)
            else:
                self._complete(trial, flat_result(result))
        elif decision == TrialScheduler.PAUSE:
            self.pause_trial(trial)
        elif decision == TrialScheduler.CONTINUE:
            if trial.should_checkpoint(result):
                self._save(trial, then=self._on_checkpoint)
            self._train(trial)
        elif decision != TrialScheduler.NOOP:
            raise ValueError(
                f"{type(self.scheduler_alg).__name__} decided {decision!r}: expected CONTINUE, "
                "PAUSE, STOP or NOOP of TrialScheduler."
            )
        else:
            self._train(trial)

    # Checkpoints and pauses.

    def _save(self, trial: Trial, then: Callable[[Trial, Any], None]) -> ObjectRef[TrainingResult]:
        reference: ObjectRef[TrainingResult] = self._processes[trial].actor.save.remote()
        self._expect(reference, then, trial)
        return reference

    def _on_checkpoint(self, trial: Trial, made: TrainingResult) -> None:
        self._keep_checkpoint(trial, made)
        self._show_checkpoint(trial, made)

    def _keep_checkpoint(self, trial: Trial, made: TrainingResult) -> None:
        if made.checkpoint is not None:
            trial.on_checkpoint(made)
            self.state.change(trial)

    def _show_checkpoint(self, trial: Trial, made: TrainingResult) -> None:
        if made.checkpoint is None:
            return
        info = {"iteration": self.iteration, "trials": self._trials, "trial": trial}
        self.callbacks("on_checkpoint", checkpoint=made.checkpoint, **info)
        self.callbacks("on_trial_save", **info)

    def _complete_saved(self, trial: Trial, made: TrainingResult) -> None:
        self._on_checkpoint(trial, made)
        self._complete(trial, flat_result(trial.last_result))

    def schedule_trial_save(self, trial: Trial, result: Metrics | None = None) -> ScheduledSave:
        """Ask a trial for a checkpoint; the answer's ``resolve()`` waits for it."""
        return ScheduledSave(self, trial, self._save(trial, then=self._on_checkpoint))

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """Give a trial's resources to others, after a checkpoint."""
        if should_checkpoint:
            trial.is_saving = True
            self._set_status(trial, Trial.PAUSED)
            self._save(trial, then=self._on_paused)
        else:
            self._release(trial)
            self._set_status(trial, Trial.PAUSED)

    def _on_paused(self, trial: Trial, made: TrainingResult) -> None:
        trial.is_saving = False
        self._on_checkpoint(trial, made)
        self._release(trial)

    # Ends.

    def stop_trial(self, trial: Trial) -> None:
        """End a trial, whether it runs or waits."""
        if trial.is_finished():
            return
        if trial.status == Trial.RUNNING:
            self._complete(trial, flat_result(trial.last_result))
            return
        self.scheduler_alg.on_trial_remove(self, trial)
        self.search_alg.on_trial_complete(trial.trial_id)
        self._end(trial, Trial.TERMINATED)

    def _complete(self, trial: Trial, flat: Metrics, has_ended: bool = False) -> None:
        if trial.export_formats and trial in self._processes:
            try:  # the model is there before anyone hears that the trial has ended
                ray.get(self._processes[trial].actor.export.remote(trial.export_formats))
            except ray.exceptions.RayError as error:
                self._on_error(trial, error)
                return
        self.scheduler_alg.on_trial_complete(self, trial, flat)
        self.search_alg.on_trial_complete(trial.trial_id, result=flat)
        self._end(trial, Trial.TERMINATED, has_ended=has_ended)

    def _end(self, trial: Trial, status: str, has_ended: bool = False) -> None:
        self._release(trial, has_ended=has_ended)
        trial.is_saving = False
        self._set_status(trial, status)
        name = "on_trial_error" if status == Trial.ERROR else "on_trial_complete"
        self.callbacks(name, iteration=self.iteration, trials=self._trials, trial=trial)

    def _on_error(self, trial: Trial, error: BaseException) -> None:
        """Try a failed trial again, or end it."""
        trial.handle_error(error)
        self._release(trial, died=True)
        trial.is_saving = False
        info = {"iteration": self.iteration, "trials": self._trials, "trial": trial}
        self.scheduler_alg.on_trial_error(self, trial)
        name = str(trial)  # not the trial: kept log records would keep its error's frames
        if trial.should_recover() and not self._stopped_all:
            logger.warning("%s failed, and is tried again: %s", name, _summary(error))
            self._set_status(trial, Trial.PENDING)
            self.scheduler_alg.on_trial_add(self, trial)
            self.callbacks("on_trial_recover", **info)
            return
        logger.error("%s failed: %s\nThe whole error: %s", name, _summary(error), trial.error_file)
        self.search_alg.on_trial_complete(trial.trial_id, error=True)
        self._end(trial, Trial.ERROR)
        if str(self._fail_fast).upper() == "RAISE":
            raise error
        if self._fail_fast:
            self._halt()

    def _release(self, trial: Trial, has_ended: bool = False, died: bool = False) -> None:
        """Release a trial's process; its later answers are ignored."""
        process = self._processes.pop(trial, None)
        if process is None:
            return
        for reference in [r for r, (_, other) in self._waiting.items() if other is trial]:
            del self._waiting[reference]
        if died or (has_ended and not self._reuse_actors):
            self._end_process(process)
        elif self._reuse_actors:
            self._idle.append(process)
        else:
            self._stop_process(process)

    def _stop_process(self, process: TrialProcess) -> None:
        self._stopping[process.stop()] = process

    def _end_process(self, process: TrialProcess) -> None:
        process.kill()
        self._ledger.give_back(process.request)

    def _stop_all_if_due(self) -> None:
        if not self._stopped_all and any(e.stopper.stop_all() for e in self._experiments.values()):
            self.stop_all()

    def stop_all(self) -> None:
        """End every trial, and make no more."""
        self._stopped_all = True
        self.search_alg.set_finished()
        for trial in list(self._live):
            self.stop_trial(trial)

    def _halt(self) -> None:
        """End the experiment as it is: `Tuner.restore` runs the trials that have not ended."""
        self._stopped_all = self._halted = True
        for trial in self._live:
            if trial.status == Trial.RUNNING:
                self._release(trial)
                self._set_status(trial, Trial.PENDING)

    # Begin and end of the experiment.

    def begin(self) -> None:
        """Write the first state; tell the scheduler of trials that were restored."""
        self.state.begin(self._trials)
        for trial in list(self._live):
            self.scheduler_alg.on_trial_add(self, trial)
        self.state.snapshot(self._snapshot, force=True)

    def cleanup(self) -> None:
        """Let the trainables clean up, end all processes, and write the last state."""
        while self._idle:
            self._stop_process(self._idle.pop())
        for trial in list(self._processes):
            self._stop_process(self._processes.pop(trial))
        self._waiting.clear()
        self._trainables.clear()
        try:
            self._wait_for_stops()
            self.callbacks("on_experiment_end", trials=self._trials)
            self.state.snapshot(self._snapshot, force=True)
        finally:
            self.state.close()

    def _wait_for_stops(self) -> None:
        """Wait until processes have ended; after an interrupt the rest is killed."""
        try:
            while self._stopping:
                self._handle_answers()
        finally:
            while self._stopping:
                self._end_process(self._stopping.popitem()[1])

    def _snapshot(self) -> dict[str, object]:
        return {
            "search_alg": self.search_alg.get_state(),
            "stoppers": [experiment.stopper for experiment in self._experiments.values()],
            "callbacks": self.callbacks.get_state(),
            "num_trials": len(self._trials),
            "finished": {trial.trial_id for trial in self._trials if trial.is_finished()},
        }


class ScheduledSave:
    """A checkpoint that is being made."""

    def __init__(self, runner: TrialRunner, trial: Trial, reference: ObjectRef[Any]) -> None:
        self._runner, self._trial, self._reference = runner, trial, reference

    def resolve(self) -> TrainingResult | None:
        """Wait for the checkpoint, and keep it; None when the trial has none."""
        try:
            made: TrainingResult = ray.get(self._reference)
        except ray.exceptions.RayError as error:
            logger.warning("%s made no checkpoint: %s", self._trial, _summary(error))
            return None
        self._runner._on_checkpoint(self._trial, made)
        return made if made.checkpoint is not None else None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a checkpoint in the making does not outlive the driver


def _summary(error: BaseException) -> str:
    """Return the error's own line."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {cause}".splitlines()[0]
