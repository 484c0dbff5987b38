"""A run: attempts, one after the other, until one succeeds or no more are allowed.

It runs where `fit` was called: when that process ends, the cluster ends the workers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import raycompat as ray
from raycompat.exceptions import RayActorError
from raycompat.train._attempt import Attempt, RoomForMore, WorkersFailed
from raycompat.train._callback import UserCallback
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._context import TrainContext
from raycompat.train._errors import ControllerError, TrainingFailedError, WorkerGroupError
from raycompat.train._progress import Progress
from raycompat.train._report_options import ValidationConfig
from raycompat.train._reservation import Elasticity
from raycompat.train._result import Result
from raycompat.train._run import TrainRunContext
from raycompat.train._run_state import RunState
from raycompat.train._validation import Validations
from raycompat.train._worker import MARKER, RayTrainWorker, Setup
from raycompat.train._worker_group import WorkerGroup
from raycompat.util.placement_group import PlacementGroup
from raycompat.util.tracking import Experiment

if TYPE_CHECKING:
    from raycompat.train._types import Metrics

_log = logging.getLogger("raycompat.train")

#: How often in a row the workers may fail to start when `FailureConfig` names no limit.
_MAX_STARTS = 5


class Controller:
    """See the module.

    Parameters
    ----------
    function : callable
        The training function, without parameters.
    context : TrainRunContext
        The configurations of the run.
    datasets : dict
        Data sets, or functions that make them, by name.
    state : RunState
        The state of the run so far.
    resume_from : Checkpoint, optional
        The checkpoint with which a run without checkpoints starts.
    validation : ValidationConfig, optional
        How checkpoints are validated.
    group : PlacementGroup, optional
        Where the workers are placed. By default each try reserves a group.
    in_trial : bool, default False
        Whether the run is a trial of Tune.
    """

    def __init__(
        self,
        function: Callable[[], object],
        context: TrainRunContext,
        datasets: Mapping[str, object],
        state: RunState,
        resume_from: Checkpoint | None,
        validation: ValidationConfig | None,
        group: PlacementGroup | None = None,
        *,
        in_trial: bool = False,
    ) -> None:
        self._function = function
        self._group = group
        self._context = context
        self._config = context.run_config
        self._datasets = datasets
        self._state = state
        self._resume_from = resume_from
        self._validation = validation
        self._validations = Validations(validation, state)
        verbose = self._config.verbose if isinstance(self._config.verbose, int) else 1
        self._progress = Progress(str(self._config.name), verbose)
        #: A trial's figures are shown by Tune.
        self._shown = None if in_trial else Experiment(str(self._config.name), kind="Train")
        self._num_reports = 0
        self._num_tries = 0
        self._num_failures = 0
        self._num_failed_starts = 0
        scaling = context.scaling_config
        is_elastic = scaling.elasticity_enabled and group is None
        self._elasticity = Elasticity(scaling) if is_elastic else None

    def run(self) -> Result:
        """Run tries until one succeeds.

        Raises
        ------
        TrainingFailedError
            When the failures are more than `FailureConfig` allows.
        """
        end, why = "ERROR", ""
        try:
            self._state.begin()
            self._state.folder.write(MARKER, b"")
            while True:
                try:
                    value = self._try()
                except WorkersFailed as failed:
                    self._take_failure(failed)
                except RayActorError as error:
                    self._take_failed_start(error)
                except RoomForMore as room:
                    self._take_room(room)
                else:
                    end = "TERMINATED"
                    return Result(**self._state.result_fields(), return_value=value)
        except TrainingFailedError as error:
            why = str(error)
            self._state.keep_error(error)
            raise
        except Exception as error:
            failure, why = ControllerError(error), repr(error)
            self._state.keep_error(failure)
            raise failure from error
        finally:  # after Ctrl-C, too
            self._show_end(end, why)

    def _show_end(self, state: str, why: str) -> None:
        if self._shown is not None:
            self._shown.trial("run", state, error=why)
            self._shown.end()

    def _take_failure(self, failed: WorkersFailed) -> None:
        """Count a failure, and raise it if there were too many."""
        for callback in self._callbacks():
            callback.after_exception(self._context, dict(failed.failures))
        self._num_failures += 1
        assert self._config.failure_config is not None
        allowed = self._config.failure_config.max_failures
        if allowed >= 0 and self._num_failures > allowed:
            text = f"The training function failed on {len(failed.failures)} of the workers.\n"
            raise WorkerGroupError(text + failed.text, failed.failures) from None
        latest = self._state.registry.latest
        _log.warning(
            "%s: failure %d of %s that are recovered from. The workers start again, from %s.\n%s",
            self._config.name,
            self._num_failures,
            "any number" if allowed < 0 else allowed,
            "the beginning" if latest is None else latest.checkpoint,
            failed.text,
        )

    def _take_failed_start(self, error: RayActorError) -> None:
        self._num_failed_starts += 1
        assert self._config.failure_config is not None
        if error.actor_init_failed:  # the function cannot be loaded there: no other try can
            raise ControllerError(error) from error
        limit = self._config.failure_config.controller_failure_limit
        if self._num_failed_starts > (_MAX_STARTS if limit < 0 else limit):
            raise ControllerError(error) from error
        # As text: handlers may keep the record, and the error has frames that hold references.
        _log.warning("%s: a worker died before it trained: %s", self._config.name, str(error))

    def _take_room(self, room: RoomForMore) -> None:
        latest = self._state.registry.latest
        _log.info(
            "%s: the cluster has room for %d more workers. The workers start again, from %s.",
            self._config.name,
            room.number,
            "the beginning" if latest is None else latest.checkpoint,
        )

    def _callbacks(self) -> list[UserCallback]:
        return [each for each in self._config.callbacks or [] if isinstance(each, UserCallback)]

    def _on_report(self, metrics: list[Metrics], checkpoint: Checkpoint | None) -> None:
        name = None if checkpoint is None else checkpoint.path.rpartition("/")[2]
        self._progress.add(metrics[0], len(metrics), name)
        self._num_reports += 1
        if self._shown is not None:
            self._shown.report("run", self._num_reports, metrics[0])
        for callback in self._callbacks():
            callback.after_report(self._context, metrics, checkpoint)

    # --- a try ----------------------------------------------------------------------------------

    def _new_group(self) -> WorkerGroup:
        backend = self._context.backend_config
        runtime_env: dict[str, Any] = dict(self._config.worker_runtime_env or {})
        variables = dict(runtime_env.get("env_vars", {}))
        # The last makes the environment one that no process has been started for: a fresh process.
        runtime_env["env_vars"] = {
            **backend._variables(self._function, variables),
            **variables,
            "RAYCOMPAT_TRAIN_RUN": f"{self._context.run_id}.{self._num_tries}",
        }
        # A class that is exported by value, with the function: so nodes see which framework it uses.
        worker_class = type(
            "RayTrainWorker",
            (RayTrainWorker,),
            {
                "function": staticmethod(self._function),
                "framework": backend.framework,
                "__module__": "__main__",
            },
        )
        reserve = None if self._elasticity is None else self._elasticity.reserve
        scaling = self._context.scaling_config
        return WorkerGroup(scaling, worker_class, runtime_env, self._group, reserve)

    def _try(self) -> Any:
        self._num_tries += 1
        group = self._new_group()
        backend = self._context.backend_config.backend_cls()
        try:
            group.start()
            if backend.share_cuda_visible_devices:
                group.share_gpus()
            backend.on_start(group, self._context.backend_config)
            self._prepare(group)
            backend.on_training_start(group, self._context.backend_config)
            self._num_failed_starts = 0
            more = () if self._elasticity is None else (self._elasticity.num_more,)
            value = Attempt(group, self._state, self._validations, self._on_report, *more).run()
            backend.on_shutdown(group, self._context.backend_config)
            return value
        finally:
            if self._elasticity is not None:
                self._elasticity.stop()
            group.stop()
            self._state.folder.delete_partial()

    def _prepare(self, group: WorkerGroup) -> None:
        nodes = [worker.place.node_id for worker in group.workers]
        datasets = {
            name: each() if callable(each) and not hasattr(each, "streaming_split") else each
            for name, each in self._datasets.items()
        }
        actors = [worker.actor for worker in group.workers]
        shards = self._context.dataset_config.configure(
            datasets, world_size=len(group), worker_handles=actors, worker_node_ids=nodes
        )
        latest = self._state.registry.latest
        checkpoint = latest.checkpoint if latest is not None else self._resume_from
        folder = self._state.folder
        refs = [
            worker.actor.prepare.remote(
                Setup(
                    TrainContext(
                        experiment_name=str(self._config.name),
                        world_size=len(group),
                        world_rank=worker.rank,
                        local_rank=worker.local_rank,
                        local_world_size=worker.local_size,
                        node_rank=worker.node_rank,
                        _folder=folder,
                    ),
                    folder,
                    checkpoint,
                    shard,
                    self._validation is not None,
                )
            )
            for worker, shard in zip(group.workers, shards, strict=True)
        ]
        ray.get(refs)


def require_session() -> None:
    """Start a cluster on this machine if the program has not started one."""
    if not ray.is_initialized():
        ray.init()
