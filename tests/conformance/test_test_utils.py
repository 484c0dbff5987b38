"""What programs' own tests import from Ray."""

from __future__ import annotations

import asyncio
import importlib
import socket
import subprocess

import pytest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(params=["_common", "_private"])
def utils(request, ray, cluster):
    if request.param == "_private":
        module = importlib.import_module(f"{ray.__name__}._private.test_utils")
        if not hasattr(module, "SignalActor"):
            pytest.skip("this Ray has them in _common only")
        return module
    return importlib.import_module(f"{ray.__name__}.{request.param}.test_utils")


def test_a_signal_lets_those_go_who_wait(ray, utils):
    signal = utils.SignalActor.remote()
    waiting = [signal.wait.remote() for _ in range(2)]
    utils.wait_for_condition(lambda: ray.get(signal.cur_num_waiters.remote()) == 2)
    assert ray.wait(waiting, timeout=0)[0] == []
    ray.get(signal.send.remote())
    assert ray.get(waiting) == [None, None]
    assert ray.get(signal.wait.remote()) is None


def test_a_signal_that_is_cleared(ray, utils):
    signal = utils.SignalActor.remote()
    ray.get(signal.send.remote(clear=True))
    later = signal.wait.remote()
    assert ray.wait([later], timeout=0.1)[0] == []
    ray.get(signal.send.remote())
    ray.get(later)


def test_a_semaphore(ray, utils):
    semaphore = utils.Semaphore.remote(value=1)
    ray.get(semaphore.acquire.remote())
    assert ray.get(semaphore.locked.remote())
    second = semaphore.acquire.remote()
    assert ray.wait([second], timeout=0.1)[0] == []
    ray.get(semaphore.release.remote())
    ray.get(second)


def test_waiting_for_a_condition(utils):
    calls = []
    utils.wait_for_condition(lambda: calls.append(1) or len(calls) > 2, retry_interval_ms=1)
    assert len(calls) == 3


def test_a_condition_that_is_not_met(utils):
    with pytest.raises(RuntimeError, match="wasn't met"):
        utils.wait_for_condition(lambda: False, timeout=0.05, retry_interval_ms=10)


def test_a_condition_gets_arguments(utils):
    utils.wait_for_condition(lambda a: a == 1, a=1)


def test_a_condition_that_raises_counts_as_false(utils):
    calls = []

    def condition():
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("not yet")
        return True

    utils.wait_for_condition(condition, retry_interval_ms=1)
    with pytest.raises(ZeroDivisionError):
        utils.wait_for_condition(lambda: 1 // 0, raise_exceptions=True)


def test_waiting_in_an_event_loop(ray, cluster):
    utils = importlib.import_module(f"{ray.__name__}._common.test_utils")
    calls = []

    async def condition():
        calls.append(1)
        return len(calls) > 1

    asyncio.run(utils.async_wait_for_condition(condition, retry_interval_ms=1))
    assert len(calls) == 2


def test_a_program_in_a_process_of_its_own(utils):
    assert utils.run_string_as_driver("print('hello')") == "hello\n"
    with pytest.raises(subprocess.CalledProcessError):
        utils.run_string_as_driver("raise SystemExit(3)")


def test_a_free_port_can_be_used(ray):
    utils = importlib.import_module(f"{ray.__name__}._common.network_utils")
    with socket.create_server(("127.0.0.1", utils.find_free_port())):
        pass


def test_cloudpickle(ray):
    pickle = ray.cloudpickle
    assert pickle.loads(pickle.dumps(lambda x: x + 1))(1) == 2
    assert issubclass(pickle.CloudPickler, object)
    assert importlib.import_module(f"{ray.__name__}.cloudpickle") is pickle
    assert pickle.loads(pickle.dumps_debug({"a": 1})) == {"a": 1}
