"""Ids as objects: bytes of a length for each kind."""

from __future__ import annotations

import pickle

import pytest

KINDS = {
    "JobID": 4,
    "ActorID": 16,
    "TaskID": 24,
    "PlacementGroupID": 18,
    "NodeID": 28,
    "WorkerID": 28,
    "UniqueID": 28,
    "FunctionID": 28,
    "ActorClassID": 28,
    "ObjectRef": 28,
}
RANDOM = [kind for kind in KINDS if kind not in ("JobID", "TaskID")]


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_is_made_of_bytes(ray, kind):
    cls, given = getattr(ray, kind), bytes(range(KINDS[kind]))
    one = cls(given)
    assert one.binary() == given
    assert one.hex() == given.hex()
    assert repr(one) == str(one) == f"{kind}({given.hex()})"


@pytest.mark.parametrize("kind", KINDS)
def test_ids_of_the_same_bytes_are_equal(ray, kind):
    cls, given = getattr(ray, kind), bytes(range(KINDS[kind]))
    assert cls(given) == cls(given)
    assert hash(cls(given)) == hash(cls(given))
    assert cls(given) != cls(bytes(KINDS[kind]))
    assert cls(given) != given.hex()


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_an_id(ray, kind):
    assert getattr(ray, kind).size() == KINDS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_id_of_nothing(ray, kind):
    cls = getattr(ray, kind)
    assert cls.nil().is_nil()
    assert cls.nil() == cls.nil()
    assert cls.nil().hex() == "ff" * KINDS[kind]
    assert not cls(bytes(KINDS[kind])).is_nil()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("UniqueID", "ObjectRef")])
def test_an_id_is_made_of_digits(ray, kind):
    digits = bytes(range(KINDS[kind])).hex()
    assert getattr(ray, kind).from_hex(digits).hex() == digits


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_is_made_of_binary(ray, kind):
    given = bytes(range(KINDS[kind]))
    assert getattr(ray, kind).from_binary(given).binary() == given


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_of_another_length_are_refused(ray, kind):
    with pytest.raises(ValueError, match="needs to have length"):
        getattr(ray, kind)(b"1")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_bytes_is_refused(ray, kind):
    with pytest.raises(TypeError, match="bytes"):
        getattr(ray, kind)("a")


@pytest.mark.parametrize("kind", RANDOM)
def test_random_ids_differ(ray, kind):
    cls = getattr(ray, kind)
    assert cls.from_random() != cls.from_random()
    assert not cls.from_random().is_nil()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ObjectRef"])
def test_ids_are_pickled(ray, kind):
    one = getattr(ray, kind)(bytes(range(KINDS[kind])))
    assert pickle.loads(pickle.dumps(one)) == one


def test_numbers_of_jobs(ray):
    assert ray.JobID.from_int(3).hex() == "03000000"
    assert ray.JobID.from_int(3).int() == 3


def test_the_ids_of_a_running_call_are_ids(cluster, ray):
    context = ray.get_runtime_context()
    assert ray.JobID.from_hex(context.get_job_id()).hex() == context.get_job_id()
    assert ray.NodeID.from_hex(context.get_node_id()).hex() == context.get_node_id()


def test_a_reference_made_of_its_id_is_the_reference(cluster, ray):
    ref = ray.put("a")
    again = ray.ObjectRef(ref.binary())
    assert again == ref
    assert ray.get(again) == "a"


def test_the_ids_of_a_reference(cluster, ray):
    ref = ray.put("a")
    assert isinstance(ref.task_id(), ray.TaskID)
    assert isinstance(ref.job_id(), ray.JobID)
    assert ref.job_id().hex() == ray.get_runtime_context().get_job_id()
