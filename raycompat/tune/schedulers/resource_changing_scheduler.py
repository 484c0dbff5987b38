"""`ResourceChangingScheduler`: gives running trials other resources, by a function that decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raycompat._surface.modules import names_of
from raycompat.tune.execution.ledger import ROUNDING
from raycompat.tune.execution.placement_groups import PlacementGroupFactory
from raycompat.tune.schedulers.trial_scheduler import (
    FIFOScheduler,
    TrialScheduler,
    check_mode,
)

if TYPE_CHECKING:
    from raycompat.tune.experiment.trial import Trial
    from raycompat.tune.schedulers.trial_scheduler import Controller
    from raycompat.tune.trainable.nested import Metrics


class DistributeResources:
    """Give all CPUs and GPUs to the trials, each an equal share.

    Parameters
    ----------
    add_bundles : bool, default False
        Give a trial more bundles, for more child processes. Otherwise its only bundle grows.
    increase_by : dict of str to float, optional
        The step by which a trial grows: amounts of ``CPU`` and ``GPU``. Default: a GPU for a trial that
        has some, otherwise a CPU; with `add_bundles` the last bundle with which the trial started.
    increase_by_times : int, default -1
        Maximum number of steps, with `increase_by`. Less than 1: no limit.
    reserve_resources : dict of str to float, optional
        Amounts of ``CPU`` and ``GPU`` of the cluster that trials do not get.

    Raises
    ------
    ValueError
        When called for a trial with several bundles without `add_bundles`, or with steps of other
        resources.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import ResourceChangingScheduler
    >>> from raycompat.tune.schedulers.resource_changing_scheduler import (
    ...     DistributeResources,
    ... )
    >>> scheduler = ResourceChangingScheduler(
    ...     tune.schedulers.ASHAScheduler(max_t=16),
    ...     DistributeResources(add_bundles=True, reserve_resources={"CPU": 1}),
    ... )

    Notes
    -----
    Ray source: ``ray.tune.schedulers.resource_changing_scheduler.DistributeResources``, 2.60.0.
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Mapping[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: Mapping[str, float] | None = None,
    ) -> None:
        self.add_bundles = add_bundles
        self.increase_by = increase_by or {}
        self.increase_by_times = increase_by_times
        self.reserve_resources = reserve_resources or {}

    def __call__(
        self,
        tune_controller: Controller,
        trial: Trial,
        result: Metrics,
        scheduler: Any,
    ) -> PlacementGroupFactory | None:
        """Return the resources that a trial should have; None: those that it has.

        Parameters
        ----------
        tune_controller : TrialRunner
            Knows all trials and the cluster.
        trial : Trial
            The trial.
        result : dict
            Its last result.
        scheduler : ResourceChangingScheduler
            The scheduler that asks.
        """
        if result.get("training_iteration", 0) < 1:
            return None
        base: PlacementGroupFactory = scheduler.base_trial_resources
        self._check(base)
        step = self._step(base)
        live = tune_controller.get_live_trials()
        total = tune_controller.cluster_resources()
        total = {name: total.get(name, 0) - self.reserve_resources.get(name, 0) for name in step}
        others: Counter[str] = Counter()
        for each in live:
            if each is not trial:
                others.update(each.placement_group_factory.required_resources)
        own = base.required_resources
        free = {name: total[name] - others[name] - own.get(name, 0) for name in step}
        at_start = {name: total[name] - len(live) * own.get(name, 0) for name in step}
        times = min(
            _steps(free, step), self._share(tune_controller, trial, result, scheduler, at_start)
        )
        if self.increase_by and self.increase_by_times >= 1:
            times = min(times, self.increase_by_times)
        return self._grown(base, step, max(int(times), 0))

    def _check(self, base: PlacementGroupFactory) -> None:
        if not self.add_bundles and len(base.bundles) > 1:
            raise ValueError(
                f"The trials have {len(base.bundles)} bundles: {base}. Without add_bundles the only "
                "bundle grows: set add_bundles=True, or give the trials one bundle."
            )
        if not set(self.increase_by) <= {"CPU", "GPU"}:
            raise ValueError(
                f"increase_by={self.increase_by}: only CPU and GPU are distributed. Leave the others "
                "out; trials keep those with which they start."
            )

    def _step(self, base: PlacementGroupFactory) -> Mapping[str, float]:
        if self.increase_by:
            return self.increase_by
        if self.add_bundles:
            last = base.bundles[-1]
            return {name: amount for name, amount in last.items() if name in ("CPU", "GPU")}
        return {"GPU": 1.0} if base.required_resources.get("GPU") else {"CPU": 1.0}

    def _share(
        self,
        tune_controller: Controller,
        trial: Trial,
        result: Metrics,
        scheduler: Any,
        at_start: Mapping[str, float],
    ) -> float:
        """Return a trial's maximum of steps: an equal share of what trials do not start with."""
        num_steps = _steps(at_start, self._step(scheduler.base_trial_resources))
        return math.ceil(num_steps / max(len(tune_controller.get_live_trials()), 1))

    def _grown(
        self, base: PlacementGroupFactory, step: Mapping[str, float], times: int
    ) -> PlacementGroupFactory:
        bundles = base.bundles
        if self.add_bundles:
            bundles = [*bundles, *(dict(step) for _ in range(times))]
        else:
            (bundle,) = bundles
            grown = {name: bundle.get(name, 0) + times * amount for name, amount in step.items()}
            bundles = [{**bundle, **grown}]
        return base.with_bundles(bundles)


