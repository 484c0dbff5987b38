"""`ray.dag`: graphs of calls."""

from __future__ import annotations

import asyncio
import importlib

import pytest

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore:.*deprecated.*"),
]


@pytest.fixture
def dag(ray, cluster):
    return importlib.import_module(f"{ray.__name__}.dag")


@pytest.fixture
def add(ray, cluster):
    @ray.remote
    def add(a, b=0):
        return a + b

    return add


@pytest.fixture
def Counter(ray, cluster):
    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self, start=0):
            self.value = start

        def add(self, by=1):
            self.value += by
            return self.value

        @ray.method(num_returns=2)
        def pair(self, a):
            return a, a + 1

        def get(self):
            return self.value

    return Counter


def test_a_node_is_a_call_that_was_not_made(ray, dag, add):
    assert isinstance(add.bind(1, 2), dag.DAGNode)
    assert isinstance(add.bind(1, 2), dag.FunctionNode)


def test_execute_makes_the_call(ray, add):
    assert ray.get(add.bind(1, b=2).execute()) == 3


def test_a_node_is_an_argument(ray, add):
    assert ray.get(add.bind(add.bind(1, 2), add.bind(3, 4)).execute()) == 10


def test_a_graph_is_executed_again(ray, add):
    node = add.bind(1, 2)
    assert ray.get([node.execute(), node.execute()]) == [3, 3]


def test_a_shared_node_is_called_once(ray, add, tmp_path):
    @ray.remote
    def note():
        with (tmp_path / "notes").open("a") as file:
            file.write("x")
        return 1

    shared = note.bind()
    assert ray.get(add.bind(shared, shared).execute()) == 2
    assert (tmp_path / "notes").read_text() == "x"


def test_nodes_inside_of_arguments_are_references(ray, add):
    @ray.remote
    def total(refs, more):
        return sum(ray.get(refs)) + ray.get(more["a"][0])

    node = total.bind([add.bind(1), add.bind(2)], {"a": (add.bind(3),)})
    assert ray.get(node.execute()) == 6


def test_options_of_a_node(ray):
    @ray.remote
    def name():
        return ray.get_runtime_context().get_task_name()

    node = name.options(name="special").bind()
    assert ray.get(node.execute()) == "special"
    assert node.get_options()["name"] == "special"


def test_several_results(ray, add):
    @ray.remote(num_returns=2)
    def pair():
        return 1, 2

    first, second = pair.bind().execute()
    assert ray.get([first, second]) == [1, 2]


def test_a_class_is_created_and_called(ray, Counter):
    actor = Counter.bind(10)
    assert ray.get(actor.add.bind(5).execute()) == 15
    assert ray.get(actor.add.bind(5).execute()) == 20


def test_each_execution_has_an_actor_of_its_own(ray, Counter):
    node = Counter.bind(10).add.bind()
    assert ray.get([node.execute(), node.execute()]) == [11, 11]


def test_calls_of_an_actor_are_in_the_order_in_which_they_were_bound(ray, Counter):
    actor = Counter.bind(1)
    actor.add.bind(10)
    assert ray.get(actor.get.bind().execute()) == 11


def test_a_class_node_gives_a_handle(ray, Counter):
    handle = Counter.bind(3).execute()
    assert ray.get(handle.get.remote()) == 3


def test_an_actor_gets_a_node(ray, Counter, add):
    assert ray.get(Counter.bind(add.bind(1, 2)).get.bind().execute()) == 3


def test_options_of_a_class(ray, Counter):
    node = Counter.options(name="dag actor").bind(4)
    handle = node.execute()
    assert ray.get(ray.get_actor("dag actor").get.remote()) == 4
    del handle


def test_a_method_that_the_class_lacks(Counter):
    with pytest.raises(AttributeError):
        Counter.bind().nothing


def test_a_method_of_a_living_actor(ray, dag, Counter):
    actor = Counter.remote(1)
    node = actor.add.bind(2)
    assert isinstance(node, dag.ClassMethodNode)
    assert ray.get(node.execute()) == 3
    assert ray.get(node.execute()) == 5


def test_the_results_of_a_method_that_has_several(ray, Counter, add):
    actor = Counter.remote()
    first, second = actor.pair.bind(1)
    assert ray.get(add.bind(first, second).execute()) == 3


def test_wrong_arguments_of_a_method_are_told_at_once(Counter):
    actor = Counter.remote()
    with pytest.raises(TypeError):
        actor.add.bind(1, 2, 3)


