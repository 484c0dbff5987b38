"""Functions as trainables: ``train(config)`` of today, ``train(config, reporter)`` of 2018."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raycompat._surface import forms
from raycompat.tune.result import DEFAULT_METRIC
from raycompat.tune.trainable.session import FunctionSession, report
from raycompat.tune.trainable.trainable import Trainable, TrainingResult

if TYPE_CHECKING:
    from raycompat.tune.trainable.nested import Config, Metrics

#: Seconds that a stopped function has to end before its process cannot be reused.
STOP_TIMEOUT_S = 2.0


class FunctionTrainable(Trainable):
    """A trainable around a function; each of its reports is a step.

    Notes
    -----
    Ray source: ``ray.tune.trainable.FunctionTrainable``, 2.60.0. No known difference.
    """

    _name = "func"

    #: Whether an experiment may name times for checkpoints, which change nothing: all that are reported
    #: are kept.
    _accepts_checkpoint_times = False

    def setup(self, config: Config) -> None:
        self._session = FunctionSession(self._call, self._place)

    def _call(self) -> None:
        """Run the user's function; report its result, or the values that it yields."""
        returned = self._trainable_func(self.config)
        if inspect.isgenerator(returned):
            for each in returned:
                report_value(each)
        else:
            report_value(returned)
        self._session.keep_unreported()

    def _trainable_func(self, config: Config) -> object:
        raise NotImplementedError

    def step(self) -> Metrics:
        return self._session.next_result()

    def save(self, checkpoint_dir: str | None = None) -> TrainingResult:
        """Return the checkpoint that the function reported last."""
        return TrainingResult(self._session.checkpoint, dict(self._last_result))

    def has_new_checkpoint(self) -> bool:
        """Return once whether the last report had a checkpoint."""
        found, self._session.has_new_checkpoint = self._session.has_new_checkpoint, False
        return found

    def restore(self, checkpoint: Any) -> None:
        """Begin with a checkpoint, which `get_checkpoint` returns."""
        if isinstance(checkpoint, TrainingResult):
            self._set_state(_counted(checkpoint.metrics))
            checkpoint = checkpoint.checkpoint
        self._session.checkpoint = checkpoint

    def reset_config(self, new_config: Config) -> bool:
        if not self._session.stop(STOP_TIMEOUT_S):
            return False
        self.config = new_config
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        self._session.stop(STOP_TIMEOUT_S)

    def __repr__(self) -> str:
        return self._name


def _counted(metrics: Metrics) -> Metrics:
    """Return counts and times of a result, from which a restored trial counts on."""
    return {
        "iteration": metrics.get("training_iteration", 0),
        "time_total": metrics.get("time_total_s", 0.0),
        "timesteps_total": metrics.get("timesteps_total"),
        "episodes_total": metrics.get("episodes_total"),
        "last_result": metrics,
    }


def report_value(value: object) -> None:
    """Report what a function returned or yielded: a dict, a number, or nothing.

    Raises
    ------
    TypeError
        When it is something else.
    """
    if value is None:
        return
    if isinstance(value, dict):
        if value:
            report(value)
    elif isinstance(value, numbers.Number):
        report({DEFAULT_METRIC: value})
    else:
        raise TypeError(
            f"The training function returned or yielded {value!r}: expected a dict of results, a "
            "number or None."
        )


class Reporter:
    """The argument of a function of 2018: ``reporter(timesteps_total=..., mean_accuracy=...)``."""

    def __call__(self, _metric: float | None = None, **metrics: object) -> None:
        if _metric is not None:
            metrics[DEFAULT_METRIC] = _metric
        report(metrics)


@forms.takes_old_options("ray.tune.trainable.wrap_function")
def wrap_function(
    train_func: Callable[..., object], name: str | None = None
) -> type[FunctionTrainable]:
    """Return a trainable that calls the function.

    Raises
    ------
    ValueError
        When it does not take a config, or a config and a reporter.
    """
    takes_folder = takes_checkpoint_dir(train_func)
    takes_reporter = not takes_folder and _takes_reporter(train_func)

    class ImplicitFunc(FunctionTrainable):
        _name = str(name or getattr(train_func, "__name__", "func"))

        def _trainable_func(self, config: Config) -> object:
            if takes_folder:
                forms.used("ray.tune: a function with checkpoint_dir")
                return train_func(config, checkpoint_dir=self._session.folder_to_begin_with())
            if takes_reporter:
                forms.used("ray.tune: a function with a reporter")
                return train_func(config, Reporter())
            return train_func(config)

        @classmethod
        def default_resource_request(cls, config: Config) -> Any:
            resources: Any = getattr(train_func, "_resources", None)
            is_function = callable(resources) and not hasattr(resources, "bundles")
            return resources(config) if is_function else resources

    ImplicitFunc.__name__ = ImplicitFunc.__qualname__ = ImplicitFunc._name
    return ImplicitFunc


def takes_checkpoint_dir(function: Callable[..., object]) -> bool:
    """Return whether a function has the signature of 2020: ``train(config, checkpoint_dir=None)``."""
    return "checkpoint_dir" in inspect.signature(function).parameters


def _takes_reporter(function: Callable[..., object]) -> bool:
    """Return whether a function has the signature of 2018."""
    signature = inspect.signature(function)
    required = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    second = list(signature.parameters)[1:2]
    if len(required) == 2 or (len(required) < 2 and second == ["reporter"]):
        return True
    try:
        signature.bind({})
    except TypeError:
        name = getattr(function, "__name__", repr(function))
        raise ValueError(
            f"{name}{signature}: expected a function of one parameter, the config, as in "
            "train(config); or of config and reporter. Pass other values by "
            "tune.with_parameters(train, data=data)."
        ) from None
    return False
