"""What the command line makes of flags: of today, of early Ray, and impossible ones."""

from __future__ import annotations

import shlex
from datetime import datetime

import click
import pytest
from click.testing import CliRunner, Result

from raycompat._cli import old_flags
from raycompat._cli.commands import cli
from raycompat._cli.node_flags import options_of
from raycompat._cli.status import report
from raycompat._cli.texts import head_started
from raycompat._protocol.refusals import split_address


def refused(*arguments: str) -> Result:
    result = CliRunner(env={"TMPDIR": "/nonexistent"}).invoke(cli, arguments)
    assert result.exit_code == 2, result.output
    return result


def test_the_list_of_commands_describes_each_in_whole_sentences():
    text = CliRunner().invoke(cli, ["--help"], terminal_width=80).output
    listed = text.partition("Commands:\n")[2].splitlines()
    assert len(listed) == len(cli.commands)
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--head"),
        (["--head", "--address=a:1"], "Give one of them"),
        (["--hed"], "--head"),
        (["--head", "--port=70000"], "0<=x<=65535"),
        (["--head", "--num-cpus=-1"], "x>=0"),
        (["--head", "--num-gpus=half"], "not a valid integer"),
        (["--head", "--resources={a}"], "is not JSON"),
        (["--head", "--resources=[1]"], "expected names with amounts"),
        (["--head", '--resources={"CPU": 1}'], "--num-cpus"),
        (["--head", '--resources={"a": -1}'], "nonnegative"),
        (["--head", '--resources={"a": "b"}'], "whole number"),
        (["--head", '--resources={"a": Infinity}'], "whole number"),
        (["--head", "--object-store-memory=1"], "at least"),
        (["--head", "--labels=zone"], "is not a label"),
        (["--head", "--labels=ray.io/node-id=y"], "ray.io/"),
        (["--head", "--labels-file=/nonexistent"], "cannot be read"),
        (["--head", "--node-ip-address=0.0.0.0"], "Give an address of this machine"),
        (["--head", "--temp-dir=/nonexistent"], "does not exist"),
        (["--head", "--redis-password="], "is empty"),
        (["--head", "--redis-password=a", "--redis-password-file=b"], "not both"),
        (["--head", "--redis-password-file=/nonexistent"], "cannot be read"),
        (["--address=a:1", "--port=5"], "--head only"),
        (["--address=a:1", "--dashboard-port=5"], "--head only"),
        (["--address=a:1", "--include-webui=1"], "--head only"),
        (["--head", "--autoscaling-config=f"], "not supported by raycompat: scale with Dask"),
        (["--head", "extra"], "unexpected extra argument"),
    ],
)
def test_what_cannot_be_is_told(arguments, text):
    assert text in refused("start", *arguments).output


@pytest.mark.parametrize("command", [["status"], ["list", "nodes"], ["start"]])
def test_an_address_that_starts_a_cluster_leads_to_none(command):
    result = CliRunner().invoke(cli, [*command, "--address=local"])
    assert result.exit_code == 1
    assert "'local' does not lead to a cluster" in result.output


def test_help_names_the_verbs():
    output = CliRunner().invoke(cli, ["--help"]).output
    for verb in ("start", "stop", "status", "run"):
        assert f"\n  {verb} " in output


# Flags of early Ray


def present(*arguments: str) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    return old_flags.present(arguments, warnings.append), warnings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["--redis-address", "h:1"], ["--address", "h:1"]),
        (["--redis-address=h:1"], ["--address=h:1"]),
        (["--head", "--redis-port=1"], ["--head", "--port=1"]),
        (["--include-webui"], ["--include-dashboard=true"]),
        (["--include-webui", "--head"], ["--include-dashboard=true", "--head"]),
        (["--include-webui", "0"], ["--include-dashboard", "0"]),
        (["--include-webui=0"], ["--include-dashboard=0"]),
        (["--num-workers=3"], ["--num-cpus=3"]),
    ],
)
def test_old_names_mean_what_they_meant(old, new):
    found, warnings = present(*old)
    assert found == new
    assert "is a name of early Ray: use --" in warnings[0]


