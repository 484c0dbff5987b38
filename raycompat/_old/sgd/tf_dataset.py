"""`TFMLDataset` of ``ray.util.sgd.tf`` (1.0 to 1.13): tables as a data set of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import tensorflow as tf

if TYPE_CHECKING:
    from raycompat._old.sgd.torch_dataset import Tables

__all__ = ["TFMLDataset"]


class TFMLDataset:
    """The columns of an `MLDataset` as a ``tf.data.Dataset`` for each shard.

    The parameters are those of `TorchMLDataset`, with types and shapes of TensorFlow; by default a
    column has numbers of ``tf.float32``.

    Notes
    -----
    Ray source: ``ray.util.sgd.tf.tf_dataset.TFMLDataset``, 1.12.1. No known difference.
    """

    def __init__(
        self,
        ds: Tables,
        feature_columns: Any = None,
        feature_shapes: Any = None,
        feature_types: Any = None,
        label_column: Any = None,
        label_shape: tf.TensorShape | None = None,
        label_type: tf.DType | None = None,
    ) -> None:
        self._ds = ds
        self._features = _listed(feature_columns)
        shapes = _listed(feature_shapes) or [()] * len(self._features)
        types = _listed(feature_types) or [tf.float32] * len(self._features)
        specs = [tf.TensorSpec(*spec) for spec in zip(shapes, types, strict=True)]
        self._label = label_column
        label_spec = tf.TensorSpec(
            () if label_shape is None else label_shape, label_type or tf.float32
        )
        self._signature = (_alone(specs), label_spec)

    def set_num_shards(self, num_shards: int) -> None:
        """Deal the tables out to another number of shards."""
        if num_shards != self._ds.num_shards():
            self._ds = cast("Tables", self._ds.repartition(num_shards))

    def get_shard(self, shard_index: int, *args: Any, **options: Any) -> Any:
        """Return the rows of a shard, or of all if it is negative, as a ``tf.data.Dataset``.

        The other parameters are those of `MLDataset.get_repeatable_shard`.
        """
        tables = self._ds.get_repeatable_shard(shard_index, *args, **options)

        def rows() -> Iterator[tuple[Any, Any]]:
            for table in tables:
                columns = [table[name].to_numpy() for name in (*self._features, self._label)]
                for *features, label in zip(*columns, strict=True):
                    yield _alone(features), label

        return tf.data.Dataset.from_generator(rows, output_signature=self._signature)


def _alone(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [] if given is None else [given]
