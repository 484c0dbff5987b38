"""Actors that die and are made again: `max_restarts`, `max_task_retries`, and the error of each case."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from _polling import is_running, wait_until

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def Mortal(ray, cluster):
    """An actor class that leaves a line in `<folder>/log` for every call that runs.

    Its constructor leaves a file `made.<pid>`; with a `gate`, every constructor but the first waits
    until that file is there.
    """

    @ray.remote(num_cpus=0)
    class Mortal:
        def __init__(self, folder, start=0, gate=None):
            self.folder = str(folder)
            self.number = start
            self._leave(f"made.{os.getpid()}")
            if gate is not None and ray.get_runtime_context().was_current_actor_reconstructed:
                self._wait(str(gate))

        def _leave(self, name):
            open(os.path.join(self.folder, name), "w").close()

        def _wait(self, path):
            while not os.path.exists(path):
                time.sleep(0.005)

        def _log(self, line):
            with open(os.path.join(self.folder, "log"), "a") as log:
                log.write(f"{line}\n")

        def pid(self):
            return os.getpid()

        def add(self, number=1):
            self.number += number
            return self.number

        def log(self, line):
            self._log(line)
            return line

        def hold(self):
            """Last until the file `go` is there; give the process id."""
            self._log("hold")
            self._leave(f"held.{os.getpid()}")
            self._wait(os.path.join(self.folder, "go"))
            return os.getpid()

        def hold_two(self):
            return self.hold(), "second"

        def hold_with(self, array):
            self.hold()
            return array.sum()

        def die(self):
            self._log("die")
            os._exit(1)

        def leave(self):
            self._log("leave")
            ray.actor.exit_actor()

        def reconstructed(self):
            return ray.get_runtime_context().was_current_actor_reconstructed

        def resources(self):
            return ray.get_runtime_context().get_assigned_resources()

        def count(self, number):
            """Yield so many; before the last one, last until the file `go` is there."""
            self._log("count")
            for index in range(number):
                if index == number - 1:
                    self._leave(f"held.{os.getpid()}")
                    self._wait(os.path.join(self.folder, "go"))
                yield index, os.getpid()

    return Mortal


@pytest.fixture
def Flaky(ray, cluster):
    """An actor class whose call raises until it was made so many times."""

    @ray.remote(num_cpus=0)
    class Flaky:
        def __init__(self):
            self.calls = 0

        def succeed_at(self, call, when_there_is=None):
            while when_there_is is not None and not os.path.exists(when_there_is):
                time.sleep(0.005)
            self.calls += 1
            if self.calls < call:
                raise KeyError(self.calls)
            return self.calls, os.getpid()

        @ray.method(max_task_retries=2, retry_exceptions=True)
        def succeed_by_decorator_at(self, call):
            return self.succeed_at(call)

        def seen(self):
            return self.calls, os.getpid()

    return Flaky


@pytest.fixture
def slay(ray):
    """`slay(actor)` kills the actor's process and returns when it has ended; gives its id."""

    def kill(actor):
        pid = ray.get(actor.pid.remote())
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))
        return pid

    return kill


@pytest.fixture
def revived(ray):
    """`revived(actor, pid)` calls until another process than that one answers; gives its id."""

    def wait(actor, before):
        pids = [before]

        def answers():
            try:
                pids.append(ray.get(actor.pid.remote()))
            except ray.exceptions.ActorUnavailableError:
                return False
            return pids[-1] != before

        wait_until(answers)
        return pids[-1]

    return wait


def pids(folder, kind):
    """Return the process ids that have left a file of that kind."""
    return [int(path.suffix[1:]) for path in folder.glob(f"{kind}.*")]


def slay_while_held(folder):
    """Wait for the one call that is held, and kill its process."""
    wait_until(lambda: pids(folder, "held"))
    (pid,) = pids(folder, "held")
    os.kill(pid, signal.SIGKILL)
    return pid


def go(folder):
    """Let all calls that are held end."""
    (folder / "go").touch()


def lines(folder):
    """Return what the calls have logged."""
    return (folder / "log").read_text().split()


# Restarts


def test_an_actor_is_not_restarted_by_default(ray, Mortal, slay, tmp_path):
    mortal = Mortal.remote(tmp_path)
    slay(mortal)
    for _ in range(2):
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(mortal.add.remote())
    assert len(pids(tmp_path, "made")) == 1


