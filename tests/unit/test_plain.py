"""Values of subclasses become built-in types where a program gives them, and where messages are written."""

from __future__ import annotations

import enum
import io
import pickle
import types
from collections import OrderedDict, namedtuple
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raycompat as ray
from raycompat._protocol import frames, text
from raycompat._protocol.actor_about import methods_of
from raycompat._protocol.options import actor_options, method_options, task_options
from raycompat._protocol.plain import plain
from raycompat._protocol.resource_set import LeaseKind, ResourceSet
from raycompat.util.metrics import Counter
from raycompat.util.scheduling_strategies import In, NodeLabelSchedulingStrategy


class Word(enum.StrEnum):
    """A name that is a member of an enumeration, as programs have them."""

    LOAD = "load"
    STORE = "store"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


class Text(str):
    """A text that does what it should not."""

    def __str__(self):
        raise AssertionError("a method of the program was called")

    __format__ = encode = replace = __str__


class Share(float):
    def __float__(self):
        raise AssertionError("a method of the program was called")


Pair = namedtuple("Pair", "first second")

words = st.sampled_from([*Word, Text("load"), np.str_("load")])
numbers = st.sampled_from([*Number, np.int64(1), np.int8(2), True, np.True_])
shares = st.sampled_from([Share(0.5), np.float64(0.5), np.float32(0.25), Share(1)])
scalars = st.one_of(
    words, numbers, shares, st.none(), st.binary(max_size=3), st.just(np.bytes_(b"b"))
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.builds(Pair, inner, inner),
        st.dictionaries(words, inner, max_size=2).map(OrderedDict),
    ),
    max_leaves=8,
)


def assert_plain(value: object) -> None:
    """Fail if any class must travel with a value."""
    frames._StrictPickler(io.BytesIO(), 5).dump(value)


@given(values)
def test_whatever_there_is_becomes_plain_and_stays_equal(value):
    converted = plain(value)
    assert_plain(converted)
    assert plain(converted) == converted
    if not isinstance(value, np.float32):
        assert converted == value or isinstance(value, tuple)


@given(values)
def test_a_frame_has_only_built_in_types(value):
    (batch,), _ = frames.split(frames.encode([("call", "key", value)]))
    assert_plain(batch)
    assert batch == [("call", "key", plain(value))]


@given(values)
def test_a_message_to_the_scheduler_has_only_what_dask_encodes(value):
    import msgpack

    message = text.encodable({"op": "submit", "value": value})
    msgpack.packb(message)


def test_other_objects_are_refused_by_the_name_of_their_class():
    with pytest.raises(TypeError, match=r"types\.SimpleNamespace"):
        plain([("call", types.SimpleNamespace())])
    with pytest.raises(TypeError, match=r"types\.SimpleNamespace"):
        text.encodable({"op": "submit", "value": types.SimpleNamespace()})


task_values = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "num_cpus": st.one_of(st.sampled_from(Number), st.just(Share(0.5)), st.just(np.float64(2))),
        "num_gpus": st.sampled_from(Number),
        "memory": st.sampled_from(Number),
        "resources": st.dictionaries(words, st.one_of(shares, st.sampled_from(Number)), max_size=2),
        "max_retries": st.sampled_from(Number),
        "num_returns": st.sampled_from(Number),
        "max_calls": st.sampled_from(Number),
        "label_selector": st.dictionaries(words, words, max_size=2),
        "runtime_env": st.just({"env_vars": OrderedDict({Word.LOAD: Text("a")})}),
        "scheduling_strategy": st.just(Text("SPREAD")),
        "placement_group_bundle_index": st.just(-1),
    },
)

actor_values = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "namespace": words,
        "lifetime": st.just(Text("detached")),
        "num_cpus": st.one_of(st.sampled_from(Number), st.just(Share(0.5))),
        "resources": st.dictionaries(words, shares, max_size=2),
        "max_restarts": st.sampled_from(Number),
        "max_task_retries": st.sampled_from(Number),
        "max_concurrency": st.sampled_from(Number),
        "max_pending_calls": st.sampled_from(Number),
        "concurrency_groups": st.dictionaries(words, st.sampled_from(Number), max_size=2),
    },
)

method_values = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "num_returns": st.sampled_from(Number),
        "concurrency_group": words,
        "max_task_retries": st.sampled_from(Number),
    },
)


def assert_fields_are_plain(options: object) -> None:
    for field in fields(options):
        value = getattr(options, field.name)
        if isinstance(value, LeaseKind):
            value = tuple(value)
        assert_plain(value.units() if isinstance(value, ResourceSet) else value)


