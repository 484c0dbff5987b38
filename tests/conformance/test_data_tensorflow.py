"""`ray.data` and TensorFlow: tensors, `tf.data`, records; in this process and in tasks."""

import importlib

import numpy as np
import pytest

#: Tasks that read or write records import TensorFlow, which takes long on a loaded machine.
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import TensorFlow when the first of these tests runs: it takes long, and so would each collection."""
    global tf
    tf = pytest.importorskip("tensorflow")


@pytest.fixture
def data(one_cpu):
    """With one CPU: each process that works would import TensorFlow."""
    module = importlib.import_module(f"{one_cpu.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def digits(data):
    """Five rows: a scalar, an array, lists of several lengths, text."""
    return data.from_items(
        [
            {
                "x": i,
                "pixels": np.full((2, 3), i, np.float32),
                "words": [i] * (i + 1),
                "name": "ab"[i % 2],
            }
            for i in range(5)
        ],
        override_num_blocks=2,
    )


def test_batches_of_tensors(digits):
    batches = list(digits.select_columns(["x", "pixels"]).iter_tf_batches(batch_size=3))
    assert [batch["pixels"].shape.as_list() for batch in batches] == [[3, 2, 3], [2, 2, 3]]
    assert batches[0]["pixels"].dtype == tf.float32
    assert tf.concat([batch["x"] for batch in batches], 0).numpy().tolist() == [0, 1, 2, 3, 4]
    assert batches[0]["x"].dtype == tf.int64


@pytest.mark.parametrize("dtypes", ["float32", {"x": "float32"}])
def test_batches_of_tensors_of_a_type(digits, dtypes):
    as_type = tf.dtypes.as_dtype
    wanted = {"x": as_type("float32")} if isinstance(dtypes, dict) else as_type(dtypes)
    (batch,) = digits.select_columns(["x"]).iter_tf_batches(dtypes=wanted)
    assert batch["x"].dtype == tf.float32


def test_features_and_labels(digits):
    dataset = digits.to_tf("pixels", "x", batch_size=2)
    features, labels = dataset.element_spec
    assert (features.shape.as_list(), features.dtype) == ([None, 2, 3], tf.float32)
    assert (labels.shape.as_list(), labels.dtype) == ([None], tf.int64)
    for _ in range(2):  # each epoch reads the rows again
        elements = list(dataset)
        assert [len(labels) for _, labels in elements] == [2, 2, 1]
        assert elements[1][0][0].numpy().tolist() == [[2, 2, 2], [2, 2, 2]]


def test_several_features_and_weights(digits):
    dataset = digits.to_tf(["pixels", "name"], ["x"], additional_columns="x", batch_size=5)
    ((features, labels, weights),) = list(dataset)
    assert sorted(features) == ["name", "pixels"]
    assert features["name"].numpy().tolist() == [b"a", b"b", b"a", b"b", b"a"]
    assert labels["x"].numpy().tolist() == weights.numpy().tolist() == [0, 1, 2, 3, 4]


def test_lists_become_ragged_tensors(digits):
    ((words, _),) = list(digits.to_tf("words", "x", batch_size=5))
    assert words.to_list() == [[0], [1, 1], [2, 2, 2], [3] * 4, [4] * 5]
    elements = list(digits.to_tf("words", "x", batch_size=1))
    assert [words.to_list() for words, _ in elements][1] == [[1, 1]]


def test_types_that_are_given(digits):
    dataset = digits.to_tf(
        "x",
        "x",
        batch_size=5,
        feature_type_spec=tf.TensorSpec((None,), tf.float32),
        label_type_spec=tf.TensorSpec((None,), tf.int32),
    )
    ((features, labels),) = list(dataset)
    assert (features.dtype, labels.dtype) == (tf.float32, tf.int32)


def test_a_column_that_is_not_there(digits):
    with pytest.raises(ValueError, match="y"):
        digits.to_tf("x", "y")


def test_a_model_learns(data):
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    rows = data.from_items([{"x": np.float32(v), "y": np.float32(3 * v)} for v in x])
    dataset = rows.to_tf("x", "y", batch_size=16)
    slope = tf.Variable(0.0)
    for _ in range(20):
        for features, labels in dataset:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((slope * features - labels) ** 2)
            slope.assign_sub(0.5 * tape.gradient(loss, slope))
    assert slope.numpy() == pytest.approx(3, abs=0.05)


def test_from_tf(data):
    pairs = tf.data.Dataset.from_tensor_slices({"a": [1, 2, 3], "b": [[1.0], [2.0], [3.0]]})
    rows = sorted(data.from_tf(pairs).take_all(), key=lambda row: row["a"])
    assert [row["a"] for row in rows] == [1, 2, 3]
    assert [row["b"].tolist() for row in rows] == [[1.0], [2.0], [3.0]]
    scalars = data.from_tf(tf.data.Dataset.range(3)).take_all()
    assert sorted(row["item"] for row in scalars) == [0, 1, 2]


def example(**values):
    kinds = {int: "int64_list", float: "float_list", bytes: "bytes_list"}
    lists = {int: tf.train.Int64List, float: tf.train.FloatList, bytes: tf.train.BytesList}
    features = {
        name: tf.train.Feature(**{kinds[type(some[0])]: lists[type(some[0])](value=some)})
        for name, some in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_reading_records(data, tmp_path):
    path = str(tmp_path / "a.tfrecords")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(example(i=[1], f=[0.5], b=[b"x"], many=[1, 2]))
        writer.write(example(i=[2], f=[1.5], b=[b"y"], many=[3, 4]))
    dataset = data.read_tfrecords(path)
    assert sorted(dataset.take_all(), key=lambda row: row["i"]) == [
        {"i": 1, "f": 0.5, "b": b"x", "many": [1, 2]},
        {"i": 2, "f": 1.5, "b": b"y", "many": [3, 4]},
    ]
    batch = dataset.take_batch(2)
    assert (batch["i"].dtype, batch["f"].dtype) == (np.int64, np.float32)


def test_records_that_are_written_are_read(data, tmp_path):
    rows = [{"i": i, "f": i / 2, "s": f"row {i}", "many": [i, i + 1]} for i in range(4)]
    data.from_items(rows, override_num_blocks=2).write_tfrecords(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    back = sorted(data.read_tfrecords(str(tmp_path)).take_all(), key=lambda row: row["i"])
    assert back == [{**row, "s": row["s"].encode()} for row in rows]


def test_records_of_arrays(data, tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    data.from_items([{"a": array}]).write_tfrecords(str(tmp_path))
    (row,) = data.read_tfrecords(str(tmp_path)).take_all()
    np.testing.assert_array_equal(tf.io.parse_tensor(row["a"], tf.float32).numpy(), array)


def test_records_cut_short_are_an_error(data, tmp_path):
    path = tmp_path / "a.tfrecords"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in range(3):
            writer.write(example(i=[i]))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(Exception, match="a.tfrecords"):
        data.read_tfrecords(str(path)).take_all()
