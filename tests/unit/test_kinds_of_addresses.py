"""Texts that say where a cluster is: each is an address, or a malformed one."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raycompat._connect import addresses
from raycompat._connect.addresses import Destination, MalformedAddressError

HOSTS = st.sampled_from(["localhost", "127.0.0.1", "node-1.example.org", "[::1]"])


@given(HOSTS, st.integers(1, 65535))
def test_a_host_and_a_port_are_an_address_of_dask_s(host, port):
    place = f"{host}:{port}"
    assert addresses.find(place) == Destination(f"tcp://{place}")
    assert addresses.find(f"ray://{place}") == Destination(f"tcp://{place}")
    assert addresses.find(f"tls://{place}") == Destination(f"tls://{place}")


@pytest.mark.parametrize(
    ("host", "is_led"),
    [(socket.gethostname(), True), ("127.0.0.2", True), ("192.0.2.1", False)],
    ids=["name", "address", "elsewhere"],
)
def test_each_name_of_this_machine_leads_to_its_head_from_ray_s_client_port(
    monkeypatch, host, is_led
):
    monkeypatch.setattr(addresses.current_cluster, "find", lambda: "tcp://127.0.0.1:6379")
    monkeypatch.setattr(addresses, "CLIENT_PORT", 1)  # nothing listens there
    found = addresses.find(f"ray://{host}:1")
    assert found == Destination("tcp://127.0.0.1:6379" if is_led else f"tcp://{host}:1")


@given(HOSTS, st.integers().filter(lambda port: not 0 < port < 65536))
def test_a_port_that_there_is_not_is_malformed(host, port):
    for scheme in ("", "ray://", "tcp://", "tls://"):
        with pytest.raises(MalformedAddressError):
            addresses.find(f"{scheme}{host}:{port}")


@given(st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1))
def test_a_text_is_an_address_or_malformed(text):
    if text in ("auto", "local"):
        return
    try:
        destination = addresses.find(text)
    except MalformedAddressError:
        return
    assert destination == Destination(f"tcp://{text}")
    host, _, port = text.rpartition(":")
    assert host
    assert 0 < int(port) < 65536


def test_local_is_no_destination():
    assert addresses.find("local") is None


def test_a_malformed_address_is_an_error_of_both_kinds():
    assert issubclass(MalformedAddressError, ConnectionError)
    assert issubclass(MalformedAddressError, ValueError)
