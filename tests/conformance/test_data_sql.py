"""SQL databases: `read_sql` and `write_sql`, with SQLite."""

import importlib
import sqlite3

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def data(cluster):
    module = importlib.import_module(f"{cluster.__name__}.data")
    module.DataContext.get_current().enable_progress_bars = False
    return module


@pytest.fixture
def connect(tmp_path):
    """Return a function that connects to a database with a table of two rows."""
    path = str(tmp_path / "films.db")

    def connected():
        return sqlite3.connect(path)

    connection = connected()
    connection.execute("CREATE TABLE film (title TEXT, year INTEGER)")
    connection.execute("INSERT INTO film VALUES ('Jaws', 1975), ('Alien', NULL)")
    connection.commit()
    connection.close()
    return connected


def rows_in(connect):
    connection = connect()
    rows = connection.execute("SELECT * FROM film ORDER BY title").fetchall()
    connection.close()
    return rows


def test_the_rows_of_a_query(data, connect):
    found = data.read_sql("SELECT title, year AS made FROM film ORDER BY title", connect)
    assert found.take_all() == [
        {"title": "Alien", "made": None},
        {"title": "Jaws", "made": 1975},
    ]


@pytest.mark.parametrize(
    ("mark", "params"), [("?", ["Jaws"]), (":title", {"title": "Jaws"})], ids=["list", "dict"]
)
def test_values_for_marks(data, connect, mark, params):
    query = f"SELECT year FROM film WHERE title = {mark}"  # noqa: S608  (a constant)
    assert data.read_sql(query, connect, sql_params=params).take_all() == [{"year": 1975}]


def test_more_rows_than_one_call_reads(data, connect):
    connection = connect()
    connection.executemany("INSERT INTO film VALUES (?, ?)", [("x", n) for n in range(10000)])
    connection.commit()
    connection.close()
    found = data.read_sql("SELECT year FROM film WHERE title = 'x'", connect)
    assert found.sum("year") == sum(range(10000))


def test_an_error_of_the_database(data, connect):
    with pytest.raises(sqlite3.OperationalError, match="nothing"):
        data.read_sql("SELECT * FROM nothing", connect).take_all()


def test_rows_are_written(data, connect):
    rows = [{"title": "Heat", "year": 1995}, {"title": "Up", "year": None}]
    data.from_items(rows).write_sql("INSERT INTO film VALUES (?, ?)", connect)
    assert rows_in(connect) == [("Alien", None), ("Heat", 1995), ("Jaws", 1975), ("Up", None)]
