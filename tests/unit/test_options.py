"""Options: their names, checks and defaults are Ray's, and none is dropped in silence."""

import pickle
import warnings
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._protocol import option_rules, option_types
from raycompat._protocol.options import (
    FIELDS,
    ActorOptions,
    MethodOptions,
    TaskOptions,
    actor_options,
    limit_of_items,
    method_options,
    task_options,
)
from raycompat._protocol.resource_set import ResourceSet
from raycompat._protocol.strategy import GroupHandle, SchedulingStrategy
from raycompat.exceptions import UnsupportedRayFeatureError

R = ResourceSet.from_amounts


# --- names --------------------------------------------------------------------------------------


def test_an_unknown_name_is_refused_with_the_closest_one_and_then_all_that_are_valid():
    with pytest.raises(ValueError) as caught:
        task_options({"num_cpu": 1})
    advice, _, valid = str(caught.value).partition(" Valid ones are ")
    assert advice == (
        "Invalid option keyword num_cpu for remote functions. "
        "Not valid: num_cpu (did you mean num_cpus?)."
    )
    names = valid.removesuffix(".").split(", ")
    assert names == sorted(names)
    assert {"label_selector", "num_returns"} < set(names)
    assert not [name for name in names if name.startswith("_")]
    with pytest.raises(
        ValueError, match=r"^Invalid option keyword foo for actors. Not valid: foo\. V"
    ):
        actor_options({"foo": 1})


def test_all_unknown_names_come_in_one_error_with_the_closest_ones():
    with pytest.raises(ValueError, match=r"num_cpu \(did you mean num_cpus\?\), zzz, lifetime "):
        task_options({"num_cpu": 1, "zzz": 1, "num_gpus": "bad", "lifetime": None})


def test_a_name_of_another_kind_is_recognized():
    with pytest.raises(ValueError, match=r"max_retries \(an option of remote functions\)"):
        actor_options({"max_retries": 1})
    with pytest.raises(ValueError, match=r"lifetime \(an option of actors\)"):
        task_options({"lifetime": "detached"})


def test_unknown_names_of_methods_raise_as_in_ray():
    with pytest.raises(AssertionError, match=r"^Unexpected keyword argument to @ray.method: 'foo'"):
        method_options({"foo": 1})
    with pytest.raises(AssertionError, match="'name'"):
        method_options({"name": "only in .options()"})
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'num_cpus'"):
        method_options({"num_cpus": 1}, MethodOptions())
    assert method_options({"name": "x"}, MethodOptions()).name == "x"


@pytest.mark.parametrize(
    ("options", "base", "given"),
    [
        (task_options, TaskOptions(), {"max_calls": 1}),
        (actor_options, ActorOptions(), {"concurrency_groups": {"io": 1}}),
    ],
)
def test_what_only_the_decorator_takes(options, base, given):
    with pytest.raises(ValueError, match=rf"^Setting '{next(iter(given))}' is not supported in"):
        options(given, base)


@pytest.mark.parametrize("options", [task_options, method_options])
def test_the_old_name_of_num_returns_warns_at_the_line_of_the_user(options):
    with pytest.warns(DeprecationWarning, match="use num_returns") as caught:
        assert options({"num_return_vals": 2}).num_returns == 2
    assert caught[0].filename == __file__


def test_the_warning_points_at_the_decorator():
    import raycompat as ray

    with pytest.warns(DeprecationWarning, match="use num_returns") as caught:
        ray.remote(num_return_vals=2)(lambda: (1, 2))
    assert caught[0].filename == __file__


def test_the_old_and_the_new_name_together_are_refused():
    with pytest.raises(ValueError, match="give only num_returns"):
        task_options({"num_return_vals": 2, "num_returns": 2})


def test_the_old_name_is_no_option_of_actors():
    with (
        pytest.raises(ValueError, match="Invalid option keyword num_returns for actors"),
        pytest.warns(DeprecationWarning, match="use num_returns"),
    ):
        actor_options({"num_return_vals": 2})


# --- values -------------------------------------------------------------------------------------

