"""A record harms nobody: the scheduler goes on without it, and it has no values."""

from __future__ import annotations

import asyncio
import logging

import msgpack
import pytest

from raycompat._dask.recording import Recorder, begin
from raycompat._messages import unrecorded
from raycompat._messages.actors import ReserveActor
from raycompat._messages.calls import Result
from raycompat._messages.jobs import EndSubmission
from raycompat._protocol import failures


@pytest.fixture
def recorder(tmp_path):
    recorder = Recorder(str(tmp_path / "records"), unrecorded.KINDS)
    yield recorder
    asyncio.run(recorder.close())


def handle(recorder, *messages):
    """Let handlers that are recorded handle messages; return what they were given."""
    seen = []
    handlers = recorder.recorded(
        "message", {each.op: lambda **fields: seen.append(fields) for each in messages}
    )

    async def body():
        for message in messages:
            fields = message.to_wire()
            handlers[fields.pop("op")](**fields)

    asyncio.run(body())
    return seen


def test_messages_are_handled_when_the_record_cannot_be_written(recorder, monkeypatch, caplog):
    class Full:
        def write(self, data):
            raise OSError(28, "No space left on device")

        def close(self):
            pass

    recorder._file.close()
    monkeypatch.setattr(recorder, "_file", Full())
    message = EndSubmission("job-1")
    assert len(handle(recorder, message, message)) == 2
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert [each.getMessage() for each in errors] == [
        f"The record {recorder.path} ends here: [Errno 28] No space left on device"
    ]


def test_messages_are_handled_after_the_end_of_the_record(recorder):
    asyncio.run(recorder.close())
    assert len(handle(recorder, EndSubmission("job-1"))) == 1


def test_nothing_is_recorded_in_a_folder_that_cannot_be_made(tmp_path, monkeypatch, caplog):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("RAYCOMPAT_RECORD", str(file / "records"))
    assert begin(None, ()) is None
    assert "Nothing is recorded in" in caplog.text


def test_a_record_has_names_and_no_values_and_only_its_user_reads_it(recorder):
    actor = {"name": "one", "namespace": "mine", "about": b"secret", "class_name": "Counter"}
    error = failures.crashed("f", "secret")
    handle(
        recorder,
        EndSubmission("job-1", exit_code=3, tail="secret", error="secret"),
        Result("f-1", "owner", 17, values=[("inline", b"secret", ())], error=error),
        ReserveActor("client", "A-1", "01", actor),
    )
    written = recorder.path.read_bytes()
    assert b"secret" not in written
    _, *events = msgpack.unpackb(b"\xdc\x00\x04" + written, raw=False)
    assert events[0]["fields"]["exit_code"] == 3
    assert failures.text_of(events[1]["fields"]["error"]).endswith("(left out)")
    assert events[2]["fields"]["actor"] == {**actor, "about": b""}
    assert recorder.path.stat().st_mode & 0o777 == 0o600
