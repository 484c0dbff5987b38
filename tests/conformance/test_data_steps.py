"""Steps that divide the rows of data sets, their texts, and sinks of users."""

import importlib

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.mark.parametrize(
    ("num_rows", "before", "after", "lengths"),
    [(10, 1, 4, [2, 4, 4]), (10, 5, 4, [2] * 5), (12, 4, 100, [3] * 4), (20, 2, 6, [4, 4, 6, 6])],
)
def test_blocks_are_cut_one_by_one_at_a_number_of_rows(data, num_rows, before, after, lengths):
    rows = data.range(num_rows, override_num_blocks=before)
    cut = rows.repartition(target_num_rows_per_block=after)
    assert sorted(len(each["id"]) for each in cut.iter_batches(batch_size=None)) == lengths


def test_blocks_of_exactly_a_number_of_rows(data):
    rows = data.range(20, override_num_blocks=3)
    cut = rows.repartition(target_num_rows_per_block=6, strict=True)
    assert sorted(len(each["id"]) for each in cut.iter_batches(batch_size=None)) == [2, 6, 6, 6]


def test_blocks_of_keys_are_sorted(data):
    rows = data.from_items([{"a": (7 - number) % 3} for number in range(9)])
    cut = rows.repartition(2, keys=["a"], sort=True)
    assert all(list(each["a"]) == sorted(each["a"]) for each in cut.iter_batches(batch_size=None))


def test_what_a_repartition_does_not_take(data):
    with pytest.raises(ValueError):
        data.range(6).repartition(target_num_rows_per_block=2, shuffle=True)
    with pytest.raises(TypeError):
        data.range(6).repartition("2").materialize()


@pytest.mark.parametrize(
    ("num_rows", "shares", "lengths"),
    [
        (10, [0.15, 0.15], [1, 2, 7]),
        (30, [0.05, 0.05, 0.05], [1, 2, 1, 26]),
        (7, [0.5, 0.2], [3, 1, 3]),
        (10, [0.05, 0.25], None),
        (2, [0.3, 0.3], None),
        (0, [0.5], None),
    ],
)
def test_shares_are_rounded_down_and_none_is_empty(data, num_rows, shares, lengths):
    rows = data.range(num_rows)
    if lengths is None:
        with pytest.raises(ValueError):
            rows.split_proportionately(shares)
    else:
        assert [part.count() for part in rows.split_proportionately(shares)] == lengths


def test_rows_to_cut_at_are_integers(data):
    with pytest.raises(TypeError):
        data.range(10).split_at_indices(["3"])
    with pytest.raises(Exception, match="(?i)float|int"):
        data.range(10).split_at_indices([1.5])


def test_the_text_of_steps_whose_columns_are_known(data):
    rows = data.range(3)
    assert "id_1" in repr(rows.zip(rows)) and "isn't materialized" in repr(rows.zip(rows))
    assert "(?, 1)" in repr(rows.union(rows))
    assert "(?, 1)" in repr(rows.filter(lambda row: True))
    assert "(3, 1)" in repr(rows.select_columns(["id"]).rename_columns({"id": "x"}))
    assert repr(rows.map(lambda row: row).limit(2)).startswith("limit=2\n+- Map(")


def test_a_sink_gets_the_columns_before_and_all_blocks(data):
    seen = []

    class Sink(data.Datasink):
        def on_write_start(self, schema=None):
            seen.append(schema and schema.names)

        def write(self, blocks, ctx):
            return [each.num_rows for each in blocks]

        def on_write_complete(self, write_result):
            seen.append(sorted(write_result.write_returns))

    rows = data.from_items([{"id": number} for number in range(4)], override_num_blocks=4)
    rows.write_datasink(Sink())
    rows.filter(lambda row: row["id"] == 2).write_datasink(Sink())
    assert seen[0] == ["id"]
    assert seen[1::2] == [[[1]] * 4, [[0], [0], [0], [1]]]


def test_a_data_set_is_true(data):
    assert data.range(0)
    assert data.range(1).map_batches(lambda batch: batch)


def test_files_that_are_too_few_are_read_into_as_many_blocks(data, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x\n" + "1\n" * 1000)
    one, two = str(tmp_path / "a.csv"), str(tmp_path)
    made = [data.read_csv(two, override_num_blocks=number).materialize() for number in (1, 2, 3, 7)]
    assert [each.num_blocks() for each in made] == [1, 2, 4, 8]
    assert {each.count() for each in made} == {2000}
    batches = data.read_csv(one, override_num_blocks=4).map_batches(
        lambda batch: batch, batch_size=None
    )
    assert [len(each["x"]) for each in batches.iter_batches(batch_size=None)] == [250] * 4
