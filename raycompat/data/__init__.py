"""Data sets: rows in blocks that flow through tasks, for training and for the steps before it.

The life of a row, in ``ray.data.read_parquet(path).map_batches(f).iter_batches()``:

1. `read_parquet` finds the files, and makes a plan: read tasks (`file_datasource`, `plan`).
2. `map_batches` adds a step to the plan; nothing runs yet (`maps`, `transform`).
3. `iter_batches` makes operators from the plan; steps that can share a task become one (`plan`). It
   also makes an `Execution` of them, which has a thread (`execution`).
4. The execution starts tasks while a CPU is free and there is room for their results (`operators`,
   `tasks`). Blocks are Arrow tables in the object store (`block`, `tensor`); the driver has references,
   and the numbers of rows and bytes.
5. The iterator fetches the blocks in order, and cuts them into batches (`iterator`, `batch`).

An operation that needs all blocks at once (sort, shuffle, groupby) is an exchange in two stages
(`exchange`).
"""

from __future__ import annotations

try:
    import pandas as _pandas  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"raycompat.data needs pyarrow, pandas and fsspec ({error}): pip install 'raycompat[data]'"
    ) from error

# Ray has these modules, too; they are not in its list of names.
from raycompat._surface.modules import names_of
from raycompat.data import aggregate as aggregate
from raycompat.data import block as block
from raycompat.data import collate_fn as collate_fn
from raycompat.data import expressions as expressions
from raycompat.data import preprocessors as preprocessors
from raycompat.data.compute import ActorPoolStrategy, TaskPoolStrategy
from raycompat.data.context import DataContext
from raycompat.data.dataset import Dataset
from raycompat.data.datasink import (
    BlockBasedFileDatasink,
    Datasink,
    RowBasedFileDatasink,
    SaveMode,
)
from raycompat.data.datasource import Datasource, ReadTask
from raycompat.data.files import FileShuffleConfig
from raycompat.data.iterator import DataIterator
from raycompat.data.limits import ExecutionOptions, ExecutionResources
from raycompat.data.mixing import MixStoppingCondition
from raycompat.data.preprocessor import Preprocessor
from raycompat.data.read_api import (
    read_audio,
    read_avro,
    read_binary_files,
    read_csv,
    read_images,
    read_json,
    read_numpy,
    read_orc,
    read_parquet,
    read_text,
    read_tfrecords,
    read_webdataset,
)
from raycompat.data.schema import Schema
from raycompat.data.seeds import RandomSeedConfig
from raycompat.data.sources import (
    from_arrow,
    from_arrow_refs,
    from_blocks,
    from_dask,
    from_huggingface,
    from_items,
    from_numpy,
    from_numpy_refs,
    from_pandas,
    from_pandas_refs,
    from_tf,
    range,
    range_tensor,
    read_datasource,
    read_sql,
)
from raycompat.data.summary import DatasetSummary
from raycompat.data.torch_datasource import from_torch

#: The names that Ray had before.
DatasetContext = DataContext
DatasetIterator = DataIterator

__all__ = [
    "ActorPoolStrategy",
    "BlockBasedFileDatasink",
    "DataContext",
    "DataIterator",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "DatasetSummary",
    "Datasink",
    "Datasource",
    "ExecutionOptions",
    "ExecutionResources",
    "FileShuffleConfig",
    "MixStoppingCondition",
    "Preprocessor",
    "RandomSeedConfig",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "from_arrow",
    "from_arrow_refs",
    "from_blocks",
    "from_dask",
    "from_huggingface",
    "from_items",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_tf",
    "from_torch",
    "range",
    "range_tensor",
    "read_audio",
    "read_avro",
    "read_binary_files",
    "read_csv",
    "read_datasource",
    "read_images",
    "read_json",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_sql",
    "read_text",
    "read_tfrecords",
    "read_webdataset",
]

__getattr__ = names_of(__name__)