def test_a_restarted_actor_answers_from_another_process_with_fresh_state(
    ray, Mortal, slay, revived, tmp_path
):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    assert ray.get(mortal.add.remote()) == 1
    before = slay(mortal)
    assert revived(mortal, before) != before
    assert ray.get(mortal.add.remote()) == 1


def test_the_decorator_takes_max_restarts_too(ray, slay, revived):
    @ray.remote(num_cpus=0, max_restarts=1)
    class Restarted:
        def pid(self):
            return os.getpid()

    restarted = Restarted.remote()
    before = slay(restarted)
    assert revived(restarted, before) != before


def test_a_process_that_ends_itself_in_a_method_is_restarted(ray, Mortal, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    before = ray.get(mortal.pid.remote())
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(mortal.die.remote())
    assert revived(mortal, before) != before
    assert lines(tmp_path) == ["die"]


def test_the_constructor_gets_its_arguments_again(ray, Mortal, slay, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path, start=40)
    revived(mortal, slay(mortal))
    assert ray.get(mortal.add.remote(2)) == 42


def test_the_constructor_gets_the_values_of_references_again(ray, slay, revived):
    @ray.remote
    def make():
        return 5

    @ray.remote(num_cpus=0, max_restarts=1)
    class Holder:
        def __init__(self, array, number):
            self.total = array.sum() + number

        def show(self):
            return self.total

        def pid(self):
            return os.getpid()

    array, number = ray.put(np.ones(1_000_000)), make.remote()
    holder = Holder.remote(array, number)
    revived(holder, slay(holder))
    assert ray.get(holder.show.remote()) == 1_000_005


def test_an_actor_can_tell_that_it_was_restarted(ray, Mortal, slay, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    assert ray.get(mortal.reconstructed.remote()) is False
    revived(mortal, slay(mortal))
    assert ray.get(mortal.reconstructed.remote()) is True


def test_a_restarted_actor_holds_its_resources_again(ray, Mortal, slay, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1, resources={"custom": 2}).remote(tmp_path)
    revived(mortal, slay(mortal))
    assert ray.get(mortal.resources.remote())["custom"] == 2
    assert ray.available_resources().get("custom", 0) == 0


def test_an_actor_without_restarts_left_is_dead(ray, Mortal, slay, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    revived(mortal, slay(mortal))
    slay(mortal)
    for _ in range(2):
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(mortal.add.remote())
    assert len(pids(tmp_path, "made")) == 2


def test_minus_one_restarts_without_end(ray, Mortal, slay, revived, tmp_path):
    mortal = Mortal.options(max_restarts=-1).remote(tmp_path)
    for _ in range(3):
        revived(mortal, slay(mortal))
    assert len(pids(tmp_path, "made")) == 4


def test_calls_after_a_restart_run_in_their_order(ray, Mortal, slay, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    revived(mortal, slay(mortal))
    assert ray.get([mortal.add.remote() for _ in range(20)]) == list(range(1, 21))


def test_other_processes_reach_a_restarted_actor(ray, Mortal, slay, revived, tmp_path):
    @ray.remote(num_cpus=0)
    class Caller:
        def __init__(self, mortal):
            self.mortal = mortal

        def call(self):
            try:
                return ray.get(self.mortal.pid.remote())
            except ray.exceptions.ActorUnavailableError:
                return 0

    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    caller = Caller.remote(mortal)
    assert ray.get(caller.call.remote()) == ray.get(mortal.pid.remote())
    after = revived(mortal, slay(mortal))
    wait_until(lambda: ray.get(caller.call.remote()) == after)


def test_a_restarted_actor_is_found_by_its_name(ray, Mortal, slay, revived, tmp_path):
    mortal = Mortal.options(name="restarted", max_restarts=1).remote(tmp_path)
    after = revived(mortal, slay(mortal))
    assert ray.get(ray.get_actor("restarted").pid.remote()) == after


def test_the_end_of_the_last_handle_is_no_reason_for_a_restart(ray, Mortal, tmp_path):
    mortal = Mortal.options(name="unwanted", max_restarts=-1).remote(tmp_path)
    pid = ray.get(mortal.pid.remote())
    del mortal
    wait_until(lambda: not is_running(pid))

    def is_absent():
        try:
            ray.get_actor("unwanted")
        except ValueError:
            return True
        return False

    wait_until(is_absent)
    assert pids(tmp_path, "made") == [pid]


@pytest.mark.parametrize("option", ["max_restarts", "max_task_retries"])
def test_numbers_below_minus_one_are_a_value_error(ray, Mortal, option):
    with pytest.raises(ValueError, match=f"'{option}' only accepts None, 0, -1 or a positive"):
        Mortal.options(**{option: -2})


# The errors


def test_a_call_that_runs_when_its_actor_dies_is_an_actor_unavailable_error(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    held = mortal.hold.remote()
    slay_while_held(tmp_path)
    with pytest.raises(ray.exceptions.ActorUnavailableError) as caught:
        ray.get(held)
    error = caught.value
    assert isinstance(error, ray.exceptions.RayActorError)
    assert not isinstance(error, ray.exceptions.ActorDiedError)
    assert error.actor_id == mortal._actor_id.hex()
    assert error.actor_init_failed is False
    assert str(error).startswith(f"The actor {error.actor_id} is unavailable: ")


def test_a_call_that_runs_when_its_actor_dies_for_good_is_an_actor_died_error(
    ray, Mortal, tmp_path
):
    mortal = Mortal.remote(tmp_path)
    held, queued = mortal.hold.remote(), mortal.log.remote("queued")
    pid = slay_while_held(tmp_path)
    for ref in (held, queued):
        with pytest.raises(ray.exceptions.ActorDiedError) as caught:
            ray.get(ref)
        error = caught.value
        assert error.actor_id == mortal._actor_id.hex()
        assert error.actor_init_failed is False
        assert str(error).startswith("The actor died unexpectedly")
        for words in (
            "\tclass_name: ",
            f"\tactor_id: {error.actor_id}\n",
            f"\tpid: {pid}\n",
            "\tnamespace: ",
            "The actor is dead because its worker process has died.",
        ):
            assert words in str(error)
    assert lines(tmp_path) == ["hold"]


def test_calls_that_are_queued_when_their_actor_dies_fail_and_never_run(
    ray, Mortal, revived, tmp_path
):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    held = mortal.hold.remote()
    queued = [mortal.log.remote(number) for number in range(5)]
    before = slay_while_held(tmp_path)
    for ref in [held, *queued]:
        with pytest.raises(ray.exceptions.ActorUnavailableError):
            ray.get(ref)
    revived(mortal, before)
    assert ray.get(mortal.log.remote("after")) == "after"
    assert lines(tmp_path) == ["hold", "after"]


def test_all_results_of_a_lost_call_are_the_error(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    refs = mortal.hold_two.options(num_returns=2).remote()
    slay_while_held(tmp_path)
    for ref in refs:
        with pytest.raises(ray.exceptions.ActorUnavailableError):
            ray.get(ref)


def test_a_lost_call_is_ready_for_wait(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    held = mortal.hold.remote()
    slay_while_held(tmp_path)
    assert ray.wait([held], timeout=30) == ([held], [])


def test_a_task_given_the_result_of_a_lost_call_fails_with_its_error(ray, Mortal, tmp_path):
    @ray.remote
    def use(value):
        return value

    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    used = use.remote(mortal.hold.remote())
    slay_while_held(tmp_path)
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(used)


def test_results_of_before_the_death_can_still_be_got(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    done, held = mortal.add.remote(), mortal.hold.remote()
    ray.wait([done])
    slay_while_held(tmp_path)
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(held)
    assert ray.get(done) == 1


def test_calls_made_while_an_actor_restarts_fail_and_never_run(ray, Mortal, revived, tmp_path):
    gate = tmp_path / "gate"
    mortal = Mortal.options(max_restarts=1).remote(tmp_path, gate=gate)
    held = mortal.hold.remote()
    before = slay_while_held(tmp_path)
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(held)
    wait_until(lambda: len(pids(tmp_path, "made")) == 2)
    meanwhile = [mortal.log.remote(number) for number in range(3)]
    for ref in meanwhile:
        with pytest.raises(ray.exceptions.ActorUnavailableError, match="restarting"):
            ray.get(ref)
    gate.touch()
    revived(mortal, before)
    ray.get(mortal.log.remote("after"))
    assert lines(tmp_path) == ["hold", "after"]


# Errors of the constructor


@pytest.mark.parametrize("retries", [0, -1])
def test_an_error_in_the_constructor_at_a_restart_ends_the_actor(ray, slay, tmp_path, retries):
    @ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=retries)
    class Once:
        def __init__(self):
            (tmp_path / f"made.{os.getpid()}").touch()
            if ray.get_runtime_context().was_current_actor_reconstructed:
                raise OSError("not a second time")

        def pid(self):
            return os.getpid()

    once = Once.remote()
    slay(once)

    def error():
        with pytest.raises(ray.exceptions.RayActorError) as caught:
            ray.get(once.pid.remote())
        return caught.value

    wait_until(lambda: isinstance(error(), ray.exceptions.ActorDiedError))
    assert error().actor_init_failed is True
    assert "error raised in its creation task" in str(error())
    assert "OSError: not a second time" in str(error())
    assert len(pids(tmp_path, "made")) == 2


@pytest.fixture
def Doomed(ray, cluster, tmp_path):
    """An actor class whose process dies in the constructor, so many times."""

    @ray.remote(num_cpus=0)
    class Doomed:
        def __init__(self, deaths):
            (tmp_path / f"made.{os.getpid()}").touch()
            if len(list(tmp_path.glob("made.*"))) <= deaths:
                os._exit(1)

        def hello(self):
            return "hello"

    return Doomed


def test_a_constructor_whose_process_dies_runs_again(ray, Doomed, tmp_path):
    doomed = Doomed.options(max_restarts=2).remote(2)
    assert ray.get(doomed.hello.remote()) == "hello"
    assert len(pids(tmp_path, "made")) == 3


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_constructor_whose_process_dies_too_often_is_an_actor_died_error(
    ray, Doomed, tmp_path, restarts
):
    doomed = Doomed.options(max_restarts=restarts).remote(restarts + 1)
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get(doomed.hello.remote())
    assert caught.value.actor_init_failed is False
    assert "its worker process has died" in str(caught.value)
    assert len(pids(tmp_path, "made")) == restarts + 1


# Calls that run again


def test_a_call_with_retries_runs_again_in_the_restarted_actor(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=1).remote(tmp_path)
    held = mortal.hold.remote()
    before = slay_while_held(tmp_path)
    go(tmp_path)
    after = ray.get(held)
    assert after != before
    assert set(pids(tmp_path, "held")) == {before, after}


def test_queued_calls_with_retries_run_once_and_give_their_results(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=1).remote(tmp_path)
    held = mortal.hold.remote()
    queued = [mortal.log.remote(number) for number in range(5)]
    before = slay_while_held(tmp_path)
    go(tmp_path)
    assert ray.get(held) != before
    assert ray.get(queued) == [0, 1, 2, 3, 4]
    assert sorted(lines(tmp_path)) == ["0", "1", "2", "3", "4", "hold", "hold"]


def test_a_call_that_runs_again_gets_its_arguments_again(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=1).remote(tmp_path)
    held = mortal.hold_with.remote(ray.put(np.ones(1_000_000)))
    slay_while_held(tmp_path)
    go(tmp_path)
    assert ray.get(held) == 1_000_000


def test_calls_that_have_ended_do_not_run_again(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=-1).remote(tmp_path)
    ray.get([mortal.log.remote(number) for number in range(3)])
    held = mortal.hold.remote()
    slay_while_held(tmp_path)
    go(tmp_path)
    ray.get(held)
    assert lines(tmp_path) == ["0", "1", "2", "hold", "hold"]


def test_a_call_with_endless_retries_outlives_two_deaths(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=-1, max_task_retries=-1).remote(tmp_path)
    held = mortal.hold.remote()
    first = slay_while_held(tmp_path)
    wait_until(lambda: len(pids(tmp_path, "held")) == 2)
    (second,) = set(pids(tmp_path, "held")) - {first}
    os.kill(second, signal.SIGKILL)
    go(tmp_path)
    assert ray.get(held) not in (first, second)
    assert lines(tmp_path) == ["hold"] * 3


def test_a_call_without_retries_left_is_an_actor_unavailable_error(ray, Mortal, revived, tmp_path):
    mortal = Mortal.options(max_restarts=-1, max_task_retries=1).remote(tmp_path)
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(mortal.die.remote())
    assert lines(tmp_path) == ["die", "die"]
    assert ray.get(mortal.add.remote()) == 1


def test_a_call_with_retries_left_and_no_restarts_is_an_actor_died_error(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=-1).remote(tmp_path)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(mortal.die.remote())
    assert lines(tmp_path) == ["die", "die"]


def test_retries_without_restarts_change_nothing(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_task_retries=-1).remote(tmp_path)
    held, queued = mortal.hold.remote(), mortal.log.remote("queued")
    slay_while_held(tmp_path)
    for ref in (held, queued):
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ref)
    assert lines(tmp_path) == ["hold"]


def test_calls_with_retries_made_while_an_actor_restarts_wait_for_it(ray, Mortal, tmp_path):
    gate = tmp_path / "gate"
    mortal = Mortal.options(max_restarts=1, max_task_retries=1).remote(tmp_path, gate=gate)
    held = mortal.hold.remote()
    before = slay_while_held(tmp_path)
    wait_until(lambda: len(pids(tmp_path, "made")) == 2)
    meanwhile = [mortal.log.remote(number) for number in range(3)]
    assert ray.wait([held, *meanwhile], timeout=0.2)[0] == []
    go(tmp_path)
    gate.touch()
    assert ray.get(meanwhile) == [0, 1, 2]
    assert ray.get(held) != before
    assert sorted(lines(tmp_path)) == ["0", "1", "2", "hold", "hold"]


# Retries of single methods and calls


# One retry alone would not do: where the actor has none, a call that is sent while it restarts fails.
@pytest.mark.parametrize("of_actor", [0, -1])
@pytest.mark.parametrize("of_method", [0, -1])
@pytest.mark.parametrize("of_call", [None, 0, -1])
def test_the_retries_of_a_call_go_before_those_of_the_method_and_the_actor(
    ray, tmp_path, of_actor, of_method, of_call
):
    @ray.remote(num_cpus=0, max_restarts=1, max_task_retries=of_actor)
    class Held:
        @ray.method(max_task_retries=of_method)
        def hold(self):
            (tmp_path / f"held.{os.getpid()}").touch()
            while not (tmp_path / "go").exists():
                time.sleep(0.005)
            return "done"

    held = Held.remote()
    if of_call is None:
        ref = held.hold.remote()
    else:
        ref = held.hold.options(max_task_retries=of_call).remote()
    slay_while_held(tmp_path)
    go(tmp_path)
    if of_method if of_call is None else of_call:
        assert ray.get(ref) == "done"
        assert len(pids(tmp_path, "held")) == 2
    else:
        with pytest.raises(ray.exceptions.ActorUnavailableError):
            ray.get(ref)
        assert len(pids(tmp_path, "held")) == 1


@pytest.mark.parametrize("retried", [True, "list"])
def test_an_application_error_is_retried_in_the_same_process(ray, Flaky, retried):
    flaky = Flaky.options(max_task_retries=1).remote()
    _, pid = ray.get(flaky.seen.remote())
    classes = [OSError, KeyError] if retried == "list" else True
    ref = flaky.succeed_at.options(retry_exceptions=classes).remote(2)
    assert ray.get(ref) == (2, pid)


def test_an_application_error_is_retried_by_the_method_s_own_options(ray, Flaky):
    flaky = Flaky.remote()
    assert ray.get(flaky.succeed_by_decorator_at.remote(3))[0] == 3


def test_an_application_error_without_retries_left_is_raised(ray, Flaky):
    flaky = Flaky.remote()
    with pytest.raises(KeyError, match="3"):
        ray.get(flaky.succeed_by_decorator_at.remote(9))
    assert ray.get(flaky.seen.remote())[0] == 3


def test_a_later_call_does_not_wait_for_a_retry(ray, Flaky, tmp_path):
    flaky = Flaky.options(max_task_retries=1).remote()
    ray.get(flaky.seen.remote())
    both_are_sent = str(tmp_path / "go")
    retried = flaky.succeed_at.options(retry_exceptions=True).remote(2, both_are_sent)
    later = flaky.seen.remote()
    go(tmp_path)
    assert ray.get(later)[0] == 1
    assert ray.get(retried)[0] == 2


@pytest.mark.parametrize(
    ("retries", "retried"),
    [(1, None), (1, False), (1, [OSError]), (0, True)],
    ids=["not asked for", "not wanted", "another class", "no retries"],
)
def test_an_application_error_is_otherwise_not_retried(ray, Flaky, retries, retried):
    flaky = Flaky.options(max_task_retries=retries).remote()
    method = flaky.succeed_at
    if retried is not None:
        method = method.options(retry_exceptions=retried)
    with pytest.raises(KeyError):
        ray.get(method.remote(2))
    assert ray.get(flaky.seen.remote())[0] == 1


# Kill and exit


def test_kill_without_no_restart_restarts(ray, Mortal, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    before = ray.get(mortal.pid.remote())
    ray.get(mortal.add.remote())
    ray.kill(mortal, no_restart=False)
    revived(mortal, before)
    assert ray.get(mortal.add.remote()) == 1


def test_kill_without_no_restart_uses_the_retries_of_calls(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=1).remote(tmp_path)
    held = mortal.hold.remote()
    wait_until(lambda: pids(tmp_path, "held"))
    (before,) = pids(tmp_path, "held")
    ray.kill(mortal, no_restart=False)
    wait_until(lambda: not is_running(before))
    go(tmp_path)
    assert ray.get(held) != before


def test_kill_without_no_restart_ends_an_actor_that_has_no_restarts(ray, Mortal, tmp_path):
    mortal = Mortal.remote(tmp_path)
    pid = ray.get(mortal.pid.remote())
    ray.kill(mortal, no_restart=False)
    wait_until(lambda: not is_running(pid))
    with pytest.raises(ray.exceptions.ActorDiedError, match=r"killed by `ray\.kill`"):
        ray.get(mortal.pid.remote())


def test_kill_ends_an_actor_whatever_restarts_and_retries_it_has(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=-1, max_task_retries=-1).remote(tmp_path)
    held, queued = mortal.hold.remote(), mortal.log.remote("queued")
    wait_until(lambda: pids(tmp_path, "held"))
    ray.kill(mortal)
    for ref in (held, queued, mortal.log.remote("after")):
        with pytest.raises(ray.exceptions.ActorDiedError, match=r"killed by `ray\.kill`"):
            ray.get(ref)
    assert len(pids(tmp_path, "made")) == 1
    assert lines(tmp_path) == ["hold"]


def test_kill_ends_an_actor_that_restarts(ray, Mortal, slay, tmp_path):
    gate = tmp_path / "gate"
    mortal = Mortal.options(max_restarts=-1, max_task_retries=-1).remote(tmp_path, gate=gate)
    slay(mortal)
    wait_until(lambda: len(pids(tmp_path, "made")) == 2)
    waiting = mortal.log.remote("waiting")
    ray.kill(mortal)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(waiting)
    wait_until(lambda: not any(is_running(pid) for pid in pids(tmp_path, "made")))


@pytest.mark.parametrize("method", ["leave", "__ray_terminate__"])
def test_an_actor_that_leaves_is_never_restarted(ray, Mortal, tmp_path, method):
    mortal = Mortal.options(max_restarts=-1, max_task_retries=-1).remote(tmp_path)
    ray.get(mortal.add.remote())
    left, queued = getattr(mortal, method).remote(), mortal.log.remote("queued")
    for ref in (left, queued, mortal.log.remote("after")):
        with pytest.raises(ray.exceptions.ActorDiedError, match="exit_actor"):
            ray.get(ref)
    assert len(pids(tmp_path, "made")) == 1


def test_system_exit_in_a_method_is_a_death_that_restarts(ray, revived):
    @ray.remote(num_cpus=0, max_restarts=1)
    class Leaver:
        def leave(self):
            raise SystemExit(3)

        def pid(self):
            return os.getpid()

    leaver = Leaver.remote()
    before = ray.get(leaver.pid.remote())
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(leaver.leave.remote())
    revived(leaver, before)
    with pytest.raises(ray.exceptions.ActorDiedError, match="exit code 3"):
        ray.get(leaver.leave.remote())


# Asynchronous actors and generators


@pytest.fixture
def AsyncMortal(ray, cluster):
    """An asynchronous actor class whose calls last until the file `go` is there."""

    @ray.remote(num_cpus=0, max_restarts=1)
    class AsyncMortal:
        def __init__(self, folder):
            self.folder = str(folder)
            self.calls = 0

        async def hold(self, number):
            import asyncio

            open(os.path.join(self.folder, f"held{number}.{os.getpid()}"), "w").close()
            while not os.path.exists(os.path.join(self.folder, "go")):
                await asyncio.sleep(0.005)
            self.calls += 1
            return number

        async def pid(self):
            return os.getpid()

        async def seen(self):
            return self.calls

    return AsyncMortal


def test_all_running_calls_of_an_asynchronous_actor_fail_with_it(
    ray, AsyncMortal, slay, revived, tmp_path
):
    mortal = AsyncMortal.remote(tmp_path)
    held = [mortal.hold.remote(number) for number in range(3)]
    wait_until(lambda: len(list(tmp_path.glob("held*"))) == 3)
    before = slay(mortal)
    go(tmp_path)
    for ref in held:
        with pytest.raises(ray.exceptions.ActorUnavailableError):
            ray.get(ref)
    revived(mortal, before)
    assert ray.get(mortal.seen.remote()) == 0
    assert len(list(tmp_path.glob("held*"))) == 3


def test_all_running_calls_of_an_asynchronous_actor_run_again_with_retries(
    ray, AsyncMortal, slay, tmp_path
):
    mortal = AsyncMortal.options(max_task_retries=1).remote(tmp_path)
    held = [mortal.hold.remote(number) for number in range(3)]
    wait_until(lambda: len(list(tmp_path.glob("held*"))) == 3)
    slay(mortal)
    go(tmp_path)
    assert ray.get(held) == [0, 1, 2]
    assert len(list(tmp_path.glob("held*"))) == 6


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_generator_that_is_interrupted_ends_with_the_error(ray, Mortal, tmp_path, restarts):
    mortal = Mortal.options(max_restarts=restarts).remote(tmp_path)
    items = mortal.count.remote(3)
    got = [ray.get(next(items)) for _ in range(2)]
    pid = slay_while_held(tmp_path)
    assert got == [(0, pid), (1, pid)]
    error = ray.exceptions.ActorUnavailableError if restarts else ray.exceptions.ActorDiedError
    with pytest.raises(error):
        ray.get(next(items))
    with pytest.raises(StopIteration):
        next(items)
    assert lines(tmp_path) == ["count"]


def test_a_generator_with_retries_goes_on_after_a_restart(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=1).remote(tmp_path)
    items = mortal.count.remote(3)
    got = [ray.get(next(items)) for _ in range(2)]
    before = slay_while_held(tmp_path)
    go(tmp_path)
    (last,) = [ray.get(ref) for ref in items]
    assert got == [(0, before), (1, before)]
    assert last[0] == 2
    assert last[1] != before
    assert lines(tmp_path) == ["count", "count"]


# Many calls


def outcomes(ray, refs):
    """Return for each reference its value or the class of its error."""

    def outcome(ref):
        try:
            return ray.get(ref, timeout=30)
        except ray.exceptions.RayError as error:
            return type(error)

    return [outcome(ref) for ref in refs]


def test_no_call_of_many_without_retries_runs_twice(ray, Mortal, revived, tmp_path):
    mortal = Mortal.options(max_restarts=1).remote(tmp_path)
    early = [mortal.log.remote(number) for number in range(20)]
    held = mortal.hold.remote()
    late = [mortal.log.remote(number) for number in range(20, 200)]
    ray.get(early)
    before = slay_while_held(tmp_path)
    got = outcomes(ray, [*early, held, *late])
    assert got == [*range(20), *[ray.exceptions.ActorUnavailableError] * 181]
    revived(mortal, before)
    ray.get(mortal.log.remote("after"))
    assert lines(tmp_path) == [*map(str, range(20)), "hold", "after"]


def test_every_call_of_many_with_retries_gives_its_result(ray, Mortal, tmp_path):
    mortal = Mortal.options(max_restarts=1, max_task_retries=1).remote(tmp_path)
    early = [mortal.log.remote(number) for number in range(20)]
    held = mortal.hold.remote()
    late = [mortal.log.remote(number) for number in range(20, 200)]
    ray.get(early)
    before = slay_while_held(tmp_path)
    go(tmp_path)
    assert outcomes(ray, early + late) == list(range(200))
    assert ray.get(held) != before
    assert sorted(lines(tmp_path)) == sorted([*map(str, range(200)), "hold", "hold"])


def test_of_many_calls_of_a_dying_actor_every_one_ends(ray, Mortal, tmp_path):
    mortal = Mortal.remote(tmp_path)
    held = mortal.hold.remote()
    refs = [mortal.log.remote(number) for number in range(200)]
    slay_while_held(tmp_path)
    assert outcomes(ray, [held, *refs]) == [ray.exceptions.ActorDiedError] * 201
    assert lines(tmp_path) == ["hold"]
