"""`prepare_dataset_shard`: keeps TensorFlow from dividing a data set that is already divided."""

from __future__ import annotations

from typing import Any

__all__ = ["prepare_dataset_shard"]


def prepare_dataset_shard(tf_dataset_shard: Any) -> Any:
    """Return a data set of TensorFlow that a strategy takes as this worker's part.

    Parameters
    ----------
    tf_dataset_shard : tf.data.Dataset
        The worker's part, for example ``get_dataset_shard("train").to_tf(...)``.

    Returns
    -------
    tf.data.Dataset
        The same, with automatic sharding off, and its next batch prepared while one is trained on.

    Examples
    --------
    >>> import tensorflow as tf
    >>> from raycompat.train.tensorflow import prepare_dataset_shard
    >>> part = prepare_dataset_shard(tf.data.Dataset.range(4))
    >>> part.options().experimental_distribute.auto_shard_policy.name
    'OFF'
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf_dataset_shard.with_options(options).prefetch(tf.data.AUTOTUNE)