def test_what_has_no_effect_is_said_to_have_none():
    found, warnings = present(
        "--head", "--redis-max-memory", "100", "--min-worker-port=5", "--disable-usage-stats", "-x"
    )
    assert found == ["--head", "-x"]
    assert [warning.split()[0] for warning in warnings] == [
        "--redis-max-memory",
        "--min-worker-port",
        "--disable-usage-stats",
    ]


def test_flags_of_today_stay_as_they_are():
    arguments = ["--head", "--port", "0", '--resources={"a=b": 1}', "--labels=a=b,c=d"]
    assert present(*arguments) == (arguments, [])


def test_every_refused_flag_says_what_to_do():
    for flag in old_flags._REFUSED:
        with pytest.raises(click.UsageError, match=f"{flag} is not supported"):
            present(flag)


def test_no_flag_is_of_two_kinds_and_the_new_ones_are_there():
    kinds = [
        old_flags._RENAMED,
        old_flags._IDLE,
        old_flags._IDLE_SWITCHES,
        old_flags._REFUSED,
    ]
    flags = [flag for kind in kinds for flag in kind]
    assert len(flags) == len(set(flags))
    there = {name for each in cli.commands["start"].params for name in each.opts}
    assert not there & set(flags)
    assert set(old_flags._RENAMED.values()) <= there


# The options with which a node starts


GIVEN = {
    "node_name": None,
    "num_cpus": 2,
    "num_gpus": 1,
    "memory": None,
    "object_store_memory": None,
    "resources": '{"a": 3}',
    "labels": "zone=a, kind=b",
    "labels_file": None,
}


def test_flags_become_what_a_node_has():
    options = options_of(GIVEN, is_head=False)
    assert {"CPU": 2, "GPU": 1, "a": 3}.items() <= options.resources.items()
    assert options.labels == {"zone": "a", "kind": "b"}
    assert options_of({**GIVEN, "node_name": "alice"}, is_head=False).name == "alice"
    assert "node:__internal_head__" in options_of(GIVEN, is_head=True).resources


def test_labels_may_be_json_as_they_were(tmp_path):
    path = tmp_path / "labels"
    path.write_text("zone: c\nmore: d\n")
    given = {**GIVEN, "labels": '{"zone": "a"}', "labels_file": str(path)}
    assert options_of(given, is_head=False).labels == {"zone": "a", "more": "d"}


# What is printed


STATE = {
    "nodes": [
        {
            "node_id": "ab" * 28,
            "name": "10.0.0.1",
            "ip": "10.0.0.1",
            "hostname": "host",
            "pid": 7,
            "resources": {"CPU": 4.0, "GPU": 1.0, "node:10.0.0.1": 1.0},
            "available": {"CPU": 1.5, "node:10.0.0.1": 1.0},
            "spilled": 5 << 20,
            "draining": "Draining: given back (DRAIN_NODE_REASON_PREEMPTION)",
            "place": (
                "raycompat-1.2",
                ("/dev/shm/x", "/disk/node/raycompat-segments"),
                "h",
                9,
                0.9,
            ),
        }
    ],
    "total": {"CPU": 4.0, "GPU": 1.0, "memory": 2.0**34, "object_store_memory": 2.0**30},
    "available": {"CPU": 1.5, "memory": 2.0**34, "object_store_memory": 2.0**30 - (3 << 20)},
    "stored": 3 << 20,
    "unfit": {"tcp://10.0.0.2:5": "no raycompat"},
    "pending": [
        {"request": {"GPU": 1.0}, "kind": "actor", "count": 2, "is_feasible": True},
        {"request": {"CPU": 64.0}, "kind": "task", "count": 1, "is_feasible": False},
    ],
    "pending_groups": [
        {
            "name": name,
            "strategy": "PACK",
            "bundles": [{"CPU": 1.0}, {"CPU": 1.0}, {"GPU": 2.0}],
            "is_feasible": is_feasible,
        }
        for name, is_feasible in (("evaluation", False), ("", True), ("training", True))
    ],
}


