"""Names of Ray that raycompat lacks, and private ones that packages import."""

import logging
import operator
import pickle
import re
import subprocess
import sys
from unittest import mock

import pytest

import raycompat
from raycompat import _as_ray, exceptions, util
from raycompat._private import services
from raycompat._surface import missing


def test_a_missing_name_is_pickled_by_its_name():
    there = pickle.loads(pickle.dumps(missing.MissingName("ray.serve.deployment")))
    assert repr(there) == repr(missing.MissingName("ray.serve.deployment"))
    with pytest.raises(exceptions.UnsupportedRayFeatureError, match=r"ray\.serve\.deployment"):
        there()


def test_a_missing_part_is_found_under_ray_s_name_and_nothing_else_is():
    finder = _as_ray._MissingFinder()
    assert finder.find_spec("raycompat.serve", None).name == "ray.serve"
    for other in ("raycompat.nothing", "raycompat.data.nothing", "numpy.serve"):
        assert finder.find_spec(other, None) is None


def test_names_that_packages_import():
    assert isinstance(raycompat.logger, logging.Logger)
    assert services.get_node_ip_address() == util.get_node_ip_address()


@pytest.mark.parametrize("name", ["cross_language", "client_builder", "widgets", "internal"])
def test_modules_that_ray_imports_itself_are_attributes_and_refuse_when_they_are_used(name):
    there = operator.attrgetter(name)(raycompat)
    with pytest.raises(exceptions.UnsupportedRayFeatureError, match=name):
        there.function()


def test_modules_that_ray_imports_itself_need_no_import():
    program = (
        "import raycompat as ray\n"
        "assert not hasattr(ray.util, 'queue')\n"
        "from raycompat import air, tune\n"
        "ray.air.config.RunConfig, ray.util.queue.Queue, ray.tune.utils"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_transport_of_a_program_can_be_written_and_refuses_when_it_is_registered():
    from raycompat.experimental import TensorTransportManager, register_tensor_transport

    class Transport(TensorTransportManager):
        pass

    with pytest.raises(exceptions.UnsupportedRayFeatureError, match="'gloo'"):
        register_tensor_transport("mine", ["cpu"], Transport, object)


def test_programs_can_replace_what_is_missing_as_with_ray():
    with mock.patch("raycompat.cross_language", new="replaced"):
        assert raycompat.cross_language == "replaced"
    assert isinstance(raycompat.cross_language, missing.MissingName)


def test_the_private_modules_that_programs_read_need_no_import():
    program = "import raycompat as ray; print(ray._private.services.get_node_ip_address())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert re.fullmatch(r"[\d.]+\n", done.stdout), done.stderr


def test_a_private_module_that_is_refused_says_why_without_an_import():
    with pytest.raises(exceptions.UnsupportedRayFeatureError, match="last reference is gone"):
        raycompat._private.internal_api.global_gc()
