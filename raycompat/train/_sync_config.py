"""`SyncConfig`, which Tune's runs take."""

from __future__ import annotations

from dataclasses import dataclass, field

from raycompat._surface import forms
from raycompat.util._shown import ShownAsTable


@forms.has_old_members("ray.train.SyncConfig")
@forms.takes_old_options_in_constructor("ray.train.SyncConfig")
@dataclass
class SyncConfig(ShownAsTable):
    """How files of a run other than checkpoints are copied to its storage.

    Parameters
    ----------
    sync_period : int, default 300
        Seconds between two copies.
    sync_timeout : int, default 1800
        Seconds that a copy may take.
    sync_artifacts : bool, default False
        Whether files that trials write into their working folder are copied.
    sync_artifacts_on_checkpoint : bool, default True
        Whether they are copied with each checkpoint, too.

    Examples
    --------
    >>> from raycompat import train
    >>> train.SyncConfig(sync_artifacts=True).sync_artifacts
    True
    """

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True
    #: Where results go, by an option of 1.3 to 2.6.
    _storage_path: object = field(default=None, repr=False)


SyncConfig.__module__ = "raycompat.train"
