"""Bodies of the other files, run again with ``init(local_mode=True)``.

Chosen are those that need no second process, and no call that waits for a later one.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent

#: What every session of these tests starts with.
OPTIONS = {
    "local_mode": True,
    "configure_logging": False,
    "num_cpus": 4,
    "num_gpus": 2,
    "resources": {"custom": 2},
}

#: Names of bodies, without ``test_``, by the file that has them.
CHOSEN = {
    "remote_function": """
        options_changes_one_call_only
        underscore_remote_takes_the_arguments_and_the_options
        num_returns_zero_gives_none_for_a_reference
        several_returns_come_from_any_iterable_of_that_length
        the_wrong_number_of_returns_is_a_value_error_at_get
        a_generator_that_ends_early_fails_the_returns_it_has_not_given
        a_failed_task_fails_all_of_its_returns
        a_function_can_call_itself
        a_function_can_return_a_reference
        the_function_is_pickled_at_the_first_call_and_not_again
        a_function_that_cannot_be_pickled_fails_at_the_call_not_at_decoration
        references_in_the_arguments_are_replaced_by_their_values
        references_within_an_argument_stay_references
        a_reference_in_a_closure_keeps_its_object_when_the_caller_drops_it
        a_tree_of_tasks_is_reduced
        a_task_that_changes_its_argument_changes_its_own_copy
        a_coroutine_function_is_not_a_task
    """,
    "actors": """
        an_actor_keeps_its_state_between_calls
        a_reference_in_a_list_given_to_the_constructor_stays_a_reference
        an_actor_class_can_be_pickled_and_used_in_a_task
        ray_method_declares_the_number_of_results
        a_wrong_number_of_results_is_a_value_error_at_get
        an_array_argument_of_a_method_is_read_only
        ray_ready_is_true_when_the_constructor_is_done
        ray_call_runs_a_function_on_the_instance
        a_handle_goes_to_a_task_in_a_container
        a_handle_comes_back_from_a_task
        a_handle_can_be_put
        a_handle_survives_pickle
        an_actor_holds_an_object_that_nobody_else_refers_to
        a_reference_that_an_actor_made_is_usable_by_the_driver
        an_error_in_a_method_names_class_method_and_actor
        an_error_in_the_constructor_is_raised_by_the_get_of_a_method
        the_error_of_an_argument_of_the_constructor_kills_the_actor
        the_error_of_an_argument_of_a_method_is_raised_and_the_method_is_not_run
        get_actor_works_in_a_task
        a_name_that_is_taken_is_a_value_error
        names_are_unique_per_namespace
        get_if_exists_makes_the_actor_once
        a_name_is_free_again_after_kill
        list_named_actors_has_the_names_of_this_namespace
    """,
    "errors": """
        an_error_that_cannot_be_pickled_gives_its_text
        a_base_exception_gives_a_task_error_of_its_class
        an_error_of_ray_raised_by_a_task_keeps_its_class
        the_text_of_a_dependent_task_says_which_input_failed
        a_dependent_of_a_failed_task_does_not_run
        an_error_got_in_a_task_goes_on_to_its_caller
        an_argument_that_cannot_be_pickled_is_a_type_error_in_the_caller
        a_result_that_cannot_be_unpickled_is_a_system_error
        an_argument_that_cannot_be_unpickled_fails_the_task
    """,
    "nested": """
        the_fibonacci_numbers_are_computed_by_tasks
        a_hundred_references_travel_in_one_list
        a_reference_to_a_reference_to_a_reference_is_got_in_three_steps
        an_object_that_a_task_put_outlives_the_task
        an_actor_keeps_an_object_whose_reference_the_driver_dropped
        a_reference_in_an_error_keeps_its_object
        large_arrays_in_a_dict_of_lists_arrive_whole
    """,
    "put_get_wait": """
        what_was_put_can_be_got
        get_with_timeout_zero_gives_what_is_there
    """,
}


def _bodies(file: str, names: list[str]) -> dict[str, object]:
    spec = importlib.util.spec_from_file_location(f"local_{file}", HERE / f"test_{file}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {f"test_{file}_{name}": getattr(module, f"test_{name}") for name in names}


for _file, _names in CHOSEN.items():
    globals().update(_bodies(_file, _names.split()))


@pytest.fixture(autouse=True)
def cluster(ray: ModuleType):
    """A session of local mode, where other files have a cluster."""
    if ray.__name__ == "ray":
        pytest.skip("Ray's local mode is deprecated, and differs from its clusters")
    ray.shutdown()
    ray.init(**OPTIONS)
    yield ray
    ray.shutdown()
