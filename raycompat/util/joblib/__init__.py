"""`register_ray`: ``joblib.parallel_config(backend="ray")`` runs joblib's calls on the cluster."""

__all__ = ["register_ray"]


def register_ray() -> None:
    """Register the backend ``"ray"`` with joblib, for scikit-learn and other users of joblib.

    Raises
    ------
    ImportError
        When joblib is not installed.

    Examples
    --------
    >>> import joblib
    >>> from raycompat.util.joblib import register_ray
    >>> register_ray()
    >>> with joblib.parallel_config(backend="ray", n_jobs=2):
    ...     joblib.Parallel()(joblib.delayed(abs)(x) for x in (-1, 2))
    [1, 2]

    Notes
    -----
    Ray source: ``ray.util.joblib.register_ray``, 2.60.0. No known difference.
    """
    try:
        from joblib.parallel import register_parallel_backend

        from raycompat.util.joblib.ray_backend import RayBackend
    except ImportError as error:
        raise ImportError(
            "register_ray needs joblib, which scikit-learn installs: pip install joblib"
        ) from error
    register_parallel_backend("ray", RayBackend)