def test_the_input_is_what_execute_gets(ray, dag, add):
    with dag.InputNode() as given:
        node = add.bind(given, given)
    assert ray.get(node.execute(2)) == 4
    assert ray.get(node.execute(3)) == 6


def test_several_inputs(ray, dag, add):
    with dag.InputNode() as given:
        node = add.bind(given[0], given.by)
    assert ray.get(node.execute(1, by=2)) == 3


@pytest.mark.parametrize("value", [[1, 2], (1, 2), {0: 1, 1: 2}])
def test_items_of_the_one_input(ray, dag, add, value):
    with dag.InputNode() as given:
        node = add.bind(given[0], given[1])
    assert ray.get(node.execute(value)) == 3


def test_keys_of_the_one_input(ray, dag, add):
    with dag.InputNode() as given:
        node = add.bind(given["a"], given["b"])
    assert ray.get(node.execute({"a": 1, "b": 2})) == 3


def test_attributes_of_the_one_input(ray, dag, add):
    class Data:
        a, b = 1, 2

    with dag.InputNode() as given:
        node = add.bind(given.a, given.b)
    assert ray.get(node.execute(Data())) == 3


def test_the_input_of_an_actors_method(ray, dag, Counter):
    with dag.InputNode() as given:
        node = Counter.bind(1).add.bind(given)
    assert ray.get(node.execute(2)) == 3


def test_the_input_is_no_argument_of_a_constructor(dag, Counter):
    with dag.InputNode() as given, pytest.raises(ValueError, match="ClassNode"):
        Counter.bind(given)


def test_the_input_needs_a_context_manager(ray, dag, add):
    node = add.bind(dag.InputNode(), 1)
    with pytest.raises(AssertionError, match="context manager"):
        node.execute(1)


def test_a_graph_has_one_input(dag, add):
    with dag.InputNode() as one, dag.InputNode() as other:
        node = add.bind(one, other)
    with pytest.raises(AssertionError, match="one unique InputNode"):
        node.execute(1)


def test_an_input_takes_no_arguments(dag):
    with pytest.raises(ValueError, match="should not take any args"):
        dag.InputNode(1)


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_outputs(ray, dag, add, kind):
    with dag.InputNode() as given:
        node = dag.MultiOutputNode(kind([add.bind(given, 1), add.bind(given, 2)]))
    refs = node.execute(1)
    assert isinstance(refs, list)
    assert ray.get(refs) == [2, 3]


def test_outputs_are_a_list(dag, add):
    with pytest.raises(ValueError):
        dag.MultiOutputNode(add.bind(1))


def test_a_node_is_bound_once(add):
    with pytest.raises(AttributeError, match="bind"):
        add.bind(1).bind(2)


def test_a_node_is_not_called(add):
    with pytest.raises(AttributeError, match="remote"):
        add.bind(1).remote()


def test_a_method_of_a_class_node_is_not_called(Counter):
    with pytest.raises(AttributeError, match="remote"):
        Counter.bind().add.remote()


def test_what_was_bound(add):
    node = add.bind(1, b=2)
    assert list(node.get_args()) == [1]
    assert node.get_kwargs() == {"b": 2}


def test_the_id_of_a_node(add):
    node, other = add.bind(1), add.bind(1)
    assert node.get_stable_uuid() == node.get_stable_uuid() != other.get_stable_uuid()


def test_the_references_of_an_execution(ray, add):
    first = add.bind(1, 2)
    node = add.bind(first, 3)
    ref = node.execute(_ray_cache_refs=True)
    cache = asyncio.run(node.get_object_refs_from_last_execute())
    assert cache[node.get_stable_uuid()] == ref
    assert ray.get(cache[first.get_stable_uuid()]) == 3
    node.clear_cache()
    assert asyncio.run(node.get_object_refs_from_last_execute()) == {}


def test_the_error_of_a_call(ray, add):
    @ray.remote
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        ray.get(add.bind(fail.bind(), 1).execute())


def test_a_graph_is_passed_to_a_task(ray, add):
    @ray.remote
    def run(nodes):
        return ray.get(nodes[0].execute())

    assert ray.get(run.remote([add.bind(1, 2)])) == 3


def test_apply_recursive_visits_each_node_once(add):
    shared = add.bind(1)
    node = add.bind(shared, shared)
    seen = []
    node.apply_recursive(lambda each: seen.append(each.get_stable_uuid()))
    assert seen == [shared.get_stable_uuid(), node.get_stable_uuid()]
