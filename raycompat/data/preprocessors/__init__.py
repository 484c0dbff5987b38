"""Preprocessors: changes of columns before training."""

from raycompat._surface.modules import names_of
from raycompat.data.preprocessors.concatenator import Chain, Concatenator
from raycompat.data.preprocessors.discretizer import (
    CustomKBinsDiscretizer,
    UniformKBinsDiscretizer,
)
from raycompat.data.preprocessors.encoder import (
    Categorizer,
    LabelEncoder,
    MultiHotEncoder,
    OneHotEncoder,
    OrdinalEncoder,
    SimpleImputer,
)
from raycompat.data.preprocessors.scaler import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from raycompat.data.preprocessors.text import (
    CountVectorizer,
    FeatureHasher,
    HashingVectorizer,
    Tokenizer,
)
from raycompat.data.preprocessors.torch import TorchVisionPreprocessor

__all__ = [
    "Categorizer",
    "Chain",
    "Concatenator",
    "CountVectorizer",
    "CustomKBinsDiscretizer",
    "FeatureHasher",
    "HashingVectorizer",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MultiHotEncoder",
    "Normalizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "Tokenizer",
    "TorchVisionPreprocessor",
    "UniformKBinsDiscretizer",
]

__getattr__ = names_of(__name__)
