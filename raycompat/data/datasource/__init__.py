"""Data sources and sinks, names of files, and columns in names of folders, where Ray has them."""

from raycompat._surface.modules import names_of
from raycompat.data.datasink import (
    BlockBasedFileDatasink,
    Datasink,
    RowBasedFileDatasink,
    SaveMode,
    WriteResult,
)
from raycompat.data.datasource.datasource import Datasource, ReadTask
from raycompat.data.datasource.partitioning import (
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)
from raycompat.data.filename_provider import FilenameProvider
from raycompat.data.files import FileShuffleConfig

__all__ = [
    "BlockBasedFileDatasink",
    "Datasink",
    "Datasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "PartitionStyle",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "WriteResult",
]

__getattr__ = names_of(__name__)
