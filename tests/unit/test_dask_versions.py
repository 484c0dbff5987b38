"""Releases of Dask: older ones are refused, newer ones give one warning."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import warnings
from importlib import metadata
from pathlib import Path

import pytest

from raycompat._dask import versions
from raycompat.exceptions import UntriedDaskWarning

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def found(monkeypatch, version):
    monkeypatch.setattr(metadata, "version", lambda name: version)


@pytest.mark.parametrize("version", ["2025.4.0", "2025.12.0", "2026.8.0", "2026.8.0+4.gabc12"])
def test_releases_that_were_tried_give_no_warning(monkeypatch, version):
    found(monkeypatch, version)
    versions._require()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.warn_if_untried()


@pytest.mark.parametrize("version", ["2026.8.1", "2026.11.0", "2027.1.0.dev3+gabc12"])
def test_a_newer_release_warns_and_says_what_was_tried(monkeypatch, version):
    found(monkeypatch, version)
    versions._require()
    with pytest.warns(UntriedDaskWarning, match=rf"Dask {version[:6]}.* 2026\.8\.0") as given:
        versions.warn_if_untried()
    assert "pip install 'distributed==2026.8.0'" in str(given[0].message)


@pytest.mark.parametrize("version", ["2025.3.1", "2024.12.0"])
def test_an_older_release_is_refused(monkeypatch, version):
    found(monkeypatch, version)
    with pytest.raises(ImportError, match=rf"Dask {version} is too old.*2025\.4\.0"):
        versions._require()


def test_the_adapter_refuses_an_older_release_before_it_imports_private_names():
    script = (
        "from importlib import metadata; metadata.version = lambda name: '2025.1.0'\n"
        "import raycompat._dask"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "Dask 2025.1.0 is too old" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(not PYPROJECT.exists(), reason="the tests are not in a checkout")
def test_the_oldest_release_is_that_of_the_package():
    required = tomllib.loads(PYPROJECT.read_text())["project"]["dependencies"]
    oldest = ".".join(versions.OLDEST.split(".")[:2])
    assert f"dask>={oldest}" in required
    assert f"distributed>={oldest}" in required
