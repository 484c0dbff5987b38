"""`FilenameProvider`: the names of the files that are written."""

from __future__ import annotations

from raycompat._surface.modules import names_of


class FilenameProvider:
    """Names the files that are written. Subclass it, and give it to a method that writes files.

    Parameters
    ----------
    dataset_uuid : str, optional
        The beginning of all names.
    file_format : str, optional
        The ending of all names, without its dot.

    Examples
    --------
    >>> from raycompat.data.datasource import FilenameProvider
    >>> class Numbered(FilenameProvider):
    ...     def get_filename_for_task(self, write_uuid, task_index):
    ...         return f"part_{task_index:03}.{self.file_format}"
    >>> Numbered(file_format="csv").get_filename_for_task("", 2)
    'part_002.csv'

    Notes
    -----
    Ray source: ``ray.data.datasource.FilenameProvider``, 2.60.0. Differs from Ray: the old methods
    ``get_filename_for_block`` and ``get_filename_for_row`` are not called.
    """

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None) -> None:
        self.dataset_uuid = dataset_uuid
        self.file_format = file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """Return the name of the file of a task; a file of one row has the row's number in addition.

        Parameters
        ----------
        write_uuid : str
            The same text for all files of one call of a method that writes, and of no other.
        task_index : int
            The task's number, from 0.
        """
        parts = [part for part in (self.dataset_uuid, write_uuid) if part is not None]
        ending = "" if self.file_format is None else f".{self.file_format}"
        return "_".join([*parts, f"{task_index:06}"]) + ending


__getattr__ = names_of(__name__)