@given(task_values, actor_values, method_values)
def test_options_are_kept_as_built_in_types(of_task, of_actor, of_method):
    assert_fields_are_plain(task_options(of_task))
    assert_fields_are_plain(actor_options(of_actor))
    in_decorator = {name: value for name, value in of_method.items() if name != "name"}
    assert_fields_are_plain(method_options(of_method, method_options(in_decorator)))


def test_the_names_of_functions_classes_and_methods_are_plain():
    def run():
        return None

    run.__name__ = Word.LOAD
    assert type(ray.remote(run)._name) is str
    cls = type("Cls", (), {Text("method"): lambda self: None})
    cls.__name__, cls.__qualname__ = Word.LOAD, Word.STORE
    actor_class = ray.remote(cls)
    assert (type(actor_class._name), type(actor_class._qualname)) == (str, str)
    for name, method in methods_of(cls).items():
        assert (type(name), type(method.name)) == (str, str)


def test_names_of_metrics_and_labels_are_plain():
    counter = Counter(Word.LOAD, tag_keys=(Word.STORE,))
    assert_plain((counter._about.name, counter._about.tag_keys))
    (rule,) = NodeLabelSchedulingStrategy({Word.LOAD: In(Word.STORE)}).hard
    assert_plain((rule.key, rule.values))


@pytest.mark.parametrize("name", ["__Enum__", "__Pickled__", "__Serialized__", "__Set__"])
def test_names_that_dask_uses_in_messages_are_refused(name):
    """Dask would take the dictionary for an object, and could not read the message."""
    with pytest.raises(ValueError, match="Dask uses itself"):
        task_options({"resources": {name: 1}})
    with pytest.raises(ValueError, match="Dask uses itself"):
        actor_options({"concurrency_groups": {name: 1}})
    with pytest.raises(ValueError, match="Dask uses itself"):
        text.encodable({"op": "submit", "calls": [{"request": {name: 1}}]})
    assert text.encodable({"op": "submit", "name": name})["name"] == name


# --- frames that cannot be written or read ----------------------------------------------------------


def test_messages_beside_one_that_cannot_be_written_are_written():
    encoder, bad = frames.Encoder(), ("call", "2", types.SimpleNamespace())
    frame, refused = encoder.encode_all([("call", "1"), bad, ("call", "3")])
    assert frames.split(frame)[0] == [[("call", "1"), ("call", "3")]]
    ((message, why),) = refused
    assert message is bad
    assert "SimpleNamespace" in why
    assert encoder.encode_all([bad])[0] is None


def _foreign_frame(content: object) -> bytes:
    """Return a frame as a process with a fault would write it."""
    data = pickle.dumps(content, protocol=5)
    return frames._LENGTH.pack(len(data)) + data


class Broken:
    """An object that cannot be unpickled."""

    def __init__(self, state=None):
        self.state = state

    def __reduce__(self):
        return _raise, (), {"state": self.state}, iter([1]), iter([(1, 2)])


def _raise():
    raise LookupError("not here")


def test_messages_beside_one_that_cannot_be_read_are_read():
    data = _foreign_frame([("call", "1"), ("call", "2", {"a": [Broken()]}), ("call", "3")])
    ((first, bad, third),), position = frames.split(data + frames.encode([("next",)]))[0][:1], 0
    assert (first, third) == (("call", "1"), ("call", "3"))
    assert isinstance(bad, frames.Unreadable)
    assert (bad.kind, bad.key) == ("call", "2")
    assert "not here" in bad.why
    contents, position = frames.split(data + frames.encode([("next",)]))
    assert contents[1] == [("next",)]
    assert position == len(data + frames.encode([("next",)]))


def test_a_damaged_frame_is_one_unreadable_message_without_a_key():
    damaged = frames._LENGTH.pack(4) + b"\x80\x05]."[:2] + b"\xff\xff"
    ((bad,), following), _ = frames.split(damaged + frames.encode([("next",)]))
    assert isinstance(bad, frames.Unreadable)
    assert (bad.kind, bad.key) == ("", "")
    assert following == [("next",)]


def test_an_encoder_that_is_interrupted_by_its_own_thread_loses_nothing():
    """A signal handler of the program may make a call while a message is being written."""
    encoder = frames.Encoder()
    inner = []

    chunks = frames._Chunks()
    chunks.write = lambda chunk: (chunks.written.append(chunk), interrupt())
    encoder._chunks, encoder._pickler = chunks, frames._StrictPickler(chunks, 5)

    def interrupt():
        if not inner:
            inner.append(None)
            inner[0] = encoder.encode(["inner"])

    outer = encoder.encode(["outer"])
    assert frames.split(outer + inner[0])[0] == [["outer"], ["inner"]]
