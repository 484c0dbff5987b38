"""`JobConfig`: the settings of a job, as one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raycompat._protocol.logging_config import LoggingConfig
from raycompat._surface import forms
from raycompat.runtime_env import RuntimeEnv

__all__ = ["JobConfig"]


@forms.takes_old_options_in_constructor("ray.job_config.JobConfig")
class JobConfig:
    """The settings of a job, for ``init(job_config=...)``.

    Parameters
    ----------
    jvm_options : list of str, optional
        Options of Java workers. `init` refuses them: there are no Java workers.
    code_search_path : list of str, optional
        Folders in which tasks and actors look for modules before all others. `init` refuses archives of
        Java classes.
    runtime_env : dict or RuntimeEnv, optional
        As in `init`, whose own argument `runtime_env` replaces it.
    _client_job : bool, default False
        Whether the job comes by Ray Client. `init` refuses True.
    metadata : dict of str to str, optional
        Text for other programs: `raycompat.util.state.list_jobs` shows it with ``detail=True``.
    ray_namespace : str, optional
        As `namespace` in `init`, whose own argument replaces it.
    default_actor_lifetime : {"non_detached", "detached"}, default "non_detached"
        The lifetime of actors that are created without the option `lifetime`.
    _disable_job_level_lineage_reconstruction : bool, default False
        Whether lost objects stay lost. `init` refuses True.
    _py_driver_sys_path : list of str, optional
        More folders in which tasks and actors look for modules, after those of `code_search_path`.

    Raises
    ------
    TypeError
        When `code_search_path` is not a list or tuple.
    ValueError
        When `default_actor_lifetime` has another value.

    Notes
    -----
    Ray source: ``ray.job_config.JobConfig``, 2.60.0. Differs from Ray: with a `code_search_path`, tasks
    and actors still get functions and classes from the driver, where Ray imports them by name from
    those folders; values are checked by `init`.

    Examples
    --------
    >>> from raycompat.job_config import JobConfig
    >>> config = JobConfig(ray_namespace="letters", metadata={"owner": "mail room"})
    >>> config.set_default_actor_lifetime("detached")
    """

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: Sequence[str] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        _client_job: bool = False,
        metadata: dict[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _disable_job_level_lineage_reconstruction: bool = False,
        _py_driver_sys_path: list[str] | None = None,
    ) -> None:
        if not isinstance(code_search_path, list | tuple | None):
            raise TypeError(
                f"JobConfig: the type of code_search_path is {type(code_search_path)}; expected a list "
                f"of folders, as in code_search_path=[{code_search_path!r}]."
            )
        self.jvm_options = jvm_options or []
        self.code_search_path = code_search_path or []
        self.metadata = metadata or {}
        self.ray_namespace = ray_namespace
        self.py_logging_config: LoggingConfig | None = None
        self._client_job = _client_job
        self._disable_job_level_lineage_reconstruction = _disable_job_level_lineage_reconstruction
        self._py_driver_sys_path = _py_driver_sys_path or []
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)

    def set_metadata(self, key: str, value: str) -> None:
        """Set the entry `key` of the metadata to `value`.

        Examples
        --------
        >>> from raycompat.job_config import JobConfig
        >>> config = JobConfig()
        >>> config.set_metadata("owner", "team a")
        >>> config.metadata
        {'owner': 'team a'}
        """
        self.metadata[key] = value

    def set_runtime_env(
        self, runtime_env: Mapping[str, Any] | None, validate: bool = False
    ) -> None:
        """Replace the runtime environment.

        Parameters
        ----------
        runtime_env : dict or RuntimeEnv, optional
            The new one; none by default.
        validate : bool, default False
            Check it now, and not only in `init`.

        Examples
        --------
        >>> config = JobConfig()
        >>> config.set_runtime_env({"env_vars": {"MODE": "test"}})
        >>> config.runtime_env["env_vars"]
        {'MODE': 'test'}

        Raises
        ------
        TypeError, ValueError
            With `validate`, when the runtime environment is not valid.
        """
        self.runtime_env: Mapping[str, Any] = {} if runtime_env is None else runtime_env
        if validate and not isinstance(runtime_env, RuntimeEnv):
            self.runtime_env = RuntimeEnv(**self.runtime_env)

    def set_py_logging_config(self, logging_config: LoggingConfig | None = None) -> None:
        """Set how the job logs; `init`'s own argument `logging_config` replaces it.

        Examples
        --------
        >>> config = JobConfig()
        >>> config.set_py_logging_config(ray.LoggingConfig(log_level="DEBUG"))
        >>> config.py_logging_config.log_level
        'DEBUG'
        """
        self.py_logging_config = logging_config

    def ensure_logging_config(
        self, logging_config: dict[str, Any] | LoggingConfig | None = None
    ) -> None:
        """Set how the job logs to `logging_config`, unless it is set.

        Raises
        ------
        TypeError
            When the value is neither a `LoggingConfig` nor its fields.

        Examples
        --------
        >>> config = JobConfig()
        >>> config.ensure_logging_config({"log_level": "DEBUG"})
        >>> config.ensure_logging_config({"log_level": "ERROR"})
        >>> config.py_logging_config.log_level
        'DEBUG'
        """
        if logging_config is None or self.py_logging_config is not None:
            return
        if isinstance(logging_config, dict):
            logging_config = LoggingConfig.from_dict(logging_config)
        if not isinstance(logging_config, LoggingConfig):
            raise TypeError(
                f"logging_config is {logging_config!r}, of type {type(logging_config)}: expected a "
                "LoggingConfig, or a dict of its fields."
            )
        self.set_py_logging_config(logging_config)

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Set `ray_namespace`, where names of actors are looked up.

        Examples
        --------
        >>> config = JobConfig()
        >>> config.set_ray_namespace("team a")
        >>> config.ray_namespace
        'team a'
        """
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Set `default_actor_lifetime`, the lifetime of actors that are created without one.

        Examples
        --------
        >>> JobConfig().set_default_actor_lifetime("detached")

        Raises
        ------
        ValueError
            When it is neither "detached" nor "non_detached".
        """
        if default_actor_lifetime not in ("detached", "non_detached"):
            raise ValueError(
                f"Default actor lifetime is {default_actor_lifetime!r}: it must be 'detached' or "
                "'non_detached'."
            )
        self._default_actor_lifetime = default_actor_lifetime

    @classmethod
    def from_json(cls, job_config_json: Mapping[str, Any]) -> JobConfig:
        """Return the configuration with the values of `job_config_json`, a parsed JSON object.

        The keys are the parameters' names, without a leading underscore. `default_actor_lifetime` and
        other keys have no effect, as in Ray.

        Examples
        --------
        >>> JobConfig.from_json({"metadata": {"owner": "team a"}}).metadata
        {'owner': 'team a'}
        """
        given = job_config_json.get
        return cls(
            jvm_options=given("jvm_options"),
            code_search_path=given("code_search_path"),
            runtime_env=given("runtime_env"),
            metadata=given("metadata"),
            ray_namespace=given("ray_namespace"),
            _disable_job_level_lineage_reconstruction=given(
                "disable_job_level_lineage_reconstruction", False
            ),
            _client_job=given("client_job", False),
            _py_driver_sys_path=given("py_driver_sys_path"),
        )
