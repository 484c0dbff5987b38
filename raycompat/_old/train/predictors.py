"""Predictors of 1.12 to 2.48: a model from a checkpoint, applied to batches or to a whole data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from raycompat._old_forms.checkpoints import DICT_FILE
from raycompat._old_forms.packages import require
from raycompat._surface import forms
from raycompat.exceptions import UnsupportedRayFeatureError
from raycompat.train._checkpoint import Checkpoint
from raycompat.train._framework_checkpoint import FrameworkCheckpoint

__all__ = [
    "BatchPredictor",
    "LightGBMPredictor",
    "Predictor",
    "TensorflowPredictor",
    "TorchPredictor",
    "XGBoostPredictor",
]

#: The key of a model in a checkpoint that is a dict.
_MODEL_KEY = "model"


class Predictor:
    """Predicts batches. Subclasses write `from_checkpoint`, and one of the methods ``_predict_…``.

    Parameters
    ----------
    preprocessor : Preprocessor, optional
        Transforms each batch first.
    """

    def __init__(self, preprocessor: Any = None) -> None:
        self._preprocessor = preprocessor

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Predictor:
        """Make the predictor of a checkpoint."""
        raise NotImplementedError(f"{cls.__name__} has no method from_checkpoint().")

    @classmethod
    def from_pandas_udf(cls, pandas_udf: Callable[[Any], Any]) -> type[Predictor]:
        """Return a class that predicts by a function of a DataFrame."""

        class OfFunction(Predictor):
            @classmethod
            def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Predictor:
                return cls()

            def _predict_pandas(self, data: Any, **kwargs: Any) -> Any:
                return pandas_udf(data, **kwargs)

        return OfFunction

    def get_preprocessor(self) -> Any:
        """Return the preprocessor."""
        return self._preprocessor

    def set_preprocessor(self, preprocessor: Any) -> None:
        """Set the preprocessor."""
        self._preprocessor = preprocessor

    def predict(self, data: Any, **kwargs: Any) -> Any:
        """Return the predictions for a batch: of arrays for arrays, and of a DataFrame for one.

        Parameters
        ----------
        data : numpy.ndarray, dict of numpy.ndarray or pandas.DataFrame
            A batch; its first axis is that of the rows.
        """
        if self._preprocessor is not None:
            data = self._preprocessor.transform_batch(data)
        is_frame = hasattr(data, "to_dict") and hasattr(data, "columns")
        writes_frames = type(self)._predict_pandas is not Predictor._predict_pandas
        if is_frame and not writes_frames:
            return _as_frame(self._predict_numpy(_as_arrays(data), **kwargs))
        if not is_frame and writes_frames:
            return _as_arrays(self._predict_pandas(_as_frame(data), **kwargs))
        return (self._predict_pandas if is_frame else self._predict_numpy)(data, **kwargs)

    def _predict_pandas(self, data: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} predicts neither arrays nor DataFrames.")

    def _predict_numpy(self, data: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} predicts neither arrays nor DataFrames.")


def _as_arrays(frame: Any) -> Any:
    """Return a DataFrame's columns as arrays; of a single column its array."""
    columns = {
        str(name): np.stack(frame[name].to_list())
        if frame[name].dtype == object
        else frame[name].to_numpy()
        for name in frame.columns
    }
    return next(iter(columns.values())) if len(columns) == 1 else columns


def _as_frame(data: Any) -> Any:
    import pandas

    columns = data if isinstance(data, dict) else {"predictions": data}
    return pandas.DataFrame(
        {name: list(each) if np.ndim(each) > 1 else each for name, each in columns.items()}
    )


class _OfModel(Predictor):
    """Predicts with a model of a library.

    Parameters
    ----------
    model : object
        The model.
    """

    def __init__(self, model: Any, preprocessor: Any = None, use_gpu: bool = False) -> None:
        super().__init__(preprocessor)
        self.model, self.use_gpu = model, use_gpu

    def _predict_numpy(self, data: Any, dtype: Any = None, **kwargs: Any) -> Any:
        named = isinstance(data, dict)
        if named and len(data) == 1:
            (data,) = data.values()
            named = False
        if named:
            columns = {
                name: np.asarray(each, _of_column(dtype, name)) for name, each in data.items()
            }
            output = self.call_model(columns)
        else:
            output = self.call_model(np.asarray(data, _of_numpy(dtype)))
        if isinstance(output, dict):
            return output
        return {"predictions": output}

    def call_model(self, inputs: Any) -> Any:
        """Return the model's output for arrays, as an array."""
        raise NotImplementedError


def _of_column(dtype: Any, name: str) -> Any:
    return _of_numpy(dtype.get(name) if isinstance(dtype, dict) else dtype)


