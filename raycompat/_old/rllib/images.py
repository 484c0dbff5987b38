"""Functions of images that programs import from ``ray.rllib.utils.images``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: How bright the eye sees red, green and blue (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114])


def resize(img: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Return an image in another size; each pixel is the mean of the area that it covers.

    Parameters
    ----------
    img : array, shape (height, width) or (height, width, channels)
    height, width : int

    Returns
    -------
    array
        Of the same type.
    """
    pixels = np.asarray(img)
    rows, columns = _shares(pixels.shape[0], height), _shares(pixels.shape[1], width)
    parts = (rows, pixels.astype(np.float64), columns)
    found = np.einsum("ab,bc...,dc->ad...", *parts, optimize=True)
    return _of_type(found, pixels.dtype)


def _shares(before: int, after: int) -> NDArray[Any]:
    """Return which part of each new pixel each old one makes, of shape (after, before)."""
    if after < 1:
        raise ValueError(f"resize: {after} pixels: expected 1 or more.")
    edges = np.arange(after + 1) * (before / after)
    begins, ends = edges[:-1, None], edges[1:, None]
    old = np.arange(before)[None, :]
    covered = np.minimum(ends, old + 1) - np.maximum(begins, old)
    return np.asarray(np.clip(covered, 0, None) * (after / before))


def rgb2gray(img: NDArray[Any]) -> NDArray[Any]:
    """Return the brightness of an image in red, green and blue.

    Parameters
    ----------
    img : array, shape (height, width, 3)

    Returns
    -------
    array, shape (height, width)
        Of the same type.
    """
    pixels = np.asarray(img)
    return _of_type(pixels.astype(np.float64) @ _BRIGHTNESS, pixels.dtype)


def _of_type(found: NDArray[Any], dtype: Any) -> NDArray[Any]:
    is_whole = np.issubdtype(dtype, np.integer)
    return (np.rint(found) if is_whole else found).astype(dtype)


__all__ = ["resize", "rgb2gray"]
