"""PyTorch, which is optional: imported when a function needs it, not with raycompat."""

from __future__ import annotations

from typing import Any


def imported(user: str) -> Any:
    """Return the module ``torch``.

    Parameters
    ----------
    user : str
        The part of raycompat that needs it, for the error.

    Raises
    ------
    ImportError
        When PyTorch cannot be imported; the text says how to install it.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{user} needs PyTorch, which cannot be imported ({error}): "
            "pip install 'raycompat[torch]'."
        ) from error
    return torch
