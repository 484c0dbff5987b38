"""Submitted jobs: the check of their fields, and what the scheduler does when something fails."""

import asyncio
import threading

import pytest
from _plugin_parts import RecordedDask

from raycompat._cli import job as command_line
from raycompat._job_submission.client import JobSubmissionClient
from raycompat._protocol import submission
from raycompat._scheduler import submissions
from raycompat._scheduler.actor_directory import ActorRow
from raycompat._scheduler.parts import Parts


@pytest.mark.parametrize(
    "wrong",
    [
        {"submission_id": "é" * 100},
        {"submission_id": "x" * 201},
        {"runtime_env": {"env_vars": 5}},
        {"runtime_env": {"env_vars": {"A": 1}}},
        {"runtime_env": {"py_modules": "folder"}},
    ],
    ids=str,
)
def test_fields_with_a_wrong_value(wrong):
    (name,) = wrong
    with pytest.raises(TypeError, match=f"{name}=.*expected"):
        submission.checked({"entrypoint": "true", **wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"entrypoint": "echo x\udce9"},
        {"metadata": {"owner": "x\udce9"}},
        {"metadata": {"__Set__": "a key of Dask"}},
        {"runtime_env": {"pip": ["x\udce9"]}},
        {"runtime_env": {"config": {"setup_timeout_seconds": 2**64}}},
    ],
    ids=ascii,
)
def test_fields_that_messages_cannot_hold(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        submission.checked({"entrypoint": "true", **wrong})


def test_ids_that_files_can_have():
    for name in ("x" * 200, "é" * 40):
        assert (
            submission.checked({"entrypoint": "true", "submission_id": name}).submission_id == name
        )
        assert len(submission.log_name(name)) <= 255


@pytest.mark.parametrize("limit_s", [0, 60])
def test_a_failure_of_what_sends_jobs_is_that_of_the_jobs(monkeypatch, limit_s):
    monkeypatch.setattr(submissions, "_SENDING_S", limit_s)
    jobs = Parts(RecordedDask([])).submissions

    async def send(given):
        if not limit_s:
            await asyncio.Event().wait()
        return {}["errors"]

    jobs._send_by_process = send
    errors = asyncio.run(jobs._errors_of([{"submission_id": "a"}, {"submission_id": "b"}]))
    assert {*errors} == {"a", "b"}
    assert ("KeyError" if limit_s else "0 s") in errors["a"]


@pytest.mark.parametrize(("is_stop_wanted", "status"), [(True, "STOPPED"), (False, "FAILED")])
def test_a_job_whose_actor_ends(is_stop_wanted, status):
    parts = Parts(RecordedDask([]))
    jobs = parts.submissions

    def noted():
        return [each["message"] for each in parts.ground.events.rows]

    added = submissions.Submission(submission.checked({"entrypoint": "true"}))
    jobs.by_id[added.id] = added
    name = submission.actor_name(added.id)
    row = ActorRow("raycompat-1", "01", name=name, namespace=submission.NAMESPACE)
    jobs.actor_ended(row, b"")  # of a former job with this id
    assert added.status == "PENDING"
    added.is_sent = True
    assert asyncio.run(jobs.begin(added.id, "node")) is not None
    started = f"The submitted job {added.id} has started."
    assert (added.status, noted()) == ("RUNNING", [started])
    if is_stop_wanted:
        assert jobs.stop(added)
    jobs.actor_ended(row, submissions.failures.actor_exited("some"))
    assert added.status == status
    assert noted() == [started, f"The submitted job {added.id} has ended with the status {status}."]


def test_the_command_line_follows_output_in_its_main_thread(capsys):
    """There Ctrl-C ends a request for more. Another thread would be waited for."""
    answers = [
        {"logs": "first\n", "position": 6, "is_complete": False},
        {"logs": "last\n", "position": 11, "is_complete": True},
    ]
    threads = []

    def ask(method, path, query):
        threads.append(threading.current_thread())
        return answers.pop(0)

    client = JobSubmissionClient.__new__(JobSubmissionClient)
    client._ask = ask
    command_line._follow(client, "some")
    assert capsys.readouterr().out == "first\nlast\n"
    assert threads == [threading.main_thread()] * 2
