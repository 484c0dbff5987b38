"""A message that cannot be written or read: its call fails and says so, and the next call answers."""

from __future__ import annotations

import sys
import types

import cloudpickle
import pytest

import raycompat as ray
from raycompat._caller.calls import Call
from raycompat.util import dask

#: Seconds; nothing here waits long.
TIMEOUT_S = 30


@pytest.fixture(autouse=True, scope="module")
def sent_by_value():
    """Nodes and executors do not import this module."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


class Opaque:
    """An object of a class that no message may have."""


def _foreign():
    """Return an object whose class is in a module that only this process has."""
    module = sys.modules.setdefault("of_one_process", types.ModuleType("of_one_process"))
    module.Foreign = type("Foreign", (), {"__module__": "of_one_process"})
    return module.Foreign()


def _let_pass():
    """Let this process write messages with any object, as a process with a fault would."""
    import pickle

    from raycompat._protocol import frames

    frames._StrictPickler.reducer_override = lambda self, obj: NotImplemented
    frames.Encoder.encode = lambda self, content: (
        frames._LENGTH.pack(len(data := pickle.dumps(content, protocol=5))) + data
    )


@pytest.fixture(params=["unix", "node", "scheduler"])
def connection(request, monkeypatch):
    """Each kind of connection between a caller and an executor or actor."""
    monkeypatch.setenv("RAYCOMPAT_CONNECTIONS", request.param)
    return request.param


@pytest.fixture
def kind(cluster, session, connection):
    """Return a function that calls a function or method with this name, by this connection."""

    class Echo:
        def same(self, value):
            return value

    def make(what):
        if what == "lease":
            session.return_leases()  # the next one has this connection
            return ray.remote(lambda value: value)
        return ray.remote(num_cpus=0)(Echo).remote().same

    return make


def _spoil(monkeypatch, value):
    """Put a value into the message of the next call."""
    message = Call.message

    def spoilt(call):
        monkeypatch.setattr(Call, "message", message)
        kind, key, function, name, *rest = message(call)
        return (kind, key, function, name, value, *rest[1:])

    monkeypatch.setattr(Call, "message", spoilt)


@pytest.mark.parametrize("what", ["lease", "actor"])
def test_a_call_that_cannot_be_written_fails_alone(what, kind, monkeypatch):
    call = kind(what)
    assert ray.get(call.remote(1), timeout=TIMEOUT_S) == 1
    _spoil(monkeypatch, Opaque())
    with pytest.raises(ray.exceptions.RaySystemError, match="could not be written.*Opaque"):
        ray.get(call.remote(2), timeout=TIMEOUT_S)
    assert ray.get([call.remote(each) for each in (3, 4)], timeout=TIMEOUT_S) == [3, 4]


def test_calls_in_one_frame_with_one_that_cannot_be_written_answer(cluster, monkeypatch):
    actor = ray.remote(num_cpus=0)(type("Echo", (), {"same": lambda self, value: value})).remote()
    assert ray.get(actor.same.remote(0), timeout=TIMEOUT_S) == 0
    first = actor.same.remote(1)
    _spoil(monkeypatch, Opaque())
    refs = [actor.same.remote(each) for each in range(2, 20)]
    with pytest.raises(ray.exceptions.RaySystemError, match="Opaque"):
        ray.get(refs[0], timeout=TIMEOUT_S)
    assert ray.get([first, *refs[1:]], timeout=TIMEOUT_S) == [1, *range(3, 20)]


@pytest.mark.parametrize("what", ["lease", "actor"])
def test_a_call_that_cannot_be_read_fails_alone(what, kind, monkeypatch):
    call = kind(what)
    assert ray.get(call.remote(1), timeout=TIMEOUT_S) == 1
    from raycompat._protocol import frames

    with monkeypatch.context() as patch:
        patch.setattr(frames.Encoder, "encode", frames.Encoder.encode)
        patch.setattr(
            frames._StrictPickler, "reducer_override", frames._StrictPickler.reducer_override
        )
        _let_pass()
        _spoil(monkeypatch, _foreign())
        ref = call.remote(2)
        with pytest.raises(
            ray.exceptions.RaySystemError, match="could not be read.*of_one_process"
        ):
            ray.get(ref, timeout=TIMEOUT_S)
    assert ray.get([call.remote(each) for each in (3, 4)], timeout=TIMEOUT_S) == [3, 4]


def _spoil_answer(value, *, strict):
    """Put a value into the next answer of this process, an executor."""
    from raycompat._executor.run_call import Outcome

    if not strict:
        _let_pass()
    init = Outcome.__init__

    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if self.values is not None:
            Outcome.__init__ = init
            self.values = _Spoilt([("inline", value, ())])

    Outcome.__init__ = __init__


class _Spoilt(list):
    """Results that begin with an object that is not one."""

    def append(self, _):
        """Drop the real results."""


@pytest.mark.parametrize("is_strict", [True, False], ids=["unwritable", "unreadable"])
@pytest.mark.parametrize("what", ["lease", "actor", "task"])
def test_an_answer_that_cannot_be_written_or_read_fails_alone(what, is_strict, cluster, connection):
    if what != "lease" and connection == "scheduler" and not is_strict:
        pytest.skip("one of each is enough")
    strict = is_strict

    class Echo:
        def same(self, value):
            if value == 2:
                _spoil_answer(Opaque() if strict else _foreign(), strict=strict)
            return value

    options = (
        {"max_retries": 0, "scheduling_strategy": "SPREAD"}
        if what == "task"
        else {"max_retries": 0}
    )
    if what == "actor":
        call = ray.remote(num_cpus=0)(Echo).remote().same
    else:
        call = ray.remote(**options)(lambda value: Echo().same(value))
    assert ray.get(call.remote(1), timeout=TIMEOUT_S) == 1
    with pytest.raises(ray.exceptions.RaySystemError, match="could not be (written|read)"):
        ray.get(call.remote(2), timeout=TIMEOUT_S)
    assert ray.get([call.remote(each) for each in (3, 4)], timeout=TIMEOUT_S) == [3, 4]


@pytest.mark.parametrize("what", ["task", "actor"])
def test_a_message_to_the_scheduler_that_cannot_be_written_fails_its_call(
    what, cluster, monkeypatch
):
    function = ray.remote(lambda value: value).options(scheduling_strategy="SPREAD")
    actor_class = ray.remote(num_cpus=0)(type("Echo", (), {"same": lambda self, value: value}))

    def call(value):
        if what == "task":
            return function.remote(value)
        return actor_class.remote().same.remote(value)

    spec, spoilt = Call.spec, []

    def spoil(self, *args, **kwargs):
        found = spec(self, *args, **kwargs)
        if self.key not in spoilt and len(spoilt) < 1:
            spoilt.append(self.key)
            found["strategy"] = Opaque()
        return found

    monkeypatch.setattr(Call, "spec", spoil)
    refs = [call(each) for each in range(3)]
    with pytest.raises((ray.exceptions.RaySystemError, ray.exceptions.ActorDiedError)) as failed:
        ray.get(refs[0], timeout=TIMEOUT_S)
    assert "Opaque" in str(failed.value)
    assert ray.get(refs[1:], timeout=TIMEOUT_S) == [1, 2]


@pytest.mark.parametrize("is_strict", [True, False], ids=["unwritable", "unreadable"])
def test_a_call_that_a_node_cannot_pass_on_fails_alone(is_strict, cluster):
    def spoil(dask_worker, *, strict):
        from raycompat._node.granted_calls import GrantedCalls

        if not strict:
            _let_pass()
        run = GrantedCalls.run

        async def spoilt(self, executor, running, payload, wires):
            if running.grant["name"] != "bad":
                return await run(self, executor, running, payload, wires)
            value = Opaque() if strict else _foreign()
            return await run(self, executor, running, payload, [("inline", value, ())])

        GrantedCalls.run = spoilt

    dask.client().run(spoil, strict=is_strict)
    call = ray.remote(scheduling_strategy="SPREAD", max_retries=0)(lambda value: value)
    with pytest.raises(ray.exceptions.RaySystemError, match="could not be (written|read)"):
        ray.get(call.options(name="bad").remote(2), timeout=TIMEOUT_S)
    assert ray.get([call.remote(each) for each in (3, 4)], timeout=TIMEOUT_S) == [3, 4]
