"""Preprocessors: what is done to columns before training."""

from raycompat.data.preprocessors.concatenator import Chain, Concatenator
from raycompat.data.preprocessors.encoder import (
    LabelEncoder,
    OneHotEncoder,
    OrdinalEncoder,
    SimpleImputer,
)
from raycompat.data.preprocessors.scaler import MaxAbsScaler, MinMaxScaler, StandardScaler

__all__ = [
    "Chain",
    "Concatenator",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "OneHotEncoder",
    "OrdinalEncoder",
    "SimpleImputer",
    "StandardScaler",
]
