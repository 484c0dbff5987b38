"""Limits of executions of data sets, and the settings that a program may give."""

import logging
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import raycompat as ray
import raycompat.data
from raycompat._caller import session
from raycompat.data import execution, plan, tasks
from raycompat.data.operators import MapOperator
from raycompat.exceptions import UnsupportedRayFeatureError

Resources = ray.data.ExecutionResources


class Session:
    """A cluster without placement groups."""

    def rpc(self, request):
        return {}


@pytest.fixture
def context(monkeypatch):
    """Return the settings on a cluster of 4 CPUs and 2 GPUs."""
    present = {"CPU": 4.0, "GPU": 2.0, "memory": 2.0**33, "object_store_memory": 2.0**30}
    monkeypatch.setattr(ray, "cluster_resources", lambda: present)
    monkeypatch.setattr(session, "require", Session)
    return ray.data.DataContext()


@pytest.mark.parametrize(
    ("limits", "excluded", "cpus"),
    [
        ({}, {}, 4),
        ({"cpu": 100}, {}, 4),
        ({"cpu": 0.5}, {}, 0.5),
        ({}, {"cpu": 3}, 1),
        ({}, {"cpu": 4}, 1),
        ({}, {"cpu": 100}, 1),
        ({}, {"cpu": math.inf}, 1),
        ({"cpu": 0}, {}, 1),
    ],
)
def test_cpus_of_an_execution(context, limits, excluded, cpus):
    context.execution_options = ray.data.ExecutionOptions(
        Resources(**limits), Resources(**excluded)
    )
    assert execution._budget(context).num_cpus == cpus


@pytest.mark.parametrize(
    ("free", "shares"), [([1, 0], False), ([0.5, 0.5], True), ([0, 0], True), ([2, 2], False)]
)
def test_cpus_are_shared_when_no_node_has_one(context, monkeypatch, free, shares):
    asked = []

    class Busy:
        def rpc(self, request):
            asked.append(request)
            return {
                "group": {
                    "state": "CREATED",
                    "nodes": ["a", "b"],
                    "bundles": [{"CPU": 2 - each} for each in free],
                },
                "waiting": {"state": "PENDING", "nodes": [""], "bundles": [{"CPU": 9}]},
            }

    monkeypatch.setattr(session, "require", Busy)
    nodes = [{"NodeID": each, "Alive": True, "Resources": {"CPU": 2}} for each in "ab"]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    assert execution._budget(context).shares_cpus is shares
    assert [each.is_living for each in asked] == [True]


def test_an_execution_does_not_change_which_cpus_another_one_takes():
    tasks.share_cpus(True)
    with ThreadPoolExecutor(1) as other:
        assert other.submit(tasks.unless_named).result() == {}
    assert tasks.unless_named() == {"num_cpus": 0}
    tasks.share_cpus(False)
    assert tasks.unless_named() == {}


def test_no_task_is_ahead_of_shared_cpus():
    running = MapOperator("Map", lambda number, bundles: None)
    running.num_running = 2
    for shares in (False, True):
        budget = execution.Budget(2, 2**40, shares_cpus=shares)
        assert budget.admits([running], 0, 0) is not shares


def test_no_cpu_is_said_once(context, caplog):
    execution._warn_of_no_cpu.cache_clear()
    context.execution_options.exclude_resources = Resources(cpu=100)
    with caplog.at_level(logging.WARNING, execution.__name__):
        execution._budget(context)
        execution._budget(context)
    (record,) = caplog.records
    assert "the cluster has 4" in record.message and "exclude_resources takes 100" in record.message


@pytest.mark.parametrize("option", ["resource_limits", "exclude_resources"])
@pytest.mark.parametrize("resource", ["cpu", "gpu", "object_store_memory", "memory"])
@pytest.mark.parametrize("amount", [-1, math.nan])
def test_amounts_are_numbers_from_0(context, option, resource, amount):
    setattr(context.execution_options, option, Resources(**{resource: amount}))
    with pytest.raises(ValueError, match=f"{option} has {resource}={amount}"):
        execution._budget(context)


def test_a_limit_and_an_exclusion_contradict_each_other(context):
    context.execution_options = ray.data.ExecutionOptions(Resources(cpu=2), Resources(cpu=3))
    with pytest.raises(ValueError, match=r"limited to 2 .* 3 of it"):
        execution._budget(context)


@pytest.mark.parametrize("option", ["resource_limits", "exclude_resources"])
def test_kinds_of_amounts(option):
    options = ray.data.ExecutionOptions()
    setattr(options, option, {"CPU": 1})
    assert getattr(options, option).cpu == 1
    assert options == ray.data.ExecutionOptions(**{option: {"CPU": 1}})
    setattr(options, option, None)
    assert options == ray.data.ExecutionOptions()
    with pytest.raises(TypeError, match=f"{option}=3: expected ExecutionResources"):
        setattr(options, option, 3)


def test_labels_are_refused_wherever_they_are_given():
    options = ray.data.ExecutionOptions()
    options.label_selector = None
    with pytest.raises(UnsupportedRayFeatureError, match="label_selector"):
        options.label_selector = {"zone": "a"}
    with pytest.raises(UnsupportedRayFeatureError, match="label_selector"):
        ray.data.ExecutionOptions(label_selector={"zone": "a"})


@pytest.mark.parametrize(
    ("resource", "asked"), [("gpu", {"num_gpus": 1}), ("memory", {"memory": 100})]
)
def test_what_cannot_be_limited_is_refused(context, resource, asked):
    def limit(**amounts):
        context.execution_options = ray.data.ExecutionOptions(**amounts)

    plan._refuse_limits("Map", asked, context)
    limit(resource_limits=Resources(**{resource: 2**40}))
    plan._refuse_limits("Map", asked, context)
    for amounts in ({"resource_limits": {resource: 1}}, {"exclude_resources": {resource: 1}}):
        ((option, given),) = amounts.items()
        limit(**{option: Resources(**given)})
        plan._refuse_limits("Map", {"num_cpus": 1}, context)
        with pytest.raises(UnsupportedRayFeatureError, match=f"limit of {resource} .* Map"):
            plan._refuse_limits("Map", asked, context)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("target_max_block_size", "x", TypeError),
        ("target_max_block_size", 0, ValueError),
        ("target_max_block_size", 1.5, TypeError),
        ("target_max_block_size", None, UnsupportedRayFeatureError),
        ("target_min_block_size", math.nan, TypeError),
        ("target_min_block_size", -1, ValueError),
        ("read_op_min_num_blocks", True, TypeError),
        ("read_op_min_num_blocks", 0, ValueError),
        ("max_errored_blocks", -2, ValueError),
        ("enable_progress_bars", "False", TypeError),
        ("raise_original_map_exception", 2, TypeError),
        ("enable_arrow_backed_pandas_conversion", None, TypeError),
        ("execution_options", {"CPU": 1}, TypeError),
    ],
)
def test_a_setting_is_checked_where_it_is_given(name, value, error):
    context = ray.data.DataContext()
    before = getattr(context, name)
    with pytest.raises(error, match=f"DataContext.{name} = "):
        setattr(context, name, value)
    assert getattr(context, name) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("target_max_block_size", np.int64(100)),
        ("target_max_block_size", 1e9),
        ("max_errored_blocks", -1),
        ("enable_progress_bars", np.False_),
        ("enable_progress_bars", 0),
    ],
)
def test_numbers_of_other_types_are_settings(name, value):
    context = ray.data.DataContext()
    setattr(context, name, value)
    assert getattr(context, name) == value
    assert type(getattr(context, name)) is type(getattr(ray.data.DataContext(), name))
