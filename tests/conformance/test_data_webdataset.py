"""WebDataset: rows whose fields are files of a tar archive."""

import importlib
import io
import tarfile

import numpy as np
import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


def archive(path, *files):
    with tarfile.open(path, "w") as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return str(path)


def contents(folder):
    (path,) = folder.iterdir()
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def rows(dataset):
    return [{k: v for k, v in row.items() if k != "__url__"} for row in dataset.take_all()]


def test_values_are_files_named_by_key_and_column(data, tmp_path):
    row = {"__key__": "a/1", "txt": "été", "cls": 3, "json": {"x": [1]}, "raw": b"\0", "none": None}
    data.from_items([row]).write_webdataset(str(tmp_path))
    expected = {
        "a/1.txt": "été".encode(),
        "a/1.cls": b"3",
        "a/1.json": b'{"x": [1]}',
        "a/1.raw": b"\0",
    }
    assert contents(tmp_path) == expected


def test_what_is_written_is_read(data, tmp_path):
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    row = {
        "__key__": "1",
        "txt": "t",
        "cls": 7,
        "json": {"x": 1},
        "mask.png": image,
        "npy": image * 2,
    }
    data.from_items([row]).write_webdataset(str(tmp_path))
    (back,) = rows(data.read_webdataset(str(tmp_path)))
    for name in ("mask.png", "npy"):
        np.testing.assert_array_equal(back.pop(name), row.pop(name))
    assert back == row


def test_files_of_one_name_are_a_row(data, tmp_path):
    path = archive(
        tmp_path / "a.tar",
        *[("x.d/s1.txt", b"A"), ("x.d/s1.seg.cls", b"7"), ("README", b""), ("x.d/s2.txt", b"B")],
    )
    assert rows(data.read_webdataset(path)) == [
        {"__key__": "x.d/s1", "txt": "A", "seg.cls": 7},
        {"__key__": "x.d/s2", "txt": "B", "seg.cls": None},
    ]


def test_where_a_row_comes_from(data, tmp_path):
    path = archive(tmp_path / "a.tar", ("s.txt", b"A"))
    (row,) = data.read_webdataset(path, include_paths=True).take_all()
    assert row == {"__key__": "s", "__url__": path, "path": path, "txt": "A"}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [(["txt"], {"txt"}), ([".cls"], {"cls"}), ([".t*"], {"txt"}), (["zz"], set())],
)
def test_columns_that_are_chosen(data, tmp_path, chosen, names):
    path = archive(tmp_path / "a.tar", ("s.txt", b"A"), ("s.cls", b"1"))
    for suffixes in (chosen, lambda name: name in names):
        (row,) = data.read_webdataset(path, suffixes=suffixes).take_all()
        assert row.keys() - {"__key__", "__url__"} == names


def test_files_that_are_chosen_and_renamed(data, tmp_path):
    path = archive(tmp_path / "a.tar", ("s.txt", b"A"), ("s.cls", b"1"))
    (row,) = rows(data.read_webdataset(path, fileselect=lambda name: name.endswith("txt")))
    assert row == {"__key__": "s", "txt": "A"}
    renamed = data.read_webdataset(path, filerename=lambda name: name.replace("cls", "json"))
    assert rows(renamed) == [{"__key__": "s", "txt": "A", "json": 1}]


def test_decoders(data, tmp_path):
    path = archive(tmp_path / "a.tar", ("s.txt", b"abc"), ("s.cls", b"1"))

    def measure(row):
        return {**row, "length": len(row["txt"])}

    raw = {"__key__": "s", "txt": b"abc", "cls": b"1"}
    assert rows(data.read_webdataset(path, decoder=None)) == [raw]
    assert rows(data.read_webdataset(path, decoder=measure)) == [{**raw, "length": 3}]
    both = data.read_webdataset(path, decoder=[True, measure])
    assert rows(both) == [{"__key__": "s", "txt": "abc", "cls": 1, "length": 3}]


def test_images_of_pillow(data, tmp_path):
    image = np.zeros((2, 3, 3), np.uint8)
    data.from_items([{"__key__": "1", "png": image}]).write_webdataset(str(tmp_path))
    (row,) = data.read_webdataset(str(tmp_path), decoder="PIL").take_all()
    assert row["png"].size == (3, 2)


def test_encoders(data, tmp_path):
    def shout(row):
        return {"__key__": "k", "txt": row["txt"].upper()}

    data.from_items([{"txt": "a"}]).write_webdataset(str(tmp_path / "own"), encoder=shout)
    assert contents(tmp_path / "own") == {"k.txt": b"A"}
    dataset = data.from_items([{"__key__": "k", "txt": "a"}])
    dataset.write_webdataset(str(tmp_path / "none"), encoder=None)
    assert contents(tmp_path / "none") == {"k.txt": b"a"}


def test_rows_without_keys_get_different_ones(data, tmp_path):
    rows = [{"txt": "a"}, {"txt": "b"}]
    data.from_items(rows, override_num_blocks=1).write_webdataset(str(tmp_path))
    assert sorted(contents(tmp_path).values()) == [b"a", b"b"]


def test_items_of_json_are_columns(data, tmp_path):
    path = archive(tmp_path / "a.tar", ("s.json", b'{"x": 1, "y": "z"}'))
    (row,) = rows(data.read_webdataset(path, expand_json=True))
    assert row == {"__key__": "s", "json": {"x": 1, "y": "z"}, "x": 1, "y": "z"}


@pytest.mark.parametrize(
    "files",
    [
        [("s.txt", b"A"), ("s.txt", b"B")],
        [("s.txt", b"A"), ("t.txt", b"B"), ("s.cls", b"1")],
        [("s.cls", b"one")],
        [("s.pkl", b"\x80\x04K\x01.")],
    ],
    ids=["two of one name", "rows apart", "no number", "a pickle"],
)
def test_archives_that_are_refused(data, tmp_path, files):
    path = archive(tmp_path / "a.tar", *files)
    with pytest.raises(ValueError):
        data.read_webdataset(path).take_all()


@pytest.mark.parametrize("length", [700, 1000])
def test_an_archive_that_is_cut(data, tmp_path, length):
    path = archive(tmp_path / "a.tar", ("s.txt", b"A" * 600))
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:length])
    with pytest.raises(Exception, match="ReadError|could not be read"):
        data.read_webdataset(path).take_all()


def test_values_that_no_file_has(data, tmp_path):
    with pytest.raises(Exception, match="AssertionError|encoder"):
        data.from_items([{"__key__": "s", "number": 3}]).write_webdataset(str(tmp_path))
