"""The settings of a job that `init` refuses, before it starts anything."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from raycompat import LoggingConfig
from raycompat._common.formatters import JSONFormatter
from raycompat._launch import init_arguments
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.job_config import JobConfig


def settled(**given: Any) -> JobConfig:
    names = ("job_config", "logging_config", "namespace", "runtime_env")
    return init_arguments.job_config({name: given.get(name) for name in names})


@pytest.mark.parametrize(
    "config",
    [
        JobConfig(jvm_options=["-Xmx1g"]),
        JobConfig(_client_job=True),
        JobConfig(_disable_job_level_lineage_reconstruction=True),
        JobConfig(code_search_path=["letters.jar"]),
    ],
)
def test_what_is_not_honoured_raises(config):
    with pytest.raises(UnsupportedRayFeatureError, match="JobConfig"):
        settled(job_config=config)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"job_config": object()}, TypeError),
        ({"job_config": JobConfig(metadata={"a": 1})}, TypeError),
        ({"job_config": JobConfig(ray_namespace="")}, ValueError),
        ({"job_config": JobConfig(code_search_path=[b"folder"])}, TypeError),
        ({"logging_config": {"encoding": "JSON"}}, TypeError),
        ({"logging_config": LoggingConfig(log_level="LOUD")}, ValueError),
        ({"logging_config": LoggingConfig(log_level=None)}, TypeError),
    ],
)
def test_what_is_not_valid_raises(given, error):
    with pytest.raises(error, match=r"JobConfig|LoggingConfig|namespace"):
        settled(**given)


def test_the_given_config_is_not_changed():
    config = JobConfig(ray_namespace="letters")
    found = settled(job_config=config, namespace="parcels", logging_config=LoggingConfig("JSON"))
    assert (found.ray_namespace, found.py_logging_config) == ("parcels", LoggingConfig("JSON"))
    assert (config.ray_namespace, config.py_logging_config) == ("letters", None)


def test_the_variable_sets_the_encoding(monkeypatch):
    monkeypatch.setenv("RAY_LOGGING_CONFIG_ENCODING", "JSON")
    assert settled().py_logging_config == LoggingConfig("JSON")
    assert settled(logging_config=LoggingConfig("TEXT")).py_logging_config.encoding == "TEXT"


def test_values_that_json_lacks_are_shown_as_text():
    record = logging.makeLogRecord({"msg": "sorted", "office": {1, 1}})
    assert '"office": "{1}"' in JSONFormatter().format(record)
