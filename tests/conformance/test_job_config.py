"""`JobConfig`: its fields, and what ``init(job_config=...)`` makes of them."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def job_config_class(ray):
    return importlib.import_module(f"{ray.__name__}.job_config").JobConfig


def test_the_fields_are_empty_by_default(job_config_class):
    config = job_config_class()
    assert config.jvm_options == []
    assert config.code_search_path == []
    assert config.runtime_env == {}
    assert config.metadata == {}
    assert config.ray_namespace is None
    assert config.py_logging_config is None


def test_setters_change_the_fields(ray, job_config_class):
    config = job_config_class(metadata={"owner": "mail room"})
    config.set_metadata("floor", "3")
    config.set_metadata("owner", "archive")
    config.set_ray_namespace("letters")
    config.set_runtime_env({"env_vars": {"A": "1"}})
    logs = ray.LoggingConfig(encoding="JSON")
    config.set_py_logging_config(logs)
    assert config.metadata == {"owner": "archive", "floor": "3"}
    assert config.ray_namespace == "letters"
    assert config.runtime_env == {"env_vars": {"A": "1"}}
    assert config.py_logging_config is logs
    config.set_runtime_env(None)
    assert config.runtime_env == {}


def test_a_search_path_that_is_a_string_is_a_type_error(job_config_class):
    with pytest.raises(TypeError, match="code search path|code_search_path"):
        job_config_class(code_search_path="/letters")


def test_a_lifetime_that_is_unknown_is_a_value_error(job_config_class):
    with pytest.raises(ValueError, match="detached"):
        job_config_class(default_actor_lifetime="forever")


def test_a_validated_runtime_env_that_is_wrong_raises(job_config_class):
    config = job_config_class()
    with pytest.raises((TypeError, ValueError)):
        config.set_runtime_env({"env_vars": {"A": 1}}, validate=True)
    config.set_runtime_env({"env_vars": {"A": 1}})  # it is looked at by init
    assert config.runtime_env == {"env_vars": {"A": 1}}


def test_ensure_logging_config_sets_it_once(ray, job_config_class):
    config = job_config_class()
    config.ensure_logging_config(None)
    assert config.py_logging_config is None
    config.ensure_logging_config({"encoding": "JSON", "unknown": 1})
    assert config.py_logging_config == ray.LoggingConfig(encoding="JSON")
    config.ensure_logging_config(ray.LoggingConfig(log_level="DEBUG"))
    assert config.py_logging_config.encoding == "JSON"


def test_ensure_logging_config_of_another_type_is_a_type_error(job_config_class):
    with pytest.raises(TypeError, match="LoggingConfig"):
        job_config_class().ensure_logging_config("JSON")


def test_from_json_takes_the_fields_by_name(job_config_class):
    config = job_config_class.from_json(
        {
            "runtime_env": {"env_vars": {"A": "1"}},
            "metadata": {"floor": "3"},
            "ray_namespace": "letters",
            "code_search_path": ["/letters"],
            "default_actor_lifetime": "unknown and not read",
        }
    )
    assert config.runtime_env == {"env_vars": {"A": "1"}}
    assert config.metadata == {"floor": "3"}
    assert config.ray_namespace == "letters"
    assert config.code_search_path == ["/letters"]


@pytest.fixture(scope="module")
def job(ray, tmp_path_factory):
    """The implementation with a job whose config has a namespace, variables and a search path."""
    folder = tmp_path_factory.mktemp("search path")
    (folder / "sorting_of_letters.py").write_text("OFFICES = 12\n")
    config = importlib.import_module(f"{ray.__name__}.job_config").JobConfig(
        ray_namespace="letters",
        runtime_env={"env_vars": {"FLOOR": "3"}},
        default_actor_lifetime="detached",
        _py_driver_sys_path=[str(folder)],
    )
    if ray.is_initialized():
        ray.shutdown()
    quiet = {"configure_logging": False, "include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=2, job_config=config, **quiet)
    yield ray
    ray.shutdown()


def test_the_namespace_is_that_of_the_job(job):
    assert job.get_runtime_context().namespace == "letters"


def test_tasks_have_the_job_s_runtime_env(job):
    @job.remote
    def floor():
        import os

        return os.environ["FLOOR"]

    assert job.get(floor.remote()) == "3"


def test_tasks_import_from_the_search_path(job):
    @job.remote
    def offices():
        import sorting_of_letters

        return sorting_of_letters.OFFICES

    assert job.get(offices.remote()) == 12


def test_actors_are_detached_by_default_if_the_job_says_so(job):
    @job.remote
    class Box:
        def ping(self):
            return "pong"

    box = Box.options(name="box").remote()
    other = Box.options(name="other", lifetime="non_detached").remote()
    assert job.get([box.ping.remote(), other.ping.remote()]) == ["pong", "pong"]
    del box
    assert job.get(job.get_actor("box").ping.remote()) == "pong"
    job.kill(job.get_actor("box"))


def test_a_task_s_actors_are_detached_too(job):
    @job.remote
    class Box:
        def ping(self):
            return "pong"

    @job.remote
    def create():
        box = Box.options(name="box of a task").remote()
        return job.get(box.ping.remote())

    assert job.get(create.remote()) == "pong"
    box = job.get_actor("box of a task")
    assert job.get(box.ping.remote()) == "pong"
    job.kill(box)


def test_init_s_own_namespace_and_runtime_env_go_first(fresh, job_config_class):
    environment = {"env_vars": {"FLOOR": "3", "ROOM": "7"}}
    config = job_config_class(ray_namespace="x", runtime_env=environment)
    given = {"namespace": "parcels", "runtime_env": {"env_vars": {"FLOOR": "4"}}}
    ray = fresh(num_cpus=1, job_config=config, **given)
    assert ray.get_runtime_context().namespace == "parcels"

    @ray.remote
    def variables():
        import os

        return os.environ.get("FLOOR"), os.environ.get("ROOM")

    assert ray.get(variables.remote()) == ("4", None)


def test_the_logging_of_the_job_is_applied(ray, fresh, job_config_class):
    import logging

    config = job_config_class()
    config.set_py_logging_config(ray.LoggingConfig(log_level="ERROR"))
    fresh(num_cpus=1, job_config=config)

    @ray.remote
    def root_level():
        return logging.getLogger().level

    assert ray.get(root_level.remote()) == logging.ERROR
