"""`ray.data` and PyTorch: batches of tensors, data sets of PyTorch and from it."""

import importlib

import numpy as np
import pytest

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import PyTorch when the first of these tests runs: it takes long, and so would each collection."""
    global torch
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-torch")


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def collate(cluster):
    return importlib.import_module(f"{cluster.__name__}.data.collate_fn")


@pytest.fixture
def digits(data):
    """Five rows of numbers and arrays, in two blocks."""
    return data.from_items(
        [
            {
                "x": i,
                "y": np.float32(i) / 2,
                "is_even": i % 2 == 0,
                "pixels": np.full((2, 3), i, np.float32),
            }
            for i in range(5)
        ],
        override_num_blocks=2,
    )


@pytest.mark.parametrize("read", ["Dataset", "DataIterator"])
def test_batches_of_tensors(digits, read):
    source = digits if read == "Dataset" else digits.iterator()
    batches = list(source.iter_torch_batches(batch_size=3))
    assert [tuple(batch["pixels"].shape) for batch in batches] == [(3, 2, 3), (2, 2, 3)]
    first = batches[0]
    assert {name: tensor.dtype for name, tensor in first.items()} == {
        "x": torch.int64,
        "y": torch.float32,
        "is_even": torch.bool,
        "pixels": torch.float32,
    }
    assert torch.cat([batch["x"] for batch in batches]).tolist() == [0, 1, 2, 3, 4]
    assert first["pixels"][2].tolist() == [[2.0] * 3] * 2
    assert {tensor.device.type for tensor in first.values()} == {"cpu"}


def test_batches_are_read_again_in_each_epoch(digits):
    batches = digits.iter_torch_batches(batch_size=2, drop_last=True)
    for _ in range(2):
        assert [batch["x"].tolist() for batch in batches] == [[0, 1], [2, 3]]
    (whole,) = digits.iter_torch_batches()
    assert len(whole["x"]) == 5
    assert sum(len(batch["x"]) for batch in digits.iter_torch_batches(batch_size=None)) == 5


def test_batches_can_be_changed_in_place(data):
    batches = data.range(100_000).iter_torch_batches(batch_size=1000)
    assert sum(int(batch["id"].add_(1).sum()) for batch in batches) == 100_000 * 100_001 // 2


def test_batches_of_a_type(digits):
    (batch,) = digits.iter_torch_batches(dtypes=torch.float64)
    assert {tensor.dtype for tensor in batch.values()} == {torch.float64}
    numbers = digits.select_columns(["x", "y"])
    (batch,) = numbers.iter_torch_batches(dtypes={"x": torch.int32, "y": torch.float16})
    assert (batch["x"].dtype, batch["y"].dtype) == (torch.int32, torch.float16)


def test_shuffled_batches(data):
    batches = data.range(50).iter_torch_batches(
        batch_size=10, local_shuffle_buffer_size=30, local_shuffle_seed=1
    )
    rows = torch.cat([batch["id"] for batch in batches]).tolist()
    assert sorted(rows) == list(range(50)) != rows


def test_lists_of_one_length_in_each_batch(data):
    rows = data.from_items([{"words": [i] * (1 + i // 2)} for i in range(4)])
    batches = list(rows.iter_torch_batches(batch_size=2))
    assert [batch["words"].tolist() for batch in batches] == [[[0], [1]], [[2, 2], [3, 3]]]
    with pytest.raises(RuntimeError):
        list(rows.iter_torch_batches(batch_size=3))


def test_rows_that_are_no_tensors(data):
    with pytest.raises(TypeError):
        list(data.from_items([{"x": "a"}, {"x": "b"}]).iter_torch_batches())
    with pytest.raises(RuntimeError):
        list(data.from_items([{"x": np.ones(1)}, {"x": np.ones(2)}]).iter_torch_batches())


def test_missing_numbers(data):
    rows = data.from_items([{"x": 1.5}, {"x": None}])
    (batch,) = rows.iter_torch_batches()
    assert batch["x"][0] == 1.5
    assert batch["x"].isnan().tolist() == [False, True]


def test_tensors_on_a_device(digits):
    (batch,) = digits.iter_torch_batches(device="meta")
    assert {tensor.device.type for tensor in batch.values()} == {"meta"}


def test_a_function_makes_the_batches(digits):
    def double(batch):
        assert isinstance(batch["x"], np.ndarray)
        return torch.as_tensor(2 * batch["x"])

    batches = list(digits.iter_torch_batches(batch_size=3, collate_fn=double))
    assert [batch.tolist() for batch in batches] == [[0, 2, 4], [6, 8]]


@pytest.mark.parametrize("kind", ["Arrow", "Numpy", "Pandas"])
def test_an_object_makes_the_batches(digits, collate, kind):
    class First(getattr(collate, f"{kind}BatchCollateFn")):
        def __call__(self, batch):
            column = batch["x"]
            return torch.tensor([int(np.asarray(column)[0])]), type(batch).__name__

    batches = list(digits.iter_torch_batches(batch_size=3, collate_fn=First()))
    name = {"Arrow": "Table", "Numpy": "dict", "Pandas": "DataFrame"}[kind]
    assert [(tensor.tolist(), found) for tensor, found in batches] == [([0], name), ([3], name)]


def test_what_a_function_returns_is_moved_if_it_is_tensors(digits):
    one, two = torch.ones(1), torch.ones(2)

    def device_and_size(value):
        (found,) = digits.iter_torch_batches(device="meta", collate_fn=lambda batch: value)
        return found

    assert device_and_size(one).device.type == "meta"
    for value in ([one, two], (one, two)):
        found = device_and_size(value)
        assert [type(found), *[(t.device.type, len(t)) for t in found]] == [
            type(value),
            ("meta", 1),
            ("meta", 2),
        ]
    found = device_and_size({"a": one, "b": two})
    assert {name: (t.device.type, len(t)) for name, t in found.items()} == {
        "a": ("meta", 1),
        "b": ("meta", 2),
    }
    # Lists of tensors are pieces of one.
    assert [len(t) for t in device_and_size([[one, two], [one]])] == [3, 1]
    assert len(device_and_size({"a": [one, two]})["a"]) == 3
    # Anything else stays as it is.
    assert device_and_size((one, 3))[0].device.type == "cpu"
    assert device_and_size("text") == "text"


def test_options_that_contradict_each_other(digits):
    with pytest.raises(ValueError):
        digits.iter_torch_batches(dtypes=torch.float32, collate_fn=lambda batch: batch)
    with pytest.raises(ValueError):
        digits.iter_torch_batches(collate_fn=3)


# `to_torch`


@pytest.fixture
def pairs(data):
    rows = [{"a": float(i), "b": i, "v": np.full(2, i, np.float32), "y": i % 2} for i in range(5)]
    return data.from_items(rows).iterator()


def first_of(dataset):
    assert isinstance(dataset, torch.utils.data.IterableDataset)
    features, labels = next(iter(dataset))
    return features, labels


@pytest.mark.filterwarnings("ignore")  # Ray: deprecated
def test_features_and_labels(pairs):
    features, labels = first_of(
        pairs.to_torch(label_column="y", feature_columns=["a", "b"], batch_size=2)
    )
    assert features.tolist() == [[0, 0], [1, 1]]
    assert features.dtype == torch.float64
    assert labels.tolist() == [[0], [1]]
    dataset = pairs.to_torch(feature_columns=["a"], batch_size=2)
    assert [len(features) for features, _ in dataset] == [2, 2, 1]
    assert [labels for _, labels in dataset] == [None] * 3
    loaded = list(torch.utils.data.DataLoader(dataset, batch_size=None))
    assert len(loaded) == 3


@pytest.mark.filterwarnings("ignore")
def test_shapes_and_types_of_features_and_labels(pairs):
    features, labels = first_of(
        pairs.to_torch(
            label_column="y",
            feature_columns=["a", "b"],
            feature_column_dtypes=torch.float32,
            label_column_dtype=torch.float64,
            unsqueeze_label_tensor=False,
            batch_size=2,
        )
    )
    assert (features.dtype, labels.dtype, labels.tolist()) == (
        torch.float32,
        torch.float64,
        [0.0, 1.0],
    )
    features, _ = first_of(pairs.to_torch(feature_columns=["v"], batch_size=2))
    assert tuple(features.shape) == (2, 1, 2)
    features, _ = first_of(
        pairs.to_torch(feature_columns=["v"], unsqueeze_feature_tensors=False, batch_size=2)
    )
    assert tuple(features.shape) == (2, 2)


@pytest.mark.filterwarnings("ignore")
def test_several_tensors_of_features(pairs):
    (two, one), _ = first_of(
        pairs.to_torch(
            feature_columns=[["a", "b"], ["b"]],
            feature_column_dtypes=[torch.float32, torch.int32],
            batch_size=2,
        )
    )
    assert (tuple(two.shape), two.dtype, tuple(one.shape), one.dtype) == (
        (2, 2),
        torch.float32,
        (2, 1),
        torch.int32,
    )
    features, _ = first_of(pairs.to_torch(feature_columns={"p": ["a"], "q": ["b", "a"]}))
    assert {name: tuple(t.shape) for name, t in features.items()} == {"p": (1, 1), "q": (1, 2)}


@pytest.mark.filterwarnings("ignore")
def test_columns_and_types_that_do_not_fit(pairs):
    with pytest.raises(ValueError):
        first_of(pairs.to_torch(feature_columns=["absent"]))
    with pytest.raises(TypeError):
        first_of(pairs.to_torch(feature_columns=["a"], feature_column_dtypes=[torch.float32]))
    with pytest.raises(TypeError):
        pairs.to_torch(feature_columns={"p": ["a"]}, feature_column_dtypes=[torch.float32])
    with pytest.raises(ValueError):
        pairs.to_torch(feature_columns={"p": ["a"]}, feature_column_dtypes={"q": torch.float32})


# Preprocessing


@pytest.mark.parametrize("batched", [False, True])
def test_transforms_of_images(digits, data, batched):
    preprocessors = importlib.import_module(f"{data.__name__}.preprocessors")

    def halve(images):
        assert images.ndim == (3 if batched else 2)
        return images / 2

    transform = preprocessors.TorchVisionPreprocessor(["pixels"], halve, ["half"], batched)
    rows = transform.transform(digits).take_all()
    assert [row["half"].tolist() for row in rows] == [[[i / 2] * 3] * 2 for i in range(5)]
    assert rows[1]["pixels"].tolist() == [[1.0] * 3] * 2


def test_a_transform_that_takes_arrays_only(digits, data):
    preprocessors = importlib.import_module(f"{data.__name__}.preprocessors")

    def transpose(image):
        if not isinstance(image, np.ndarray):
            raise TypeError("an array is needed, as by ToTensor")
        return torch.as_tensor(image.T.copy())

    rows = preprocessors.TorchVisionPreprocessor(["pixels"], transpose).transform(digits)
    assert rows.take(1)[0]["pixels"].shape == (3, 2)
    with pytest.raises(ValueError):
        preprocessors.TorchVisionPreprocessor(["a", "b"], transpose, ["c"])


# `from_torch`, and tensors in rows


@pytest.fixture
def items():
    class Items(torch.utils.data.Dataset):
        def __init__(self, make):
            self.make = make

        def __len__(self):
            return 5

        def __getitem__(self, index):
            return self.make(index)

    return Items


def test_from_torch(data, items):
    found = data.from_torch(items(lambda i: i)).take_all()
    assert found == [{"item": i} for i in range(5)]
    found = data.from_torch(items(lambda i: torch.full((2,), float(i)))).take_all()
    assert [row["item"].tolist() for row in found] == [[i, i] for i in range(5)]
    assert found[0]["item"].dtype == np.float32
    found = data.from_torch(items(lambda i: torch.tensor(i))).take_all()
    assert found == [{"item": i} for i in range(5)]
    (tensor, number) = data.from_torch(items(lambda i: (torch.ones(2), i))).take_all()[4]["item"]
    assert (tensor.tolist(), number) == ([1, 1], 4)


@pytest.mark.parametrize("local_read", [False, True])
def test_from_an_iterable(data, local_read):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5000))

    rows = data.from_torch(Stream(), local_read=local_read)
    assert [row["item"] for row in rows.iter_rows()] == list(range(5000))


def test_tensors_in_rows_and_batches_become_arrays(data):
    rows = data.range(2).map(lambda row: {"x": torch.full((2,), float(row["id"]))})
    assert [row["x"].tolist() for row in rows.take_all()] == [[0, 0], [1, 1]]
    batches = data.range(3).map_batches(lambda batch: {"x": torch.as_tensor(batch["id"] + 1)})
    assert [row["x"] for row in batches.take_all()] == [1, 2, 3]
    (row,) = data.from_items([{"x": torch.ones(2, dtype=torch.int32)}]).take_all()
    assert (row["x"].dtype, row["x"].tolist()) == (np.int32, [1, 1])