COMMON = [
    ({"num_cpus": -1}, ValueError, "quantity of resource num_cpus cannot be negative: it is -1"),
    ({"num_cpus": "1"}, TypeError, r"'num_cpus' must be \(<class 'float'>, <class 'int'>, .*: '1'"),
    ({"num_cpus": float("nan")}, ValueError, "num_cpus is nan: expected a finite number"),
    ({"num_gpus": float("inf")}, ValueError, "num_gpus is inf: expected a finite number"),
    ({"num_cpus": 0.00001}, ValueError, "fractional quantity of resource num_cpu"),
    ({"num_gpus": 1.5}, ValueError, "GPU resource quantities >1 must be whole numbers"),
    ({"memory": -1}, ValueError, "quantity of resource memory cannot be negative"),
    ({"resources": [1]}, TypeError, "type of keyword 'resources' must be"),
    ({"resources": {"CPU": 1}}, ValueError, "Use the 'num_cpus' and 'num_gpus' keyword instead"),
    ({"resources": {"memory": 1}}, ValueError, "must not contain the key 'memory'"),
    ({"resources": {"disk": -1}}, ValueError, "quantity of resource disk cannot be negative"),
    ({"resources": {"disk": None}}, TypeError, "resource disk is None"),
    ({"name": 3}, TypeError, "type of keyword 'name' must be"),
    ({"runtime_env": "x"}, TypeError, "type of keyword 'runtime_env' must be"),
    (
        {"runtime_env": {"env_vars": [1]}},
        TypeError,
        "env_vars of a runtime_env must be a dict of strings, got <class 'list'>",
    ),
    ({"runtime_env": {"env_vars": {"A": 1}}}, TypeError, "the value 1 is of type <class 'int'>"),
    ({"runtime_env": {"env_vars": {1: "A"}}}, TypeError, "the key 1 is of type <class 'int'>"),
    ({"scheduling_strategy": "PACK"}, ValueError, "Invalid scheduling_strategy value PACK. Valid"),
    ({"scheduling_strategy": 1}, TypeError, "type of keyword 'scheduling_strategy' must be"),
    ({"placement_group": object()}, TypeError, "'placement_group' must be NoneType or Placem"),
    ({"placement_group": "mine"}, TypeError, "'placement_group' must be NoneType or Placement"),
    ({"placement_group_bundle_index": None}, TypeError, "'placement_group_bundle_index' must"),
    ({"accelerator_type": 1}, TypeError, "type of keyword 'accelerator_type' must be"),
    ({"label_selector": 1}, TypeError, "type of keyword 'label_selector' must be"),
    ({"enable_task_events": None}, TypeError, "'enable_task_events' must be <class 'bool'>"),
]
TASK = [
    ({"num_returns": -1}, ValueError, "'num_returns' only accepts None, a non-negative integer"),
    ({"num_returns": "many"}, ValueError, "got 'many'. The keyword 'num_returns' only accepts"),
    ({"num_returns": 1.5}, TypeError, "type of keyword 'num_returns' must be"),
    ({"max_retries": -2}, ValueError, "'max_retries' only accepts None, 0, -1 or a positive int"),
    ({"max_retries": 1.5}, TypeError, "type of keyword 'max_retries' must be"),
    ({"max_calls": -1}, ValueError, "'max_calls' only accepts None, 0 or a positive integer; it"),
    ({"retry_exceptions": None}, TypeError, "type of keyword 'retry_exceptions' must be"),
    ({"retry_exceptions": OSError}, TypeError, "type of keyword 'retry_exceptions' must be"),
    ({"retry_exceptions": [1]}, ValueError, "either a boolean or a list"),
    ({"retry_exceptions": [KeyboardInterrupt]}, ValueError, "either a boolean or a list"),
    ({"object_store_memory": 1}, ValueError, "'object_store_memory' is not implemented for tasks"),
    ({"_generator_backpressure_num_objects": 0}, ValueError, "=0 is not allowed"),
    ({"_num_objects_per_yield": 0}, ValueError, "must be set to a positive integer"),
]
ACTOR = [
    ({"name": ""}, ValueError, "Actor name cannot be an empty string"),
    ({"namespace": ""}, ValueError, '"" is not a valid namespace.'),
    ({"namespace": 1}, TypeError, "type of keyword 'namespace' must be"),
    ({"lifetime": "long"}, ValueError, "actor `lifetime` argument must be 'detached'"),
    ({"lifetime": 1}, TypeError, "type of keyword 'lifetime' must be"),
    ({"get_if_exists": 1}, TypeError, "type of keyword 'get_if_exists' must be <class 'bool'>"),
    ({"get_if_exists": True}, ValueError, "name must be specified to use `get_if_exi"),
    ({"max_concurrency": -1}, ValueError, "'max_concurrency' only accepts None, 0 or a positive"),
    ({"max_restarts": -2}, ValueError, "'max_restarts' only accepts None, 0, -1 or a positive"),
    ({"max_task_retries": "x"}, TypeError, "type of keyword 'max_task_retries' must be"),
    ({"max_pending_calls": -2}, ValueError, "'max_pending_calls' only accepts None, 0, -1"),
    ({"object_store_memory": -1}, ValueError, "'object_store_memory' only accepts None, 0 or a"),
]
METHOD = [
    ({"num_returns": -1}, ValueError, "num_returns must be >= 0, but got -1"),
    ({"num_returns": 1.5}, TypeError, "num_returns"),
    ({"max_task_retries": -2}, ValueError, "max_task_retries"),
    ({"concurrency_group": 1}, TypeError, "concurrency_group"),
]