def test_the_state_of_a_cluster_is_readable():
    bundles = "{'CPU': 1.0} * 2, {'GPU': 2.0} * 1 (PACK)"
    assert report(STATE, datetime(2030, 1, 2, 3, 4, 5)).splitlines() == [
        "======== Cluster status: 2030-01-02 03:04:05 ========",
        "Node status",
        "-" * 53,
        "Active:",
        " node_abababababab  10.0.0.1 (host, pid 7)  2.5/4.0 CPU, 1.0/1.0 GPU",
        "   Draining: given back (DRAIN_NODE_REASON_PREEMPTION)",
        "   5.00MiB of objects spilled to /disk/node",
        "Dask workers that are not nodes:",
        " tcp://10.0.0.2:5: no raycompat",
        "",
        "Resources",
        "-" * 53,
        "Total Usage:",
        " 2.5/4.0 CPU",
        " 1.0/1.0 GPU",
        " 0B/16.00GiB memory",
        " 3.00MiB/1.00GiB object_store_memory",
        "",
        "Pending Demands:",
        " {'GPU': 1.0}: 2 pending actor(s)",
        " {'CPU': 64.0}: 1 pending task(s), which no node can ever provide",
        f" {bundles}: 1 pending placement group(s), which no nodes can ever provide: evaluation",
        f" {bundles}: 2 pending placement group(s): training",
    ]


def test_an_empty_cluster_has_a_state_too():
    empty = {"nodes": [], "total": {}, "available": {}, "stored": 0, "unfit": {}}
    empty |= {"pending": [], "pending_groups": []}
    text = report(empty, datetime(2030, 1, 1), "http://h:1")
    for line in (" (no nodes)", " (nothing)", " (no resource demands)"):
        assert line in text.splitlines()
    assert text.endswith("Dashboard: http://h:1")


def test_the_password_is_not_printed_but_where_it_goes():
    text = head_started(
        "tls://10.0.0.1:5", dashboard=None, logs="/logs", has_password=True, is_local=False
    )
    assert "raycompat start --address='10.0.0.1:5' --redis-password='<the password>'" in text
    assert "ray.init(address='auto', redis_password='<the password>')" in text
    assert "dashboard" not in text


@pytest.mark.parametrize("address", ["h:1", "tcp://h:1", "tls://h:1"])
def test_addresses_are_split(address):
    assert split_address(address) == ("h", 1)
    assert split_address("tls://[::1]:5") == ("::1", 5)


@pytest.mark.parametrize("address", ["", "h", "h:", ":1", "h:x", "tcp://", "h:99999"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match="expected host:port"):
        split_address(address)


def _commands(group, path=()):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        found = (*path, name)
        yield from (
            _commands(command, found) if isinstance(command, click.Group) else [(found, command)]
        )


@pytest.mark.parametrize(("path", "command"), list(_commands(cli)), ids=lambda each: str(each)[:40])
def test_each_help_has_an_example_that_the_command_accepts(path, command):
    example = " ".join(command.help.partition("Example: raycompat ")[2].split())
    words = shlex.split(example)
    # `rollout` is the former name of `evaluate`.
    assert tuple(words[: len(path)]) == (path if path[-1] != "rollout" else ("rllib", "evaluate"))
    arguments = words[len(path) :]
    if path[-1] in ("evaluate", "rollout"):
        arguments = ["." if each == "CHECKPOINT" else each for each in arguments]
    command.make_context(path[-1], arguments)


@pytest.mark.parametrize(("path", "command"), list(_commands(cli)), ids=lambda each: str(each)[:40])
def test_help_fits_eighty_columns(path, command):
    done = CliRunner().invoke(cli, [*path, "--help"], terminal_width=80)
    assert max(map(len, done.output.splitlines())) <= 80