def _of_numpy(dtype: Any) -> Any:
    """Return the dtype of numpy for one of TensorFlow or PyTorch."""
    if hasattr(dtype, "as_numpy_dtype"):
        return dtype.as_numpy_dtype
    if type(dtype).__module__ != "torch":
        return dtype
    name = str(dtype).removeprefix("torch.")
    # Not by np.dtype, which also knows dtypes that other libraries have added.
    if not hasattr(np, "bool_" if name == "bool" else name):
        raise UnsupportedRayFeatureError(
            f"predict(dtype={dtype})",
            "A batch is of NumPy, which has no such dtype",
            "use dtype=torch.float32, and let the model convert it",
        )
    return np.dtype(name)


class TorchPredictor(_OfModel):
    """Predicts with a model of PyTorch."""

    @classmethod
    def from_checkpoint(  # type: ignore[override]
        cls, checkpoint: Checkpoint, model: Any = None, use_gpu: bool = False
    ) -> Self:
        """Make the predictor of a `TorchCheckpoint`, or of a dict with the key ``"model"``."""
        from raycompat.train.torch.torch_checkpoint import TorchCheckpoint

        loaded = _of_dict(checkpoint)
        if loaded is None:
            loaded = TorchCheckpoint(checkpoint.path, checkpoint.filesystem).get_model(model)
        elif isinstance(loaded, dict):
            bare = {name.removeprefix("module."): value for name, value in loaded.items()}
            model.load_state_dict(bare)
            loaded = model
        return cls(loaded, preprocessor_of(checkpoint), use_gpu)

    def call_model(self, inputs: Any) -> Any:
        """Return the output of the model, without gradients."""
        import torch

        device = torch.device("cuda" if self.use_gpu else "cpu")
        model = self.model.to(device).eval()

        def tensor(array: Any) -> Any:
            array = torch.as_tensor(array).to(device)
            return array.float() if array.dtype == torch.float64 else array

        tensors = (
            {name: tensor(each) for name, each in inputs.items()}
            if isinstance(inputs, dict)
            else tensor(inputs)
        )
        with torch.no_grad():
            output = model(tensors)
        if isinstance(output, dict):
            return {name: each.cpu().numpy() for name, each in output.items()}
        return output.cpu().numpy()


class TensorflowPredictor(_OfModel):
    """Predicts with a model of Keras."""

    @classmethod
    def from_checkpoint(  # type: ignore[override]
        cls, checkpoint: Checkpoint, model_definition: Any = None, use_gpu: bool = False
    ) -> Self:
        """Make the predictor of a `TensorflowCheckpoint`, or of a dict with weights as ``"model"``."""
        from raycompat.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint

        loaded = _of_dict(checkpoint)
        if loaded is None:
            loaded = TensorflowCheckpoint(checkpoint.path, checkpoint.filesystem).get_model()
        elif not callable(loaded):
            model = model_definition() if callable(model_definition) else model_definition
            model.set_weights(loaded)
            loaded = model
        return cls(loaded, preprocessor_of(checkpoint), use_gpu)

    def call_model(self, inputs: Any) -> Any:
        """Return the output of the model."""
        output = self.model(inputs)
        if isinstance(output, dict):
            return {name: np.asarray(each) for name, each in output.items()}
        return np.asarray(output)


def _of_dict(checkpoint: Checkpoint) -> Any:
    """Return the model, or its state, of a checkpoint that is a dict; None for a folder."""
    if not checkpoint._folder.exists(DICT_FILE):
        return None
    return checkpoint.to_dict()[_MODEL_KEY]