@pytest.mark.parametrize(
    ("options", "base", "bad", "error", "text"),
    [
        *((task_options, TaskOptions(), *case) for case in COMMON + TASK),
        *((actor_options, ActorOptions(), *case) for case in COMMON + ACTOR),
        *((method_options, MethodOptions(), *case) for case in METHOD),
    ],
)
def test_a_bad_value_is_refused_as_in_ray(options, base, bad, error, text):
    with pytest.raises(error, match=text):
        options(bad)
    if "max_calls" not in bad:
        with pytest.raises(error, match=text):
            options(bad, base)


@pytest.mark.parametrize(
    ("given_", "field", "kept"),
    [
        ({"num_returns": None}, "num_returns", None),
        ({"num_returns": True}, "num_returns", 1),
        ({"num_returns": "streaming"}, "num_returns", "streaming"),
        ({"num_returns": "dynamic"}, "num_returns", "dynamic"),
        ({"max_retries": -1}, "max_retries", -1),
        ({"max_retries": None}, "max_retries", 3),
        ({"retry_exceptions": []}, "retry_exceptions", ()),
        ({"retry_exceptions": [OSError]}, "retry_exceptions", (OSError,)),
        ({"max_calls": None}, "max_calls", 0),
        ({"max_calls": 2, "num_gpus": 1}, "max_calls", 2),
        ({"max_calls": 0, "num_gpus": 1}, "max_calls", 0),
        ({"num_gpus": 0.5}, "max_calls", 1),
        ({"num_gpus": 0}, "max_calls", 0),
        ({"name": ""}, "name", ""),
        ({"memory": 1.5}, "memory", 1),
        ({"runtime_env": {}}, "runtime_env", None),
        ({"runtime_env": {"env_vars": None}}, "runtime_env", None),
        (
            {"runtime_env": {"pip": ["a", "a"]}},
            "runtime_env",
            {"pip": {"packages": ["a"], "pip_check": False}},
        ),
    ],
)
def test_a_good_value_is_kept(given_, field, kept):
    assert getattr(task_options(given_), field) == kept


def test_the_defaults_are_those_of_ray():
    task = task_options({})
    assert (task.num_returns, task.max_retries, task.retry_exceptions) == (None, 3, False)
    assert (task.max_calls, task.runtime_env, task.scheduling_strategy) == (0, None, None)
    actor = actor_options({})
    assert (actor.name, actor.namespace, actor.lifetime) == (None, None, None)
    assert actor.get_if_exists is False
    assert method_options({"num_returns": None}) == MethodOptions()


def test_options_change_only_what_they_name():
    base = task_options({"num_cpus": 2, "num_gpus": 1, "resources": {"disk": 1}, "name": "base"})
    changed = task_options({"num_gpus": 0, "resources": {"tape": 1}}, base)
    assert changed.request() == R({"CPU": 2, "tape": 1})
    assert (changed.name, changed.max_calls) == ("base", 0)
    assert base.request() == R({"CPU": 2, "GPU": 1, "disk": 1})


def test_a_name_at_the_decorator_serves_get_if_exists_in_options():
    base = actor_options({"name": "one"})
    assert actor_options({"get_if_exists": True}, base).get_if_exists


def test_what_the_user_changes_later_has_no_effect():
    variables, resources = {"A": "1"}, {"disk": 1}
    made = task_options({"runtime_env": {"env_vars": variables}, "resources": resources})
    variables["A"] = "2"
    resources["disk"] = 2
    assert made == task_options({"runtime_env": {"env_vars": {"A": "1"}}, "resources": {"disk": 1}})


