"""Names of the formats in `export_formats` of `Experiment` and `tune.run`."""

from __future__ import annotations


class ExportFormat:
    """The names of the formats in which a trial's model can be exported.

    A trainable's ``_export_model(export_formats, export_dir)`` can know others.

    Notes
    -----
    Ray source: ``ray.tune.experiment.trial.ExportFormat``, 2.60.0.
    """

    CHECKPOINT = "checkpoint"
    MODEL = "model"
    ONNX = "onnx"
    H5 = "h5"

    @staticmethod
    def validate(formats: list[str]) -> None:
        """Write the names in lower case, in place.

        Raises
        ------
        ValueError
            When a format is unknown.
        """
        formats[:] = [each.strip().lower() for each in formats]
        for each in formats:
            if each not in _KNOWN:
                raise ValueError(
                    f"{each!r} is not a format of an export: expected one of {_KNOWN}."
                )


_KNOWN = (ExportFormat.CHECKPOINT, ExportFormat.MODEL, ExportFormat.ONNX, ExportFormat.H5)