class OfColumns(Predictor):
    """Predicts with a model that takes the columns of a DataFrame.

    Parameters
    ----------
    model : object
        The model.
    """

    def __init__(self, model: Any, preprocessor: Any = None) -> None:
        super().__init__(preprocessor)
        self.model = model

    def predict(self, data: Any, **kwargs: Any) -> Any:
        """Return the predictions for a batch; columns of a plain array are named by their numbers."""
        if not isinstance(data, np.ndarray) or data.ndim < 2:
            return super().predict(data, **kwargs)
        frame = require("pandas", type(self).__name__).DataFrame(data.reshape(len(data), -1))
        return super().predict(frame, **kwargs)["predictions"].to_numpy()

    def _predict_pandas(
        self, data: Any, feature_columns: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        columns = data if feature_columns is None else data[list(feature_columns)]
        predictions = np.asarray(self.call_model(columns, **kwargs))
        return _as_frame({"predictions": predictions})

    def call_model(self, frame: Any, **kwargs: Any) -> Any:
        """Return the model's output for columns, as an array."""
        raise NotImplementedError


class XGBoostPredictor(OfColumns):
    """Predicts with a model of XGBoost."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Self:
        """Make the predictor of a checkpoint of `XGBoostTrainer`, or of a `XGBoostCheckpoint`."""
        from raycompat.train.xgboost import RayTrainReportCallback, XGBoostCheckpoint

        model = _of_trees(checkpoint, XGBoostCheckpoint, RayTrainReportCallback)
        return cls(model, preprocessor_of(checkpoint))

    def call_model(
        self, frame: Any, dmatrix_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> Any:
        """Return the predictions for columns."""
        xgboost = require("xgboost", "XGBoostPredictor")
        return self.model.predict(xgboost.DMatrix(frame, **dmatrix_kwargs or {}), **kwargs)


class LightGBMPredictor(OfColumns):
    """Predicts with a model of LightGBM."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Self:
        """Make the predictor of a checkpoint of `LightGBMTrainer`, or of a `LightGBMCheckpoint`."""
        from raycompat.train.lightgbm import LightGBMCheckpoint, RayTrainReportCallback

        model = _of_trees(checkpoint, LightGBMCheckpoint, RayTrainReportCallback)
        return cls(model, preprocessor_of(checkpoint))

    def call_model(self, frame: Any, **kwargs: Any) -> Any:
        """Return the predictions for columns."""
        from raycompat.train.lightgbm import normalize_pandas_for_lightgbm

        return self.model.predict(normalize_pandas_for_lightgbm(frame), **kwargs)


def preprocessor_of(checkpoint: Checkpoint) -> Any:
    """Return the preprocessor of a checkpoint, wherever its time kept it; None without one."""
    preprocessor = FrameworkCheckpoint(checkpoint.path, checkpoint.filesystem).get_preprocessor()
    if preprocessor is None and forms.is_used_today("ray.train.Checkpoint with a preprocessor"):
        preprocessor = Checkpoint.get_preprocessor(checkpoint)
    return preprocessor


def _of_trees(checkpoint: Checkpoint, checkpoint_cls: Any, callback_cls: Any) -> Any:
    """Return a model from a checkpoint of a callback, or from one that is a model."""
    made_by_hand = checkpoint._folder.exists(checkpoint_cls.MODEL_FILENAME)
    if made_by_hand:
        return checkpoint_cls(checkpoint.path, checkpoint.filesystem).get_model()
    return callback_cls.get_model(checkpoint)


class BatchPredictor:
    """Predicts a whole data set, in processes that each load the model once.

    Parameters
    ----------
    checkpoint : Checkpoint
        That of the model.
    predictor_cls : type
        A subclass of `Predictor`.
    **predictor_kwargs
        Arguments of its `from_checkpoint`.
    """

    def __init__(
        self, checkpoint: Checkpoint, predictor_cls: type[Predictor], **predictor_kwargs: Any
    ) -> None:
        self._checkpoint, self._class = checkpoint, predictor_cls
        self._kwargs = predictor_kwargs
        self._preprocessor: Any = None

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, predictor_cls: type[Predictor], **kwargs: Any
    ) -> Self:
        """Make the predictor of a checkpoint."""
        return cls(checkpoint, predictor_cls, **kwargs)

    def get_preprocessor(self) -> Any:
        """Return the preprocessor of the checkpoint, or that which was set."""
        return self._preprocessor or preprocessor_of(self._checkpoint)

    def set_preprocessor(self, preprocessor: Any) -> None:
        """Set the preprocessor."""
        self._preprocessor = preprocessor

    def predict(
        self,
        data: Any,
        *,
        feature_columns: list[str] | None = None,
        keep_columns: list[str] | None = None,
        batch_size: int = 4096,
        min_scoring_workers: int = 1,
        max_scoring_workers: int | None = None,
        num_cpus_per_worker: float | None = None,
        num_gpus_per_worker: float | None = None,
        **predict_kwargs: Any,
    ) -> Any:
        """Return a data set with the predictions.

        Parameters
        ----------
        data : Dataset
            The rows.
        feature_columns : list of str, optional
            The columns that the model gets. By default all.
        keep_columns : list of str, optional
            Columns that the result has beside the predictions.
        batch_size : int, default 4096
            Rows of a batch.
        min_scoring_workers, max_scoring_workers : int, optional
            How many processes predict.
        num_cpus_per_worker, num_gpus_per_worker : float, optional
            Resources of each.
        **predict_kwargs
            Arguments of `Predictor.predict`.
        """
        from raycompat.data import ActorPoolStrategy

        kept = keep_columns or []
        own, checkpoint, cls, kwargs = (
            self._preprocessor,
            self._checkpoint,
            self._class,
            self._kwargs,
        )

        class Score:
            def __init__(self) -> None:
                self._predictor = cls.from_checkpoint(checkpoint, **kwargs)
                if own is not None:
                    self._predictor.set_preprocessor(own)

            def __call__(self, batch: Any) -> Any:
                features = batch[feature_columns] if feature_columns else batch
                predictions = self._predictor.predict(features, **predict_kwargs)
                predictions = (
                    predictions if hasattr(predictions, "columns") else _as_frame(predictions)
                )
                for name in kept:
                    predictions[name] = batch[name].to_numpy()
                return predictions

        most = max_scoring_workers or max(min_scoring_workers, 2)
        return data.map_batches(
            Score,
            batch_size=batch_size,
            batch_format="pandas",
            compute=ActorPoolStrategy(min_size=min_scoring_workers, max_size=most),
            num_cpus=num_cpus_per_worker,
            num_gpus=num_gpus_per_worker,
        )
