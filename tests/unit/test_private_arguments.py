"""The private arguments of `init`: honoured, or named in one warning."""

from __future__ import annotations

import warnings

import pytest

from raycompat._launch.private_arguments import take


def test_those_of_the_started_node_are_honoured(tmp_path):
    folder = str(tmp_path / "made" / "here")
    given = {
        "num_cpus": 2,
        "_temp_dir": folder,
        "_memory": 10**9,
        "_node_name": "mine",
        "_system_config": {"worker_niceness": 0},
        "_redis_username": "default",
        "_plasma_directory": None,
        "_enable_object_reconstruction": True,
        "_skip_env_hook": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = take(given)
    assert given == {"num_cpus": 2}
    assert found.folder == folder
    assert (tmp_path / "made" / "here").is_dir()
    assert found.of_node == {
        "memory": 10**9,
        "node_name": "mine",
        "env_vars": {"RAY_worker_niceness": "0"},
    }


@pytest.mark.parametrize("name", ["object_spilling_directory", "_object_spilling_directory"])
def test_objects_are_spilled_where_the_program_says(tmp_path, name):
    assert take({name: str(tmp_path)}).folder == str(tmp_path)
    with pytest.warns(
        UserWarning, match=f"{name}: objects that do not fit are written to _temp_dir"
    ):
        found = take({"_temp_dir": str(tmp_path), name: "/elsewhere"})
    assert found.folder == str(tmp_path)


def test_all_without_effect_are_named_in_one_warning():
    names = [
        "_driver_object_store_memory",
        "_metrics_export_port",
        "_node_ip_address",
        "_plasma_directory",
        "_redis_username",
    ]
    with pytest.warns(UserWarning) as told:
        take({**dict.fromkeys(names, "given"), "_system_config": {"unknown": 1}})
    (warning,) = told
    assert all(
        f"{name}: " in str(warning.message) for name in [*names, "_system_config['unknown']"]
    )


def test_the_hook_of_tracing_is_an_import_path():
    assert (
        take({"_tracing_startup_hook": "package.module:setup"}).tracing_hook
        == "package.module:setup"
    )
    assert take({"_tracing_startup_hook": None}).tracing_hook is None
    for wrong in ("setup", "module.setup", "module:", ""):
        with pytest.raises(ValueError, match="expected the import path of a function"):
            take({"_tracing_startup_hook": wrong})


@pytest.mark.parametrize(
    "given",
    [
        {"_node_name": 4},
        {"_system_config": [1]},
        {"_temp_dir": 4},
        {"_tracing_startup_hook": print},
    ],
)
def test_a_wrong_value_is_told_by_name(given):
    (name,) = given
    with pytest.raises(TypeError, match=f"init\\({name}="):
        take(given)


def test_a_cluster_that_runs_already_has_its_settings(tmp_path):
    with pytest.raises(ValueError, match="_node_name and _system_config must not be provided"):
        take({"_node_name": "mine", "_system_config": {}}).refuse_when_connecting()
    with pytest.warns(UserWarning, match=r"_temp_dir: .*already exists; _memory: "):
        take({"_temp_dir": str(tmp_path), "_memory": 1}).refuse_when_connecting()
