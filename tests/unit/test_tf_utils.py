"""TensorFlowVariables: weights out of, and back into, graphs and eager variables."""

import copy
import inspect
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raycompat.experimental.tf_utils import TensorFlowVariables

W, B = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([5.0, 6.0], np.float32)


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import TensorFlow when the first of these tests runs: it takes long, and so would each collection."""
    global keras, tf, tf2
    pytest.importorskip("tensorflow")
    import keras
    import tensorflow as tf2
    import tensorflow.compat.v1 as tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def use_resource(request):
    return request.param


@pytest.fixture
def control_flow_v1():
    was_v2 = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield
    if was_v2:
        tf.enable_control_flow_v2()


def make_variable(name, value, use_resource=True, **options):
    return tf.get_variable(name, initializer=value, use_resource=use_resource, **options)


def make_network(use_resource=True):
    """Return the loss of a layer with variables w and b, next to an unrelated variable."""
    w, b = make_variable("w", W, use_resource), make_variable("b", B, use_resource)
    make_variable("unrelated", 0.0, use_resource)
    return tf.reduce_sum(tf.constant([[1.0, 1.0]]) @ w + b)


def start_session():
    session = tf.Session()
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session


def assert_same(weights, expected):
    assert list(weights) == list(expected)
    for name, value in expected.items():
        assert isinstance(weights[name], np.ndarray)
        assert weights[name].dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(weights[name], value)


# Importing


def test_imports_no_tensorflow_until_an_instance_is_made():
    program = (
        "import sys, raycompat.experimental as e\n"
        "assert {'TensorFlowVariables', 'tf_utils'} <= set(dir(e))\n"
        "assert e.TensorFlowVariables is e.tf_utils.TensorFlowVariables\n"
        "import raycompat as ray\n"
        "assert ray.rllib.utils.tf_utils.TensorFlowVariables is e.TensorFlowVariables\n"
        "from raycompat.rllib.utils.tf_utils import TensorFlowVariables\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)\n"
        "sys.modules['tensorflow'] = None\n"
        "try: e.TensorFlowVariables(1)\n"
        "except ImportError as error: assert 'pip install tensorflow' in str(error)\n"
        "else: sys.exit('no ImportError')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_experimental_has_no_other_names():
    import raycompat.experimental

    with pytest.raises(AttributeError, match="nothing_here"):
        _ = raycompat.experimental.nothing_here


def test_signature_is_that_of_ray():
    parameters = inspect.signature(TensorFlowVariables).parameters
    assert list(parameters) == ["output", "sess", "input_variables"]
    assert [p.default for p in parameters.values()][1:] == [None, None]


# Which variables a graph's output leads to


def test_loss_leads_to_the_variables_it_depends_on(graph, use_resource):
    loss = make_network(use_resource)
    variables = TensorFlowVariables(loss, start_session())
    assert isinstance(variables.variables, OrderedDict)
    assert list(variables.variables) == ["w", "b"]
    assert variables.variables["w"] is next(v for v in tf.global_variables() if v.op.name == "w")
    assert set(variables.placeholders) == set(variables.assignment_nodes) == {"w", "b"}
    assert_same(variables.get_weights(), {"w": W, "b": B})


def test_graph_is_that_of_the_tensor_not_the_default_one():
    with tf.Graph().as_default():
        loss, session = make_network(), start_session()
    default_graph = tf.get_default_graph()
    num_nodes = len(default_graph.get_operations())
    variables = TensorFlowVariables(loss, session)
    assert_same(variables.get_weights(), {"w": W, "b": B})
    assert len(default_graph.get_operations()) == num_nodes


@pytest.mark.parametrize(
    "output_of",
    [
        lambda loss, _w, _b: loss.op,
        lambda loss, _w, _b: [loss],
        lambda _loss, w, b: (w, [b, None]),
        lambda _loss, w, b: {"w": w + 1, "b": b.op},
        lambda _loss, w, b: tf.group(w.initializer, tf.assign(b, b + 1)),
        lambda _loss, w, b: tf.IndexedSlices(w * b[0], tf.constant([0, 1])),
        lambda loss, w, b: tf.gradients(loss * loss, [w, b]),
    ],
    ids=["operation", "list", "variables", "dict", "group", "slices", "gradients"],
)
def test_output_may_be(graph, use_resource, output_of):
    w, b = make_variable("w", W, use_resource), make_variable("b", B, use_resource)
    loss = tf.reduce_sum(tf.constant([[1.0, 1.0]]) @ w + b)
    assert list(TensorFlowVariables(output_of(loss, w, b)).variables) == ["w", "b"]


@pytest.mark.parametrize(
    ("make_optimizer", "num_slots"),
    [
        pytest.param(lambda: tf.train.GradientDescentOptimizer(0.1), 0, id="descent"),
        pytest.param(lambda: tf.train.MomentumOptimizer(0.1, 0.9), 2, id="momentum"),
        pytest.param(lambda: tf.train.AdagradOptimizer(0.1), 2, id="adagrad"),
        pytest.param(lambda: tf.train.AdamOptimizer(0.1), 6, id="adam"),
    ],
)
def test_train_operation_leads_to_the_slots_too(graph, use_resource, make_optimizer, num_slots):
    loss = tf.square(make_network(use_resource))
    train = make_optimizer().minimize(loss)
    session = start_session()
    assert len(TensorFlowVariables(loss, session).variables) == 2
    variables = TensorFlowVariables(train, session)
    assert len(variables.variables) == 2 + num_slots

    session.run(train)
    middle = variables.get_weights()
    first = [session.run([train, loss])[1] for _ in range(3)]
    variables.set_weights(middle)
    again = [session.run([train, loss])[1] for _ in range(3)]
    assert again == first


def test_follows_control_inputs(graph, use_resource):
    w = make_variable("w", W, use_resource)
    with tf.control_dependencies([tf.assign_add(w, W)]):
        output = tf.no_op()
    assert list(TensorFlowVariables(output).variables) == ["w"]


def check_cond_and_while(use_resource):
    names = ["switch", "yes", "no", "limit", "step"]
    switch, yes, no, limit, step = (make_variable(n, 1.0, use_resource) for n in names)
    branch = tf.cond(switch > 0, lambda: yes * 2, lambda: no * 3)
    loop = tf.while_loop(lambda i: i < limit, lambda i: i + step, [tf.constant(0.0)])
    session = start_session()
    assert list(TensorFlowVariables(branch).variables) == names[:3]
    assert list(TensorFlowVariables(loop).variables) == names[3:]
    both = TensorFlowVariables([branch, loop], session)
    assert list(both.variables) == names
    both.set_weights({"switch": -1.0, "no": 5.0, "limit": 2.0})
    assert session.run([branch, loop]) == [15.0, 2.0]


def test_follows_cond_and_while(graph, use_resource):
    check_cond_and_while(use_resource)


@pytest.mark.usefixtures("control_flow_v1")
def test_follows_cond_and_while_of_control_flow_v1(graph, use_resource):
    check_cond_and_while(use_resource)


def test_follows_functions(graph):
    w = make_variable("w", W)
    doubled = tf2.function(lambda: w * 2)()
    assert list(TensorFlowVariables(doubled).variables) == ["w"]


def test_finds_local_variables(graph, use_resource):
    local = make_variable("local", 1.0, use_resource, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    assert TensorFlowVariables(local * 2).variables == {"local": local}


def test_reads_and_writes_variables_of_an_imported_graph(use_resource):
    with tf.Graph().as_default() as original:
        make_network(use_resource)
        definition = original.as_graph_def()
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(definition, name="")
        with tf.Session() as session:
            loss = imported.get_operations()[-1].outputs[0]
            variables = TensorFlowVariables(loss, session)
            assert list(variables.variables) == ["w", "b"]
            variables.set_weights({"w": W, "b": B})
            assert_same(variables.get_weights(), {"w": W, "b": B})


def test_input_variables_are_added_once(graph):
    loss = make_network()
    extra = next(v for v in tf.global_variables() if v.op.name == "unrelated")
    w = next(v for v in tf.global_variables() if v.op.name == "w")
    variables = TensorFlowVariables(loss, None, [extra, w])
    assert list(variables.variables) == ["w", "b", "unrelated"]


def test_output_without_variables_is_an_empty_network(graph):
    variables = TensorFlowVariables(tf.constant(1.0), start_session())
    assert variables.get_weights() == {}
    assert variables.get_flat_size() == 0
    variables.set_flat(variables.get_flat())
    with pytest.raises(ValueError, match="none"):
        variables.set_weights({"w": 1.0})


def test_eager_part_in_a_graph_is_refused():
    eager = tf2.Variable(1.0)
    with tf.Graph().as_default():
        loss = make_network()
    with pytest.raises(ValueError, match="different graphs"):
        TensorFlowVariables(loss, None, [eager])


def test_parts_of_two_graphs_are_refused():
    losses = []
    for _ in range(2):
        with tf.Graph().as_default():
            losses.append(make_network())
    with pytest.raises(ValueError, match="different graphs"):
        TensorFlowVariables(losses)


# Reading and writing in a graph


def test_set_weights_writes_some_and_keeps_the_others(graph, use_resource):
    loss = make_network(use_resource)
    session = start_session()
    variables = TensorFlowVariables(loss, session)
    assert session.run(loss) == 21.0
    variables.set_weights({"b": [0, 1]})
    assert_same(variables.get_weights(), {"w": W, "b": np.array([0, 1], np.float32)})
    assert session.run(loss) == 11.0


def test_set_weights_needs_no_initialized_variables(graph, use_resource):
    variables = TensorFlowVariables(make_network(use_resource), tf.Session())
    with pytest.raises(tf.errors.FailedPreconditionError):
        variables.get_weights()
    variables.set_weights({"w": W, "b": B})
    assert_same(variables.get_weights(), {"w": W, "b": B})


def test_weights_are_copies_and_may_be_read_only(graph):
    variables = TensorFlowVariables(make_network(), start_session())
    weights = variables.get_weights()
    for value in weights.values():
        value += 1
    assert_same(variables.get_weights(), {"w": W, "b": B})
    for value in weights.values():
        value.flags.writeable = False
    variables.set_weights(weights)
    assert_same(variables.get_weights(), weights)
    flat = variables.get_flat()
    flat.flags.writeable = False
    variables.set_flat(flat)
    assert_same(variables.get_weights(), weights)


def test_graph_never_grows_and_may_be_finalized(graph, use_resource):
    loss = make_network(use_resource)
    variables = TensorFlowVariables(loss, start_session())
    graph.finalize()
    num_nodes = len(graph.get_operations())
    for _ in range(20):
        variables.set_weights(variables.get_weights())
        variables.set_flat(variables.get_flat())
    assert len(graph.get_operations()) == num_nodes
    with pytest.raises(RuntimeError, match=r"first and call graph\.finalize"):
        TensorFlowVariables(loss)


def test_can_be_made_twice_on_one_graph(graph, use_resource):
    loss, session = make_network(use_resource), start_session()
    first, second = TensorFlowVariables(loss, session), TensorFlowVariables(loss, session)
    first.set_weights({"b": [0, 0]})
    assert_same(second.get_weights(), first.get_weights())
    second.set_weights({"b": B})
    assert_same(first.get_weights(), {"w": W, "b": B})


def test_nodes_stand_outside_the_scopes_of_the_caller(graph):
    loss, session = make_network(), start_session()
    never_fed = tf.placeholder(tf.float32, [])
    with tf.name_scope("outer"), tf.control_dependencies([never_fed]), tf.device("/gpu:7"):
        variables = TensorFlowVariables(loss, session)
    variables.set_weights({"b": [0, 0]})
    assert list(variables.get_weights()["b"]) == [0, 0]
    assert not any(op.name.startswith("outer/") for op in graph.get_operations())


def test_weights_move_to_another_copy_of_the_network(use_resource):
    copies = []
    for _ in range(2):
        with tf.Graph().as_default():
            loss = make_network(use_resource)
            copies.append(TensorFlowVariables(loss, start_session()))
    one, other = copies
    one.set_flat(np.arange(6))
    other.set_weights(pickle.loads(pickle.dumps(one.get_weights())))
    assert_same(other.get_weights(), one.get_weights())


def test_dtypes_are_kept(graph, use_resource):
    values = {
        "float64": np.float64(1 / 3),
        "float16": np.ones(2, np.float16),
        "int64": np.int64(2**40),
        "bool": np.array([True, False]),
        "bytes": np.array([b"one", b"two"], object),
    }
    made = [make_variable(name, value, use_resource) for name, value in values.items()]
    variables = TensorFlowVariables(made, start_session())
    assert_same(variables.get_weights(), values)
    variables.set_weights(variables.get_weights())
    assert_same(variables.get_weights(), values)


def test_scalars_are_arrays(graph):
    variables = TensorFlowVariables(make_variable("w", 2.0), start_session())
    weight = variables.get_weights()["w"]
    assert isinstance(weight, np.ndarray)
    assert weight.shape == ()


def test_variables_of_unknown_shape(graph, use_resource):
    if use_resource:
        w = tf2.Variable(tf.zeros([2]), shape=tf.TensorShape(None), name="w")
    else:
        w = make_variable("w", tf.zeros([2]), use_resource, validate_shape=False)
    variables = TensorFlowVariables([w, make_variable("b", 0.0)], start_session())
    variables.set_weights({"w": W})
    assert_same(variables.get_weights(), {"w": W, "b": np.float32(0)})
    assert variables.get_flat_size() == 5
    variables.set_flat(np.arange(5))
    assert_same(variables.get_weights(), {"w": W - 1, "b": np.float32(4)})


def test_integers_in_flat_vector(graph):
    w, step = make_variable("w", B), tf.train.get_or_create_global_step()
    variables = TensorFlowVariables([w, step], start_session())
    flat = variables.get_flat()
    assert flat.dtype == np.float64
    variables.set_flat(flat + 1)
    assert_same(variables.get_weights(), {"w": B + 1, "global_step": np.int64(1)})


def test_works_in_another_thread(graph):
    variables = TensorFlowVariables(make_network(), start_session())
    seen = []
    thread = threading.Thread(target=lambda: seen.append(variables.get_flat()))
    thread.start()
    thread.join()
    assert list(seen[0]) == [1, 2, 3, 4, 5, 6]


shapes = st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(shapes=shapes, use_resource=st.booleans())
def test_flat_round_trip_in_a_graph(shapes, use_resource):
    with tf.Graph().as_default():
        made = [
            make_variable(f"v{i}", np.zeros(shape, np.float32), use_resource)
            for i, shape in enumerate(shapes)
        ]
        with start_session() as session:
            check_flat_round_trip(TensorFlowVariables(made, session), shapes)


@settings(max_examples=50, deadline=None)
@given(shapes=shapes)
def test_flat_round_trip_of_eager_variables(shapes):
    made = [tf2.Variable(np.zeros(shape, np.float32)) for shape in shapes]
    check_flat_round_trip(TensorFlowVariables(made), shapes)


def check_flat_round_trip(variables, shapes):
    size = sum(int(np.prod(shape)) for shape in shapes)
    assert variables.get_flat_size() == size
    vector = np.arange(size, dtype=np.float32)
    variables.set_flat(vector)
    flat = variables.get_flat()
    assert flat.dtype == np.float32
    np.testing.assert_array_equal(flat, vector)
    values = list(variables.get_weights().values())
    assert [value.shape for value in values] == shapes
    np.testing.assert_array_equal(np.concatenate([v.ravel() for v in values]), vector)


# Errors in a graph


@pytest.fixture
def variables(graph):
    return TensorFlowVariables(make_network(), start_session())


def test_unknown_name_is_refused_and_nothing_written(variables):
    with pytest.raises(ValueError, match=r"not in this network: \['c'\]\. Its variables are 'w'"):
        variables.set_weights({"b": [0, 0], "c": 1})
    assert_same(variables.get_weights(), {"w": W, "b": B})


def test_no_known_name_says_why_that_may_be(variables):
    with pytest.raises(ValueError, match=r"none matches.*its own tf\.Graph\(\)"):
        variables.set_weights({"w_1": W, "b_1": B})


def test_a_list_of_arrays_is_refused(variables):
    with pytest.raises(TypeError, match=r"of type list; expected a dictionary"):
        variables.set_weights([W, B])


def test_empty_weights_are_refused(variables):
    with pytest.raises(ValueError, match="empty"):
        variables.set_weights({})


def test_all_wrong_shapes_are_named_and_nothing_written(variables):
    with pytest.raises(ValueError, match=r"'w' has shape \(3,\).*\(2, 2\); 'b' has shape \(\)"):
        variables.set_weights({"w": [0, 0, 0], "b": 0})
    with pytest.raises(ValueError, match="'b' has shape"):
        variables.set_weights({"w": 0 * W, "b": 0})
    assert_same(variables.get_weights(), {"w": W, "b": B})


@pytest.mark.parametrize("vector", [np.zeros(5), np.zeros(7), np.zeros((6, 1)), 0.0])
def test_flat_vector_of_another_length_is_refused(variables, vector):
    with pytest.raises(ValueError, match=r"expected \(6,\)"):
        variables.set_flat(vector)
    assert_same(variables.get_weights(), {"w": W, "b": B})


@pytest.mark.parametrize(
    "use",
    [
        lambda variables: variables.get_weights(),
        lambda variables: variables.set_weights({"w": W}),
        lambda variables: variables.get_flat(),
        lambda variables: variables.set_flat(np.zeros(6)),
    ],
    ids=["get_weights", "set_weights", "get_flat", "set_flat"],
)
def test_missing_session_is_said_until_one_is_set(graph, use):
    variables = TensorFlowVariables(make_network())
    assert variables.get_flat_size() == 6
    with pytest.raises(RuntimeError, match=r"no session is set.*set_session"):
        use(variables)
    session = start_session()
    variables.set_session(session)
    assert variables.sess is session
    use(variables)


def test_session_of_another_graph_is_refused(graph):
    loss = make_network()
    with tf.Graph().as_default():
        session = start_session()
    with pytest.raises(ValueError, match=r"tf\.Session\(graph=loss\.graph\)"):
        TensorFlowVariables(loss, session)


@pytest.mark.parametrize("send", [pickle.dumps, cloudpickle.dumps, copy.deepcopy])
def test_pickling_says_what_to_send_instead(variables, send):
    with pytest.raises(TypeError, match=r"Send get_weights\(\) instead"):
        send(variables)


def test_pickling_eager_variables_says_what_to_send_instead():
    with pytest.raises(TypeError, match=r"Send get_weights\(\) instead"):
        pickle.dumps(TensorFlowVariables(tf2.Variable(1.0)))


# TF2


def make_model():
    return keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, name="hidden"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1, name="out"),
        ],
        name="net",
    )


def test_keras_model():
    model = make_model()
    variables = TensorFlowVariables(model)
    names = ["hidden/kernel", "hidden/bias", "out/kernel", "out/bias"]
    assert [name.removeprefix("net/") for name in variables.variables] == names
    assert variables.placeholders == variables.assignment_nodes == {}
    for value, expected in zip(variables.get_weights().values(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(value, expected)
    other = make_model()
    TensorFlowVariables(other).set_weights(variables.get_weights())
    inputs = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(model(inputs), other(inputs))
    assert variables.get_flat().dtype == np.float32


def test_keras_optimizer_restores_a_training_in_its_middle():
    model = make_model()
    model.layers[1].rate = 0.0
    optimizer = keras.optimizers.Adam(0.1)
    inputs = tf2.ones((4, 3))

    def losses():
        result = []
        for _ in range(3):
            with tf2.GradientTape() as tape:
                loss = tf2.reduce_mean(tf2.square(model(inputs) - 1.0))
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            result.append(float(loss))
        return result

    with pytest.raises(ValueError, match=r"optimizer\.build"):
        TensorFlowVariables(optimizer)
    losses()
    variables = TensorFlowVariables([model, optimizer])
    middle = variables.get_weights()
    first = losses()
    variables.set_weights(middle)
    assert losses() == first


def test_model_without_variables_yet_is_refused():
    with pytest.raises(ValueError, match="not made its variables yet"):
        TensorFlowVariables(keras.Sequential([keras.layers.Dense(1)]))


def test_list_of_eager_variables():
    made = [tf2.Variable(1.0), tf2.Variable([2, 3]), tf2.Variable(B, name="b")]
    variables = TensorFlowVariables(made, input_variables=[made[0], tf2.Variable(4.0)])
    assert list(variables.variables) == ["Variable", "Variable_1", "b", "Variable_2"]
    weights = variables.get_weights()
    assert_same(
        weights,
        {
            "Variable": np.float32(1),
            "Variable_1": np.array([2, 3], np.int32),
            "b": B,
            "Variable_2": np.float32(4),
        },
    )
    weights["b"] += 1
    assert list(made[2].numpy()) == [5, 6]
    weights["b"].flags.writeable = False
    variables.set_weights({"b": weights["b"]})
    assert list(made[2].numpy()) == [6, 7]
    made[2].assign([0, 0])
    assert list(weights["b"]) == [6, 7]


def test_eager_variable_named_like_a_numbered_one():
    made = [tf2.Variable(float(i), name=name) for i, name in enumerate(["w", "w_1", "w", "w"])]
    weights = TensorFlowVariables(made).get_weights()
    assert {name: int(value) for name, value in weights.items()} == {
        "w": 0,
        "w_1": 1,
        "w_2": 2,
        "w_3": 3,
    }


def test_module():
    class Layer(tf2.Module):
        def __init__(self):
            self.weights = tf2.Variable(W, name="w")
            self.inner = [tf2.Variable(B, name="b")]

    variables = TensorFlowVariables(Layer())
    assert sorted(variables.variables) == ["b", "w"]
    variables.set_flat(np.zeros(6))
    assert not variables.get_flat().any()


def test_eager_errors_are_those_of_graphs():
    made = tf2.Variable(B, name="b")
    variables = TensorFlowVariables(made)
    with pytest.raises(ValueError, match="not in this network"):
        variables.set_weights({"c": 1})
    with pytest.raises(ValueError, match=r"'b' has shape \(3,\)"):
        variables.set_weights({"b": [0, 0, 0]})
    with pytest.raises(ValueError, match=r"expected \(2,\)"):
        variables.set_flat([0])
    assert list(made.numpy()) == [5, 6]


def test_eager_variables_take_no_session():
    made = tf2.Variable(1.0)
    session = tf.Session(graph=tf.Graph())
    with pytest.raises(ValueError, match="no session"):
        TensorFlowVariables(made, session)
    with pytest.raises(ValueError, match="no session"):
        TensorFlowVariables(made).set_session(session)


def test_eager_loss_is_refused():
    with pytest.raises(TypeError, match=r"eager tensor.*Pass the Keras model"):
        TensorFlowVariables(tf2.Variable(1.0) * 2)


@pytest.mark.parametrize("output", [3, "loss", object(), np.ones(2)])
def test_output_that_leads_nowhere_is_refused(output):
    with pytest.raises(TypeError, match="leads to no variables"):
        TensorFlowVariables(output)


@pytest.mark.parametrize("output", [[], [None], {}])
def test_empty_output_is_refused(output):
    with pytest.raises(TypeError, match="holds nothing"):
        TensorFlowVariables(output)


def test_none_is_refused():
    with pytest.raises(TypeError, match="output"):
        TensorFlowVariables(None)


def test_tensor_inside_a_function_is_refused():
    made = tf2.Variable(1.0)

    @tf2.function
    def step():
        TensorFlowVariables(made * 2)

    with pytest.raises(TypeError, match="function"):
        step()
