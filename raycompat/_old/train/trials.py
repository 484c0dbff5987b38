"""The functions of Ray Train in a trial of Tune, where 2.0 to 2.48 had the same functions for both."""

from __future__ import annotations

from typing import Any

from raycompat.tune.trainable import session


class ContextOfTrial(session.TuneContext):
    """The result of ``train.get_context()`` in a trial: the trial, and a worker without others."""

    def __init__(self) -> None:
        place = session.current("get_context").place
        assert place is not None
        super().__init__(place)
        self._folder = place.folder

    def get_world_size(self) -> int:
        """Return the number of workers, which is one."""
        return 1

    def get_world_rank(self) -> int:
        """Return the number of this worker, which is the only one."""
        return 0

    get_local_rank = get_node_rank = get_world_rank
    get_local_world_size = get_world_size

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata of a trainer: a function of Tune has none."""
        return {}

    def get_storage(self) -> Any:
        """Return where the trial keeps its files."""
        from raycompat.train._context import StorageContext

        return StorageContext(self._folder)
