"""What the shell completes from a running cluster, with rows as a cluster has them."""

import click
import pytest
from click.shell_completion import ShellComplete

from raycompat._cli import state
from raycompat.util.state.exception import RayStateApiException

ROWS = {
    "actors": [
        {"actor_id": "aa01", "name": "", "class_name": "Counter", "state": "ALIVE"},
        {"actor_id": "aa02", "name": "main", "class_name": "Counter", "state": "DEAD"},
        {"actor_id": "bb03", "name": "", "class_name": "Writer", "state": "DEAD"},
    ],
    "nodes": [{"node_id": "cc04", "node_name": "127.0.0.1", "state": "ALIVE"}],
    "tasks": [{"task_id": "dd05", "name": "square", "state": "RUNNING"}],
}


class Row:
    def __init__(self, fields):
        self.fields = fields

    def asdict(self):
        return self.fields


class Client:
    def __init__(self, given):
        self.address = given["address"]

    def list(self, resource, options, raise_on_missing_output):
        if self.address == "none":
            raise RayStateApiException("there is no cluster")
        return [Row(each) for each in ROWS[resource.value]]


@pytest.fixture
def complete():
    """A function that returns what is offered for a line, of which the last word has begun."""
    cli = click.Group()
    for make in state.COMMANDS:
        cli.add_command(click.option("--address")(make(Client)))

    def offered(line):
        *words, typed = line.split(" ")
        shell = ShellComplete(cli, {}, "raycompat", "_RAYCOMPAT_COMPLETE")
        return {each.value: each.help for each in shell.get_completions(words, typed)}

    return offered


def test_ids_are_completed_with_what_they_are(complete):
    assert complete("get actors ") == {
        "aa01": "Counter, ALIVE",
        "aa02": "main, Counter, DEAD",
        "bb03": "Writer, DEAD",
    }
    assert list(complete("get actors aa")) == ["aa01", "aa02"]
    assert complete("get nodes c") == {"cc04": "127.0.0.1, ALIVE"}
    assert complete("logs actor --id bb") == {"bb03": "Writer, DEAD"}
    assert complete("logs task --id ") == {"dd05": "square, RUNNING"}
    assert complete("logs --node-id ") == {"cc04": "127.0.0.1, ALIVE"}
    assert complete("logs --id ") == {}


def test_filters_are_completed_by_field_and_then_by_value(complete):
    assert {"state=", "class_name=", "actor_id="} <= complete("list actors --filter ").keys()
    assert list(complete("list actors --filter cl")) == ["class_name=Counter", "class_name=Writer"]
    assert list(complete("list actors --filter state=")) == ["state=ALIVE", "state=DEAD"]
    assert list(complete("list actors -f state=D")) == ["state=DEAD"]
    assert list(complete("list actors -f state!=D")) == ["state!=DEAD"]
    assert complete("list actors -f nothing=") == {}
    assert complete("list -f state=") == {}


@pytest.mark.parametrize(
    "line", ["get --address none actors ", "list --address none actors -f sta"]
)
def test_without_a_cluster_nothing_is_offered(complete, line):
    assert complete(line) == {}