def test_options_travel():
    for made in (
        task_options({"num_gpus": 1, "retry_exceptions": [OSError]}),
        actor_options({"memory": 10, "name": "a"}),
        method_options({"num_returns": 2}),
    ):
        copy = pickle.loads(pickle.dumps(made))
        assert copy == made
        if not isinstance(made, MethodOptions):
            assert copy.num_gpus == made.num_gpus
    assert pickle.loads(pickle.dumps(TaskOptions())).request() == R({"CPU": 1})


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "request_"),
    [
        ({}, {"CPU": 1}),
        ({"num_cpus": None}, {}),
        ({"num_cpus": 0}, {}),
        ({"num_gpus": True}, {"CPU": 1, "GPU": 1}),
        ({"num_gpus": 1, "num_cpus": None}, {"GPU": 1}),
        ({"memory": 1.5, "resources": {"disk": 0.5}}, {"CPU": 1, "memory": 1, "disk": 0.5}),
        ({"memory": 0.5}, {"CPU": 1}),
    ],
)
def test_the_request_of_a_task(given_, request_):
    assert task_options(given_).request() == R(request_)


@pytest.mark.parametrize(
    ("given_", "placement", "lifetime"),
    [
        ({}, {"CPU": 1}, {}),
        ({"num_cpus": None}, {"CPU": 1}, {}),
        ({"num_cpus": 0}, {}, {}),
        ({"num_cpus": 1}, {"CPU": 1}, {"CPU": 1}),
        ({"num_gpus": 1}, {"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 1}),
        ({"num_gpus": 0}, {"CPU": 1}, {"CPU": 1}),
        ({"num_gpus": 1, "num_cpus": 0}, {"GPU": 1}, {"GPU": 1}),
        ({"resources": {"disk": 1}}, {"CPU": 1, "disk": 1}, {"CPU": 1, "disk": 1}),
        ({"resources": {"disk": 0}}, {"CPU": 1}, {"CPU": 1}),
        ({"resources": {}}, {"CPU": 1}, {}),
        ({"memory": 1000}, {"CPU": 1, "memory": 1000}, {"memory": 1000}),
    ],
)
def test_the_requests_of_an_actor(given_, placement, lifetime):
    made = actor_options(given_)
    assert made.placement_request() == R(placement)
    assert made.lifetime_request() == R(lifetime)


def test_object_store_memory_of_an_actor_is_deprecated_and_held():
    with pytest.warns(DeprecationWarning, match="object_store_memory"):
        made = actor_options({"object_store_memory": 100})
    assert made.lifetime_request() == R({"object_store_memory": 100})


amounts = st.none() | st.integers(0, 9) | st.sampled_from([0.25, 0.5])


@given(amounts, amounts, st.none() | st.dictionaries(st.sampled_from(["disk", "tape"]), amounts))
def test_an_actor_is_placed_where_it_can_live(num_cpus, num_gpus, resources):
    resources = resources and {name: amount or 0 for name, amount in resources.items()}
    made = actor_options({"num_cpus": num_cpus, "num_gpus": num_gpus, "resources": resources})
    assert made.lifetime_request().fits_in(made.placement_request())


# --- what is not honoured -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (task_options, {"_labels": {"a": "b"}}),
        (task_options, {"_num_objects_per_yield": 2}),
    ],
)
def test_what_is_not_honoured_raises(options, refused):
    with pytest.raises(UnsupportedRayFeatureError) as caught:
        options(refused)
    assert caught.value.feature.startswith(f"{next(iter(refused))}=")
    assert caught.value.reason
    assert caught.value.alternative


@pytest.mark.parametrize(
    ("options", "honoured"),
    [
        (task_options, {"runtime_env": None}),
        (task_options, {"runtime_env": {"env_vars": {"A": "1"}, "pip": None}}),
        *((task_options, {"scheduling_strategy": s}) for s in (None, "DEFAULT", "SPREAD")),
        (task_options, {"scheduling_strategy": SchedulingStrategy()}),
        (task_options, {"placement_group": "default"}),
        (task_options, {"placement_group_bundle_index": -1, "label_selector": {}}),
        (task_options, {"label_selector": {"zone": "!in(a, b)", "example.com/disk": ""}}),
        (actor_options, {"fallback_strategy": [{"label_selector": {}}]}),
        (task_options, {"_generator_backpressure_num_objects": -1, "enable_task_events": False}),
        (actor_options, {"max_restarts": 0, "max_task_retries": None, "max_pending_calls": -1}),
        (actor_options, {"max_restarts": -1, "max_task_retries": 3, "max_pending_calls": 5}),
        *((actor_options, {"max_concurrency": number}) for number in (None, 1, 20)),
        (actor_options, {"concurrency_groups": {"io": 2}, "allow_out_of_order_execution": True}),
        (method_options, {"max_task_retries": -1, "retry_exceptions": [OSError]}),
        (method_options, {"concurrency_group": "io"}),
        (actor_options, {"concurrency_groups": None, "allow_out_of_order_execution": False}),
        (actor_options, {"lifetime": "non_detached", "namespace": None}),
        (method_options, {"max_task_retries": 0, "retry_exceptions": True}),
        (method_options, {"concurrency_group": None, "tensor_transport": None}),
    ],
)
def test_what_is_ray_s_default_is_honoured(options, honoured):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options(honoured)


