"""Which function a call of an actor's method finds."""

from __future__ import annotations

import functools

import pytest

from raycompat._protocol.actor_about import bound_method


class Callable:
    def __call__(self):
        return "callable of the class"


class Wrapping:
    def __init__(self):
        self.kept = 1

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        return (lambda: f"wrapped {found()}") if name == "method" else found

    def method(self):
        return "method"


class Class:
    callable = Callable()

    def method(self):
        return "method"

    partial = functools.partialmethod(method)

    @staticmethod
    def static():
        return "static"

    @classmethod
    def of_class(cls):
        return cls.__name__

    @property
    def made(self):
        return lambda: "made by a property"

    def __call__(self):
        return "called"

    def __getattr__(self, name):
        if name != "dynamic":
            raise AttributeError(name)
        return lambda: "dynamic"


RESULTS = {
    "callable": "callable of the class",
    "method": "method",
    "partial": "method",
    "static": "static",
    "of_class": "Class",
    "made": "made by a property",
    "__call__": "called",
    "dynamic": "dynamic",
}


@pytest.mark.parametrize("name", RESULTS)
def test_methods_of_all_kinds_are_found(name):
    assert bound_method(Class(), name)() == RESULTS[name]


@pytest.mark.parametrize("name", sorted(RESULTS.keys() - {"dynamic"}))
def test_methods_of_all_kinds_are_found_behind_an_attribute_of_the_instance(name):
    instance = Class()
    instance.__dict__[name] = 0
    assert bound_method(instance, name)() == RESULTS[name]


def test_what_only_the_instance_has_is_found():
    instance = Class()
    instance.extra = lambda: "extra"
    assert bound_method(instance, "extra")() == "extra"


def test_a_class_that_changes_its_attributes_is_asked():
    assert bound_method(Wrapping(), "method")() == "wrapped method"


def test_an_instance_without_a_dictionary_has_its_methods():
    assert bound_method((1, 1, 2), "count")(1) == 2
