"""Submitted jobs: the fields of a request, the names that the parts share, and the words for states."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from raycompat._protocol.text import LARGEST_INTEGER, checked_key, checked_text

#: The namespace and the names of the actors that supervise jobs: Ray's.
NAMESPACE, _ACTOR = "SUPERVISOR_ACTOR_RAY_NAMESPACE", "_ray_internal_job_actor_{}"

#: The entries of a job's metadata that name its submission: Ray's.
ID_ENTRY, NAME_ENTRY = "job_submission_id", "job_name"

#: The variable with the settings of a submitted driver, as JSON: Ray's.
CONFIG_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"

#: The variable with the file for the report of one program. Jobs do not inherit it.
REPORT_VARIABLE = "RAYCOMPAT_REPORT"

#: The version of the requests: Ray's.
VERSION = "4"

#: The states from which a job does not come back.
FINAL = ("STOPPED", "SUCCEEDED", "FAILED")

_ID_CHARACTERS, _ID_LENGTH = string.ascii_letters + string.digits, 16

#: Characters of an id that is given, and bytes of the name of a file, which the id is a part of.
_LONGEST_ID, _LONGEST_NAME = 200, 255


def new_id() -> str:
    """Return the id of a submission that has none."""
    return "raysubmit_" + "".join(secrets.choice(_ID_CHARACTERS) for _ in range(_ID_LENGTH))


def actor_name(submission_id: str) -> str:
    """Return the name of the actor that supervises a job."""
    return _ACTOR.format(submission_id)


def id_of_actor(name: str | None) -> str | None:
    """Return the submission of the actor with that name; None if it supervises none."""
    before = _ACTOR.format("")
    return name.removeprefix(before) if name is not None and name.startswith(before) else None


def log_name(submission_id: str) -> str:
    """Return the name of the file with a job's output."""
    return f"job-driver-{quote(submission_id, safe='')}.log"


def encoded(fields: Mapping[str, object] | None) -> bytes:
    """Return the body of a request."""
    return b"" if fields is None else json.dumps(fields).encode()


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )


def _id(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID:
        return False
    try:
        return len(log_name(value)) <= _LONGEST_NAME
    except UnicodeEncodeError:
        return False


def _environment(value: object) -> bool:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return False
    variables, modules = value.get("env_vars"), value.get("py_modules")
    return (variables is None or _texts(variables)) and (
        modules is None or isinstance(modules, list | tuple)
    )


def _amounts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and _number(each) for key, each in value.items()
    )


#: What each optional field must be, in words, and the test of it.
_EXPECTED: Mapping[str, tuple[str, Any]] = {
    "submission_id": (
        (
            f"a string of 1 to {_LONGEST_ID} characters, whose form in URLs ('%C3%A9' for 'é') has "
            f"{_LONGEST_NAME - len(log_name(''))} at most"
        ),
        _id,
    ),
    "runtime_env": (
        "a dict with strings as keys, with a dict of strings as env_vars and a list as py_modules",
        _environment,
    ),
    "metadata": ("a dict of strings, such as {'owner': 'mail room'}", _texts),
    "entrypoint_num_cpus": ("a number, 0 or more", _number),
    "entrypoint_num_gpus": ("a number, 0 or more", _number),
    "entrypoint_memory": (
        "a whole number of bytes",
        lambda value: _number(value) and isinstance(value, int),
    ),
    "entrypoint_resources": ("a dict of numbers, such as {'special': 1}", _amounts),
    "entrypoint_label_selector": ("a dict of strings, such as {'zone': 'west'}", _texts),
}


@dataclass(frozen=True)
class SubmitRequest:
    """A request to run a command as a job. The fields and their names are Ray's."""

    entrypoint: str
    submission_id: str
    runtime_env: dict[str, Any]
    metadata: dict[str, str]
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    entrypoint_label_selector: dict[str, str] | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the fields that have a value."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _check_for_messages(what: str, value: object) -> None:
    """Raise ValueError if messages cannot hold a value: one job would hide all others."""
    if isinstance(value, str):
        checked_text(what, value)
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise ValueError(f"{what}: the number {value} is too large. It can have 64 bits.")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if isinstance(key, str):
                checked_key(what, key)
            _check_for_messages(what, each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_for_messages(what, each)


def checked(fields: Mapping[str, Any]) -> SubmitRequest:
    """Return the request with these fields; one without an id gets a new one.

    Raises
    ------
    TypeError
        When a field is unknown or has a value that is not valid.
    ValueError
        When a message cannot hold a text or a number in a field.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    if "job_id" in given:  # its name until Ray 2.0
        given.setdefault("submission_id", given.pop("job_id"))
        given.pop("job_id", None)
    wrong = [name for name in given if name not in _EXPECTED and name != "entrypoint"]
    if wrong:
        raise TypeError(
            f"A job has no fields {wrong!r}. It has: entrypoint, {', '.join(_EXPECTED)}."
        )
    entrypoint = given.get("entrypoint")
    if not isinstance(entrypoint, str) or not entrypoint.strip() or "\0" in entrypoint:
        raise TypeError(
            f"entrypoint={entrypoint!r}: expected a command of the shell, such as 'python program.py'."
        )
    for name, value in given.items():
        if name in _EXPECTED and not _EXPECTED[name][1](value):
            raise TypeError(f"{name}={value!r}: expected {_EXPECTED[name][0]}.")
    try:
        json.dumps(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"runtime_env={given.get('runtime_env')!r}: {error}.") from error
    for name, value in given.items():
        _check_for_messages(name, value)
    given.setdefault("submission_id", new_id())
    given.setdefault("runtime_env", {})
    given.setdefault("metadata", {})
    return SubmitRequest(**given)
