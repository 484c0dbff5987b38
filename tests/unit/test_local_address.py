from __future__ import annotations

import pytest

from raycompat._protocol import local_address


@pytest.mark.parametrize(
    ("value", "is_wanted"),
    [(None, True), ("", True), ("token", True), ("Token", True), ("disabled", False)],
)
def test_the_mode_is_as_ray_reads_it(monkeypatch, value, is_wanted):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if value is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", value)
    assert local_address.is_wanted() is is_wanted


def test_another_mode_is_refused(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "maybe")
    with pytest.raises(ValueError, match="expected 'token'"):
        local_address.is_wanted()