@pytest.mark.parametrize(
    "option",
    [
        {"placement_group": None},
        {"placement_group": GroupHandle()},
        {"placement_group_bundle_index": 1},
        {"placement_group_capture_child_tasks": True},
    ],
)
@pytest.mark.parametrize("options", [task_options, actor_options])
def test_the_old_ways_to_name_a_group_are_honoured_with_a_warning(options, option):
    (name, value), *_ = option.items()
    with pytest.warns(DeprecationWarning, match=f"{name} parameter is deprecated"):
        assert getattr(options(option), name) is value


def test_a_group_is_named_in_one_way_only():
    given = {"placement_group": GroupHandle(), "scheduling_strategy": "SPREAD"}
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(ValueError, match="should be specified via the scheduling_strategy option"),
    ):
        task_options(given)


@pytest.mark.parametrize(
    ("given", "may"),
    [
        ({}, True),
        ({"scheduling_strategy": "DEFAULT"}, True),
        ({"scheduling_strategy": "SPREAD"}, False),
        ({"scheduling_strategy": SchedulingStrategy()}, False),
    ],
)
def test_calls_with_a_strategy_take_no_lease(given, may):
    assert task_options(given).is_simple is may


@pytest.mark.filterwarnings("ignore:placement_group")
def test_calls_in_a_group_take_no_lease():
    assert task_options({"placement_group": None}).is_simple
    assert not task_options({"placement_group": GroupHandle()}).is_simple
    assert not task_options({"placement_group_capture_child_tasks": True}).is_simple


def test_the_variables_of_a_refused_runtime_env_are_not_shown():
    with pytest.raises(UnsupportedRayFeatureError, match="conda") as caught:
        task_options({"runtime_env": {"env_vars": {"TOKEN": "secret"}, "conda": "base"}})
    assert "secret" not in str(caught.value)


def test_an_empty_runtime_env_in_options_changes_nothing_as_in_ray():
    base = task_options({"runtime_env": {"env_vars": {"A": "1"}}})
    assert task_options({"runtime_env": {}}, base).runtime_env == {"env_vars": {"A": "1"}}
    other = task_options({"runtime_env": {"env_vars": {"B": "2"}}}, base)
    assert other.runtime_env == {"env_vars": {"B": "2"}}  # in place of the decorator's


#: Options that are taken, change nothing, and may: what they ask for is never there.
WITHOUT_EFFECT = {
    "enable_task_events",  # no events are recorded
    "retry_exceptions",  # of a method: needs max_task_retries, which is refused
}


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        (option_rules.TASK, TaskOptions),
        (option_rules.ACTOR, ActorOptions),
        (option_rules.METHOD, MethodOptions),
    ],
)
def test_no_option_is_dropped_in_silence(kind, cls):
    held = {each.name for each in fields(cls)}
    refused = {"object_store_memory"} if cls is TaskOptions else set()
    named = {FIELDS.get(name, name) for name in kind.rules}
    assert named <= held | refused | set(option_rules._LIMITS) | WITHOUT_EFFECT
    assert set(option_rules._LIMITS) <= {
        name
        for each in (option_rules.TASK, option_rules.ACTOR, option_rules.METHOD)
        for name in each.rules
    }


def test_the_limit_of_waiting_items():
    given = {"_generator_backpressure_num_objects": 3}
    assert task_options(given).max_items == method_options(given).max_items == 3
    assert actor_options({"_actor_generator_backpressure_num_objects": 2}).max_items == 2
    for options, limit in [((None, 2), 2), ((3, 2), 3), ((-1, 2), None), ((None, None), None)]:
        assert limit_of_items(*options) == limit


@pytest.mark.parametrize(
    ("keywords", "rules"),
    [
        (option_types.TaskKeywords, option_rules.TASK.rules.keys() - {"num_returns"}),
        (option_types.ActorKeywords, option_rules.ACTOR.rules.keys()),
        (option_types.MethodKeywords, option_rules.METHOD.rules.keys()),
    ],
)
def test_type_checkers_know_each_option(keywords, rules):
    assert keywords.__annotations__.keys() == rules
