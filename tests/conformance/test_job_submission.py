"""Jobs that are submitted: their commands, states, output, environments and ends."""

import asyncio
import importlib
import os
import socket
import sys
from types import SimpleNamespace

import pytest
from _polling import wait_until

#: The program of a job: its driver and a task see the job's folder and variables.
PROGRAM = """
import os, sys
import {impl} as ray
import beside

ray.init(log_to_driver=False)

@ray.remote
def seen():
    import beside
    return beside.WORD, os.environ["OF_JOB"]

print("driver", beside.WORD, os.environ["OF_JOB"], os.path.exists("beside.py"))
print("task", *ray.get(seen.remote()))
print("metadata", ray.get_runtime_context().get_job_id())
"""

CONFLICT = """
import {impl} as ray
ray.init(runtime_env={{"env_vars": {{"OF_JOB": "other"}}}})
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def jobs(ray, request, tmp_path_factory):
    """The module, and a client of a cluster with a dashboard, to which jobs are submitted at once."""
    impl = request.config.getoption("--impl")
    names = importlib.import_module(f"{impl}.job_submission")
    if ray.is_initialized():
        ray.shutdown()
    context = ray.init(
        num_cpus=2,
        include_dashboard=True,
        dashboard_port=_free_port(),
        configure_logging=False,
        log_to_driver=False,
    )
    folder = tmp_path_factory.mktemp("job")
    (folder / "beside.py").write_text("WORD = 'found'\n")
    (folder / "program.py").write_text(PROGRAM.format(impl=impl))
    (folder / "conflict.py").write_text(CONFLICT.format(impl=impl))
    environment = {"working_dir": str(folder), "env_vars": {"OF_JOB": "set"}}
    client = names.JobSubmissionClient(f"http://{context.dashboard_url}")
    client.submit_job(
        entrypoint="echo hello; echo error >&2; echo $OF_JOB",
        submission_id="plain",
        metadata={"owner": "mail room"},
        runtime_env={"env_vars": {"OF_JOB": "given"}},
    )
    client.submit_job(entrypoint="echo last words; exit 3", submission_id="failing")
    for name in ("program", "conflict"):
        client.submit_job(
            entrypoint=f"{sys.executable} {name}.py", submission_id=name, runtime_env=environment
        )
    for name in ("plain", "failing", "program", "conflict"):
        wait_until(lambda name=name: client.get_job_status(name).is_terminal(), 60)
    yield SimpleNamespace(**{name: getattr(names, name) for name in names.__all__}, client=client)
    ray.shutdown()


def _end_of(jobs, job, status):
    wait_until(lambda: jobs.client.get_job_status(job).is_terminal())
    info = jobs.client.get_job_info(job)
    assert info.status == status, info.message
    return info


def test_a_command_that_succeeds(jobs):
    info = _end_of(jobs, "plain", "SUCCEEDED")
    assert info.status is jobs.JobStatus.SUCCEEDED
    assert str(info.status) == "SUCCEEDED"
    assert info.type is jobs.JobType.SUBMISSION
    assert (info.submission_id, info.driver_exit_code) == ("plain", 0)
    assert info.entrypoint == "echo hello; echo error >&2; echo $OF_JOB"
    assert info.metadata == {"owner": "mail room"}
    assert info.runtime_env["env_vars"]["OF_JOB"] == "given"
    assert 0 < info.start_time <= info.end_time
    assert info.message
    assert info.error_type is None
    assert info.driver_info is None  # it has not called init
    assert info.model_dump()["submission_id"] == "plain"
    assert "hello\nerror\ngiven\n" in jobs.client.get_job_logs("plain")
    assert "plain" in [each.submission_id for each in jobs.client.list_jobs()]


def test_a_command_that_fails(jobs):
    info = _end_of(jobs, "failing", "FAILED")
    assert info.driver_exit_code == 3
    assert info.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR"
    assert "exit code 3" in info.message
    assert "last words" in info.message


def test_output_is_followed_to_the_end(jobs):
    async def all_of(job):
        return "".join([text async for text in jobs.client.tail_job_logs(job)])

    assert "hello\nerror\ngiven\n" in asyncio.run(all_of("plain"))


def test_the_driver_and_its_tasks_have_the_environment_of_the_job(jobs):
    info = _end_of(jobs, "program", "SUCCEEDED")
    printed = jobs.client.get_job_logs("program").splitlines()
    assert "driver found set True" in printed
    assert "task found set" in printed
    (line,) = [line for line in printed if line.startswith("metadata")]
    assert line.split()[1] == info.job_id == info.driver_info.id
    assert int(info.driver_info.pid) != os.getpid()
    assert info.driver_node_id
    listed = jobs.client.list_jobs()
    assert [each.submission_id for each in listed if each.job_id == info.job_id] == ["program"]
    assert jobs.client.get_job_info(info.job_id).submission_id == "program"


def test_an_environment_that_contradicts_that_of_the_job(jobs):
    info = _end_of(jobs, "conflict", "FAILED")
    assert "ValueError" in info.message


def test_a_job_is_stopped_and_then_deleted(jobs):
    client = jobs.client
    client.submit_job(entrypoint="sleep 1000", submission_id="long")
    wait_until(lambda: client.get_job_status("long") == "RUNNING")
    with pytest.raises(RuntimeError):
        client.delete_job("long")
    assert client.stop_job("long") is True
    info = _end_of(jobs, "long", "STOPPED")
    assert info.error_type is None
    assert client.stop_job("long") is False
    assert client.delete_job("long") is True
    with pytest.raises(RuntimeError, match="long"):
        client.get_job_info("long")


def test_an_id_is_unique(jobs):
    with pytest.raises(RuntimeError, match="plain"):
        jobs.client.submit_job(entrypoint="true", submission_id="plain")


def test_jobs_that_are_not_there(jobs):
    ask = jobs.client
    for method in (ask.get_job_info, ask.get_job_status, ask.get_job_logs, ask.stop_job):
        with pytest.raises(RuntimeError, match="no-such-job"):
            method("no-such-job")
    with pytest.raises(RuntimeError, match="no-such-job"):
        ask.delete_job("no-such-job")


def test_a_driver_that_was_not_submitted(jobs):
    (driver,) = [each for each in jobs.client.list_jobs() if each.type is jobs.JobType.DRIVER]
    assert (driver.status, driver.submission_id) == ("RUNNING", None)
    assert jobs.client.get_job_info(driver.job_id).job_id == driver.job_id
    for method in (jobs.client.stop_job, jobs.client.delete_job, jobs.client.get_job_logs):
        with pytest.raises(RuntimeError):
            method(driver.job_id)


@pytest.mark.parametrize(
    "wrong",
    [
        {"entrypoint": 5},
        {"submission_id": 5},
        {"metadata": {"a": 1}},
        {"entrypoint_num_cpus": "many"},
        {"entrypoint_memory": 0.5},
        {"entrypoint_resources": {"special": "one"}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_fields_with_values_that_are_not_valid(jobs, wrong):
    with pytest.raises(TypeError):
        jobs.client.submit_job(**{"entrypoint": "true", **wrong})


def test_the_version_of_the_requests(jobs):
    assert jobs.client.get_version() == "4"
    assert jobs.client.get_address().partition("?")[0]


def test_a_client_of_no_cluster(jobs):
    with pytest.raises(ConnectionError):
        jobs.JobSubmissionClient(f"http://127.0.0.1:{_free_port()}")


@pytest.mark.parametrize("name", ["address", "metadata", "headers", "cookies", "verify"])
def test_arguments_of_a_client_with_wrong_types(jobs, name):
    with pytest.raises(TypeError, match=name):
        jobs.JobSubmissionClient(**{"address": "auto", name: 5})


def test_records_of_jobs(jobs):
    info = jobs.JobInfo(status="RUNNING", entrypoint="true", runtime_env={"env_vars": {"A": "1"}})
    assert info.status is jobs.JobStatus.RUNNING
    fields = info.to_json()
    assert fields["runtime_env_json"] == '{"env_vars": {"A": "1"}}'
    assert jobs.JobInfo.from_json(fields) == info
    assert [each.value for each in jobs.JobStatus if each.is_terminal()] == [
        "STOPPED",
        "SUCCEEDED",
        "FAILED",
    ]
