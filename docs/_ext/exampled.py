"""Every function, class, method and error of the rooms that programs use most is shown by an example.

The entry of a function, a class or an error has one itself. A method may also be called or defined in
another example of its class, or in one of a base class from which its class has it.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import complete
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

#: The pages of the reference whose entries are checked.
PAGES = [f"docs/api/{name}" for name in ("core", "actor", "data", "train", "tune", "util")]
#: The kinds of entries that have an example themselves.
KINDS = ("class", "exception", "function")

#: Entries without an example, by the reason.
WITHOUT = {
    "they are always refused": (
        *(
            f"raycompat.util.collective.collective.{name}_multigpu"
            for name in (
                "allgather",
                "allreduce",
                "broadcast",
                "recv",
                "reduce",
                "reducescatter",
                "send",
            )
        ),
        *(
            f"raycompat.train.TrainContext.get_{name}"
            for name in ("metadata", "trial_dir", "trial_id", "trial_name", "trial_resources")
        ),
    ),
    "only the library calls them": (
        *(
            f"raycompat.train.xgboost.RayTrainReportCallback.after_{name}"
            for name in ("iteration", "training")
        ),
        *(
            f"raycompat.train.lightning.RayLightningEnvironment.{name}"
            for name in (
                "global_rank",
                "local_rank",
                "node_rank",
                "set_global_rank",
                "set_world_size",
                "teardown",
                "world_size",
            )
        ),
        "raycompat.train.lightning.RayTrainReportCallback.on_train_epoch_end",
        "raycompat.train.huggingface.transformers.RayTrainReportCallback.on_log",
        "raycompat.train.huggingface.transformers.RayTrainReportCallback.on_save",
        "raycompat.data.Schema.texts",
        *(
            f"raycompat.data.aggregate.{name}"
            for name in (
                "AbsMax.values",
                *(f"AggregateFn.{each}" for each in ("merge", "result", "state")),
                *(f"AggregateFnV2.{each}" for each in ("merge", "result", "state")),
                "ApproximateQuantile.result",
                *(f"ApproximateTopK.{each}" for each in ("result", "state")),
                "AsList.result",
                *(f"Count.{each}" for each in ("finished", "merged", "states")),
                "CountDistinct.result",
                *(f"Mean.{each}" for each in ("finished", "options", "values")),
                "Quantile.result",
                *(f"Std.{each}" for each in ("finished", "merged", "states")),
                *(f"Unique.{each}" for each in ("merge", "result", "state")),
                *(f"ValueCounter.{each}" for each in ("merge", "result", "state")),
            )
        ),
        "raycompat.train.ScalingConfig.labels_of",
        "raycompat.tune.CLIReporter.error_rows",
        "raycompat.tune.CLIReporter.title_lines",
        "raycompat.tune.Experiment.make_trial",
        "raycompat.tune.ExperimentAnalysis.dataframe_of",
        "raycompat.tune.JupyterNotebookReporter.error_rows",
        "raycompat.tune.JupyterNotebookReporter.title_lines",
        "raycompat.tune.schedulers.PopulationBasedTraining.explored",
        "raycompat.tune.schedulers.PopulationBasedTraining.quantiles",
        "raycompat.tune.search.BasicVariantGenerator.skip_made",
        "raycompat.tune.search.SearchGenerator.skip_made",
        "raycompat.tune.stopper.ExperimentPlateauStopper.has_plateaued",
        "raycompat.util.multiprocessing.results.AsyncResult.accept",
        "raycompat.util.scheduling_strategies.NodeAffinitySchedulingStrategy.to_strategy",
        "raycompat.util.scheduling_strategies.NodeLabelSchedulingStrategy.to_strategy",
    ),
    "they are other names of entries with one": ("raycompat.data.expressions.pyarrow_udf",),
    "they are old forms of `init` and `shutdown`": (
        "raycompat.util.connect",
        "raycompat.util.disconnect",
    ),
    "they are never raised here": (
        "raycompat.train.NCCLHangError",
        "raycompat.train.PreemptionError",
    ),
    "they are names of types": (
        "raycompat.data.collate_fn.DataBatchType",
        "raycompat.train.ValidationFn",
    ),
}


_find = functools.cache(complete.find)


class Entry(NamedTuple):
    """An entry of the reference."""

    kind: str
    name: str
    #: Whether it has an example outside of the entries within it.
    has_own: bool
    #: All its examples, with those of the entries within it.
    code: str


def entries(doctree: nodes.document) -> Iterator[Entry]:
    """Yield the functions, classes, errors and methods of a page."""
    for entry in doctree.findall(addnodes.desc):
        signature = entry.next_node(addnodes.desc_signature)
        if entry["objtype"] in (*KINDS, "method") and signature is not None and signature["ids"]:
            blocks = list(_blocks(entry))
            has_own = any(_owner(block) is entry for block in blocks)
            code = "\n".join(block.astext() for block in blocks)
            yield Entry(entry["objtype"], signature["ids"][0], has_own, code)


def bases(name: str, among: Iterable[str]) -> list[str]:
    """Return those of some classes from which a class inherits; all by their names."""
    inherited = inspect.getmro(_find(name))[1:]
    return [each for each in among if _find(each) in inherited]


def without_example(
    found: Iterable[Entry], bases: Callable[[str, Iterable[str]], list[str]] = bases
) -> Iterator[str]:
    """Yield the names of entries that no example shows."""
    found = list(found)
    code = {each.name: each.code for each in found if each.kind in ("class", "exception")}
    for entry in found:
        if entry.has_own:
            continue
        owner, _, method = entry.name.rpartition(".")
        if entry.kind in KINDS or not any(
            _shows(code[each], method) for each in (owner, *bases(owner, code))
        ):
            yield entry.name


def _shows(code: str, method: str) -> bool:
    """Return whether code calls or defines a method."""
    call = rf"(?:\.|\bdef ){re.escape(method)}(?:\.(?:remote|bind))?\("
    return re.search(call, code) is not None


def _blocks(entry: addnodes.desc) -> Iterator[nodes.Element]:
    yield from entry.findall(nodes.literal_block)
    yield from entry.findall(nodes.doctest_block)


def _owner(node: nodes.Node | None) -> nodes.Node | None:
    while node is not None and not isinstance(node, addnodes.desc):
        node = node.parent
    return node


def check(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of entries without an example, and of exceptions that have one."""
    allowed = {name for names in WITHOUT.values() for name in names}
    trees = [environment.get_doctree(page) for page in PAGES]
    found = set(without_example(entry for tree in trees for entry in entries(tree)))
    logger = logging.getLogger(__name__)
    for name in sorted(found - allowed):
        logger.warning("%s has no example in the API reference", name)
    for name in sorted(allowed - found):
        logger.warning("%s needs no exception in %s: it has an example", name, __name__)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the check."""
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
