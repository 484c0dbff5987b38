"""Names of Ray that raycompat lacks, and private ones that packages import."""

import logging
import pickle

import pytest

import raycompat
from raycompat import _missing, exceptions, util
from raycompat._private import services


def test_a_missing_name_is_pickled_by_its_name():
    there = pickle.loads(pickle.dumps(_missing.MissingName("ray.serve.deployment")))
    assert repr(there) == repr(_missing.MissingName("ray.serve.deployment"))
    with pytest.raises(exceptions.UnsupportedRayFeatureError, match=r"ray\.serve\.deployment"):
        there()


def test_names_that_packages_import():
    assert isinstance(raycompat.logger, logging.Logger)
    assert services.get_node_ip_address() == util.get_node_ip_address()