def _steps(amounts: Mapping[str, float], step: Mapping[str, float]) -> int:
    """Return how many whole steps fit into amounts."""
    return min((math.floor(amounts[name] / step[name] + ROUNDING) for name in step), default=0)


class DistributeResourcesToTopJob(DistributeResources):
    """Give all free CPUs and GPUs to the best trial; those that were the best before keep theirs.

    Parameters
    ----------
    add_bundles : bool, default False
        Give a trial more bundles. Otherwise its only bundle grows.
    increase_by : dict of str to float, optional
        The step by which a trial grows, as in `DistributeResources`.
    increase_by_times : int, default -1
        Maximum number of steps, with `increase_by`. Less than 1: no limit.
    reserve_resources : dict of str to float, optional
        Amounts that trials do not get.
    metric, mode : str, optional
        The metric to compare trials by, and its direction. Default: those of the scheduler.

    Examples
    --------
    >>> from raycompat.tune.schedulers import ResourceChangingScheduler
    >>> from raycompat.tune.schedulers.resource_changing_scheduler import (
    ...     DistributeResourcesToTopJob,
    ... )
    >>> scheduler = ResourceChangingScheduler(
    ...     resources_allocation_function=DistributeResourcesToTopJob(
    ...         metric="loss", mode="min"
    ...     )
    ... )

    Notes
    -----
    Ray source: ``ray.tune.schedulers.resource_changing_scheduler.DistributeResourcesToTopJob``, 2.60.0.
    Differs from Ray: a mode that is neither "min" nor "max" is an error at once.
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Mapping[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: Mapping[str, float] | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ) -> None:
        check_mode(mode)
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        self.metric = metric
        self.mode = mode

    def _share(
        self,
        tune_controller: Controller,
        trial: Trial,
        result: Metrics,
        scheduler: Any,
        at_start: Mapping[str, float],
    ) -> float:
        metric, mode = self.metric or scheduler.metric, self.mode or scheduler.mode
        if metric is None or mode is None:
            raise ValueError(
                f"DistributeResourcesToTopJob has metric={metric!r} and mode={mode!r}: pass both to "
                "it, or to TuneConfig."
            )
        sign = 1 if mode == "max" else -1
        scores = [
            sign * each.last_result[metric]
            for each in tune_controller.get_live_trials()
            if each is not trial and metric in each.last_result
        ]
        if sign * result[metric] >= max(scores, default=-math.inf):
            return math.inf
        base = scheduler.base_trial_resources
        step, own = self._step(base), base.required_resources
        has = trial.placement_group_factory.required_resources
        return _steps({name: has.get(name, 0) - own.get(name, 0) for name in step}, step)


class ResourceChangingScheduler(TrialScheduler):
    """Let another scheduler decide, and give the trials that go on other resources.

    A trial whose resources change makes a checkpoint, and continues from it in a process with the new
    resources. So it needs checkpoints; it learns its resources by ``Trainable.trial_resources``, or by
    ``tune.get_context().get_trial_resources()`` in a function.

    Parameters
    ----------
    base_scheduler : TrialScheduler, optional
        The scheduler that decides which trials go on. Default: `FIFOScheduler`.
    resources_allocation_function : callable, optional
        Called after each result with the runner, the trial, the result and this scheduler; returns a
        `PlacementGroupFactory`, or None for no change. Default: `DistributeResources`. None: nothing
        changes.

    Raises
    ------
    ValueError
        When trials reuse processes.
    RuntimeError
        When trials start with different resources.

    Examples
    --------
    >>> from raycompat import tune
    >>> from raycompat.tune.schedulers import ResourceChangingScheduler
    >>> def all_for_the_last(runner, trial, result, scheduler):
    ...     if len(runner.get_live_trials()) == 1:
    ...         return tune.PlacementGroupFactory([{"CPU": 2}])
    >>> scheduler = ResourceChangingScheduler(
    ...     tune.schedulers.ASHAScheduler(max_t=16), all_for_the_last
    ... )
    >>> config = tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler)

    Its effect on a trial that waits:

    >>> import tempfile
    >>> search = tune.search.BasicVariantGenerator()
    >>> search.add_configurations(
    ...     tune.Experiment(
    ...         "learn", lambda config: None, storage_path=tempfile.mkdtemp()
    ...     )
    ... )
    >>> trial = search.next_trial()
    >>> both = tune.PlacementGroupFactory([{"CPU": 2}])
    >>> (
    ...     scheduler.set_trial_resources(trial, both),
    ...     scheduler.set_trial_resources(trial, both),
    ... )
    (True, False)
    >>> unchanging = ResourceChangingScheduler(resources_allocation_function=None)
    >>> unchanging.reallocate_trial_resources_if_needed(
    ...     None, trial, {"loss": 0.5}
    ... ) is None
    True

    It has the metric of the scheduler that decides; it knows the first resources when a trial begins:

    >>> by_loss = ResourceChangingScheduler(
    ...     tune.schedulers.ASHAScheduler(metric="loss", mode="min")
    ... )
    >>> by_loss.metric, by_loss.base_trial_resources
    ('loss', None)
    """

    def __init__(
        self,
        base_scheduler: TrialScheduler | None = None,
        resources_allocation_function: Callable[..., object] | None = DistributeResources(),  # noqa: B008
    ) -> None:
        self._base_scheduler = base_scheduler or FIFOScheduler()
        self._allocate = resources_allocation_function
        self._base_trial_resources: PlacementGroupFactory | None = None
        #: The trials that pause, and what they get then.
        self._to_change: dict[Trial, PlacementGroupFactory] = {}
        self.mode: str | None = None

    @property
    def metric(self) -> str | None:
        """The metric that decides."""
        return self._base_scheduler.metric

    @property
    def base_trial_resources(self) -> PlacementGroupFactory | None:
        """The resources with which trials start."""
        return self._base_trial_resources

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: object) -> bool:
        """Take metric and mode of the experiment, and pass them on."""
        self.mode = mode
        return self._base_scheduler.set_search_properties(metric, mode, **spec)

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        """Take note of a new trial, and of the resources with which all start."""
        base = self._base_trial_resources = (
            self._base_trial_resources or trial.placement_group_factory
        )
        if trial.placement_group_factory != base and not trial.has_reported_at_least_once:
            raise RuntimeError(
                f"{trial} starts with {trial.placement_group_factory}, the first trial with {base}: "
                "ResourceChangingScheduler needs trials that start alike."
            )
        self._base_scheduler.on_trial_add(tune_controller, trial)

    def on_trial_error(self, tune_controller: Controller, trial: Trial) -> None:
        """Take note that a running trial has failed for good."""
        self._to_change.pop(trial, None)
        self._base_scheduler.on_trial_error(tune_controller, trial)

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: Metrics) -> str:
        """Return the base scheduler's decision; pause a trial that goes on with other resources."""
        decision = self._base_scheduler.on_trial_result(tune_controller, trial, result)
        if decision != TrialScheduler.CONTINUE:
            return decision
        wanted = self.reallocate_trial_resources_if_needed(tune_controller, trial, result)
        if wanted is None:
            return decision
        self._to_change[trial] = wanted
        return TrialScheduler.PAUSE

    def on_trial_complete(self, tune_controller: Controller, trial: Trial, result: Metrics) -> None:
        """Take note that a running trial has ended."""
        self._to_change.pop(trial, None)
        self._base_scheduler.on_trial_complete(tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: Controller, trial: Trial) -> None:
        """Take note that a trial was ended that did not run."""
        self._to_change.pop(trial, None)
        self._base_scheduler.on_trial_remove(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Controller) -> Trial | None:
        """Give paused trials their new resources; return the base scheduler's choice."""
        if getattr(tune_controller, "reuses_actors", False):
            raise ValueError(
                "ResourceChangingScheduler needs processes with new resources: leave out "
                "reuse_actors=True."
            )
        for trial in [each for each in self._to_change if each.status != "RUNNING"]:
            self.set_trial_resources(trial, self._to_change.pop(trial))
        return self._base_scheduler.choose_trial_to_run(tune_controller)

    def set_trial_resources(
        self, trial: Trial, new_resources: dict[str, float] | PlacementGroupFactory
    ) -> bool:
        """Give a trial that does not run other resources; return whether they are others.

        Parameters
        ----------
        trial : Trial
            The trial.
        new_resources : PlacementGroupFactory
            Its resources from now on.
        """
        if trial.placement_group_factory == new_resources:
            return False
        trial.update_resources(new_resources)
        return True

    def reallocate_trial_resources_if_needed(
        self, tune_controller: Controller, trial: Trial, result: Metrics
    ) -> Any:
        """Return other resources for a trial; None when it keeps those that it has.

        Parameters
        ----------
        tune_controller : TrialRunner
            Knows all trials.
        trial : Trial
            The trial.
        result : dict
            Its last result.
        """
        if self._allocate is None:
            return None
        wanted = self._allocate(tune_controller, trial, result, self)
        return None if wanted == trial.placement_group_factory else wanted

    def debug_string(self) -> str:
        """Return a line for the progress report."""
        return f"(ResourceChangingScheduler) {self._base_scheduler.debug_string()}"

    def save(self, checkpoint_path: str) -> None:
        """Write the base scheduler's state to a file."""
        self._base_scheduler.save(checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file of `save`, which must come from a trusted source: it is unpickled."""
        self._base_scheduler.restore(checkpoint_path)


#: Names of older Rays.
__getattr__ = names_of(__name__)
