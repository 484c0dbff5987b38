"""`LoggingConfig`: how a driver, its tasks and actors log. The tests read the output of programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

#: Seconds that a driver of these tests may take, the start of its session included.
DRIVER_S = 120

pytestmark = pytest.mark.timeout(2 * DRIVER_S)

BODY = """
import logging, sys, {package} as ray

config = ray.LoggingConfig({arguments})
ray.init(num_cpus=2, include_dashboard=False, logging_config=config)
log = logging.getLogger("letters")

@ray.remote
def sort():
    print("printed in a task")
    logging.getLogger("letters").info("sorted %d", 7, extra={{"office": 12}})
    logging.getLogger("letters").debug("a detail")
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("letters").exception("a failure")

@ray.remote
class Office:
    def open(self):
        logging.getLogger("letters").warning("opened")
        return ray.get_runtime_context().get_actor_id()

log.info("in the driver")
log.debug("a detail of the driver")
ray.get(sort.remote())
actor = ray.get(Office.options(name="main office").remote().open.remote())
print("ACTOR", actor)
print("NODE", ray.get_runtime_context().get_node_id())
print("JOB", ray.get_runtime_context().get_job_id())
import time; time.sleep(1.5)  # Ray prints what it finds in files
ray.shutdown()
"""


class Driver:
    """A driver that has ended, with its lines and the ids that it printed."""

    def __init__(self, ray, arguments: str) -> None:
        ray.shutdown()
        body = BODY.format(package=ray.__name__, arguments=arguments)
        done = subprocess.run(
            [sys.executable, "-c", body],
            capture_output=True,
            timeout=DRIVER_S,
            env={**os.environ, "RAY_DEDUP_LOGS": "0"},
            text=True,
        )
        assert done.returncode == 0, done.stderr
        self.out = done.stdout.splitlines()
        self.err = done.stderr.splitlines()
        self.ids = dict(line.split() for line in self.out if line.split()[0].isupper())

    def line(self, text: str) -> str:
        """Return the one line with a text."""
        (found,) = [line for line in self.err if text in line]
        return found


@pytest.fixture(scope="module")
def as_json(ray) -> Driver:
    return Driver(ray, 'encoding="JSON", log_level="INFO", additional_log_standard_attrs=["name"]')


@pytest.fixture(scope="module")
def as_text(ray) -> Driver:
    return Driver(ray, 'log_level="DEBUG", additional_log_standard_attrs=["funcName"]')


def test_the_defaults(ray):
    config = ray.LoggingConfig()
    assert (config.encoding, config.log_level) == ("TEXT", "INFO")
    assert config.additional_log_standard_attrs == []
    assert config == ray.LoggingConfig("TEXT", "INFO", [])


def test_it_goes_to_a_dict_and_back(ray):
    config = ray.LoggingConfig("JSON", "DEBUG", ["name"])
    fields = {
        "encoding": "JSON",
        "log_level": "DEBUG",
        "additional_log_standard_attrs": ["name"],
    }
    assert config.to_dict() == fields
    assert ray.LoggingConfig.from_dict({**fields, "unknown": 1}) == config


def test_an_unknown_encoding_is_a_value_error(ray):
    with pytest.raises(ValueError, match=r"Invalid encoding type.*TEXT"):
        ray.LoggingConfig(encoding="XML")


def test_an_unknown_attribute_is_a_value_error(ray):
    with pytest.raises(ValueError, match="office"):
        ray.LoggingConfig(additional_log_standard_attrs=["name", "office"])


def test_a_task_logs_json(as_json):
    record = json.loads(as_json.line("sorted 7"))
    assert record["message"] == "sorted 7"
    assert record["levelname"] == "INFO"
    assert record["name"] == "letters"
    assert record["office"] == 12
    assert record["filename"] == "<string>"
    assert record["task_name"] == "sort"
    assert record["task_func_name"].endswith("sort")
    assert re.fullmatch("[0-9a-f]{48}", record["task_id"])
    assert re.fullmatch("[0-9a-f]{56}", record["worker_id"])
    assert (record["job_id"], record["node_id"]) == (as_json.ids["JOB"], as_json.ids["NODE"])
    assert "actor_id" not in record
    assert isinstance(record["lineno"], int)
    assert isinstance(record["process"], int)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", record["asctime"])
    assert len(str(record["timestamp_ns"])) == 19


def test_a_method_logs_its_actor(as_json):
    record = json.loads(as_json.line("opened"))
    assert record["levelname"] == "WARNING"
    assert record["actor_id"] == as_json.ids["ACTOR"]
    assert record["actor_name"] == "main office"
    assert record["task_name"].endswith("open")


def test_the_driver_logs_its_job(as_json):
    record = json.loads(as_json.line("in the driver"))
    assert (record["job_id"], record["node_id"]) == (as_json.ids["JOB"], as_json.ids["NODE"])
    assert not record.keys() & {"task_id", "task_name", "actor_id"}


def test_a_traceback_is_one_attribute(as_json):
    record = json.loads(as_json.line("a failure"))
    assert record["exc_text"].startswith("Traceback")
    assert "ZeroDivisionError" in record["exc_text"]


def test_lower_levels_are_left_out(as_json):
    assert not [line for line in as_json.err if "a detail" in line]


def test_output_has_no_prefixes(as_json, as_text):
    assert "printed in a task" in as_json.out
    assert "printed in a task" in as_text.out


def test_a_task_logs_text(as_text):
    line = as_text.line("sorted 7")
    found = re.match(r"[\d-]+ [\d:,]+\tINFO <string>:\d+ -- sorted 7 funcName=sort (.*)", line)
    context = dict(pair.split("=", 1) for pair in found[1].split())
    assert context["office"] == "12"
    assert context["task_name"] == "sort"
    assert context["job_id"] == as_text.ids["JOB"]
    assert context["timestamp_ns"].isdigit()


def test_the_level_is_that_of_driver_and_tasks(as_text):
    assert "\tDEBUG " in as_text.line("-- a detail funcName=sort")
    assert "\tDEBUG " in as_text.line("a detail of the driver")
