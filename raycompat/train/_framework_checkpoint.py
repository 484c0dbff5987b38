"""`FrameworkCheckpoint`: a checkpoint that is a model of a library, with its preprocessor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cloudpickle

from raycompat.train._checkpoint import Checkpoint

if TYPE_CHECKING:
    from raycompat.data.preprocessor import Preprocessor

#: The key of the metadata that a preprocessor is kept under.
_PREPROCESSOR = "preprocessor_pkl"


class FrameworkCheckpoint(Checkpoint):
    """A checkpoint that is a model of a library; a subclass saves and loads the model."""

    def get_preprocessor(self) -> Preprocessor | None:
        """Return the preprocessor that was stored with the model; None without one."""
        found = self.get_metadata().get(_PREPROCESSOR)
        return None if found is None else cloudpickle.loads(bytes.fromhex(found))

    def set_preprocessor(self, preprocessor: Preprocessor) -> None:
        """Store a preprocessor with the model."""
        self.update_metadata({_PREPROCESSOR: cloudpickle.dumps(preprocessor).hex()})
