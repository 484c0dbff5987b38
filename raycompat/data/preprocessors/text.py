"""Preprocessors that make numbers of text: tokens, their counts, hashes of names."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from raycompat._old_forms.data.options import hashes_into_columns
from raycompat._old_forms.data.vectors import is_of_their_time, of_their_time
from raycompat.data.preprocessor import Preprocessor
from raycompat.data.preprocessors.columns import counted, outputs

if TYPE_CHECKING:
    from raycompat.data.dataset import Dataset

Tokenize = Callable[[str], Sequence[str]]


def simple_split_tokenizer(text: str) -> list[str]:
    """Return the parts of a text between spaces."""
    return text.split(" ")


def simple_hash(value: object, num_features: int) -> int:
    """Return a number below `num_features`, the same in all processes and in the program's Ray."""
    algorithm = hashlib.sha1 if is_of_their_time() else hashlib.sha256
    return int(algorithm(str(value).encode()).hexdigest(), 16) % num_features


class _OfText(Preprocessor):
    """Calls a function with the tokens of each text; a missing text stays missing."""

    def __init__(
        self,
        columns: Sequence[str],
        tokenization_fn: Tokenize | None,
        output_columns: Sequence[str] | None,
    ) -> None:
        self.columns = list(columns)
        self.tokenization_fn = tokenization_fn or simple_split_tokenizer
        self.output_columns = outputs(self.columns, output_columns)

    def _made_of(self, column: str) -> Callable[[Sequence[str]], object]:
        raise NotImplementedError

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = {}
        for column, output in zip(self.columns, self.output_columns, strict=True):
            function = self._made_of(column)
            values = [
                None if pd.isna(text) else function(self.tokenization_fn(text))
                for text in df[column]
            ]
            made[output] = pd.Series(values, index=df.index, dtype=object)
        named = {
            output: self._names_of(column)
            for column, output in zip(self.columns, self.output_columns, strict=True)
        }
        return of_their_time(
            df.assign(**made), {output: names for output, names in named.items() if names}
        )

    def _names_of(self, column: str) -> list[str]:
        """Return what the items of a result are; none for lists of several lengths."""
        return []


class Tokenizer(_OfText):
    """Replace text by the list of its tokens.

    Parameters
    ----------
    columns : list of str
        Columns of text.
    tokenization_fn : callable, optional
        Returns the tokens of a text. Default: the parts between spaces.
    output_columns : list of str, optional
        Columns for the results. Default: the columns themselves.

    Examples
    --------
    >>> from raycompat.data.preprocessors import Tokenizer
    >>> rows = ray.data.from_items([{"text": "a small sea"}])
    >>> (row,) = Tokenizer(["text"]).transform(rows).take_all()
    >>> list(row["text"])
    ['a', 'small', 'sea']
    """

    _is_fittable = False

    def __init__(
        self,
        columns: Sequence[str],
        tokenization_fn: Tokenize | None = None,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)

    def _made_of(self, column: str) -> Callable[[Sequence[str]], object]:
        return list


class HashingVectorizer(_OfText):
    """Replace text by counts of its tokens, at positions given by their hashes.

    Parameters
    ----------
    columns : list of str
        Columns of text.
    num_features : int
        Number of counts; tokens whose hashes are equal are counted together.
    tokenization_fn : callable, optional
        Returns the tokens of a text. Default: the parts between spaces.
    output_columns : list of str, optional
        Where the results go, lists of `num_features` counts. Default: in place of the columns.

    Examples
    --------
    >>> from raycompat.data.preprocessors import HashingVectorizer
    >>> rows = ray.data.from_items([{"text": "sea sun sea"}])
    >>> (row,) = (
    ...     HashingVectorizer(["text"], num_features=8).transform(rows).take_all()
    ... )
    >>> len(row["text"]), sum(row["text"])
    (8, 3)
    """

    _is_fittable = False
    _shown = ("columns", "num_features", "tokenization_fn", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        num_features: int,
        tokenization_fn: Tokenize | None = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        self.num_features = num_features

    def _made_of(self, column: str) -> Callable[[Sequence[str]], object]:
        def count(tokens: Sequence[str]) -> list[int]:
            counted = Counter(simple_hash(token, self.num_features) for token in tokens)
            return [counted[number] for number in range(self.num_features)]

        return count

    def _names_of(self, column: str) -> list[str]:
        return [f"hash_{column}_{number}" for number in range(self.num_features)]


class CountVectorizer(_OfText):
    """Replace text by counts of the tokens in the data set, the most frequent first.

    Parameters
    ----------
    columns : list of str
        Columns of text.
    tokenization_fn : callable, optional
        Returns the tokens of a text. Default: the parts between spaces.
    max_features : int, optional
        Maximum number of tokens to count. Default: all.
    output_columns : list of str, optional
        Where the results go, lists of counts. Default: in place of the columns.

    Examples
    --------
    >>> from raycompat.data.preprocessors import CountVectorizer
    >>> rows = ray.data.from_items([{"text": "sea sun sea"}, {"text": "sun"}])
    >>> [
    ...     list(row["text"])
    ...     for row in CountVectorizer(["text"]).fit_transform(rows).take_all()
    ... ]
    [[2, 1], [0, 1]]
    """

    _shown = ("columns", "tokenization_fn", "max_features", "output_columns")

    def __init__(
        self,
        columns: Sequence[str],
        tokenization_fn: Tokenize | None = None,
        max_features: int | None = None,
        *,
        output_columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        self.max_features = max_features

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = {}
        for column in self.columns:
            counts = counted(ds, column, self._tokens)
            self.stats_[f"token_counts({column})"] = Counter(
                dict(counts.most_common(self.max_features))
            )

    def _tokens(self, text: str | None) -> Sequence[str]:
        return [] if pd.isna(text) else self.tokenization_fn(str(text))

    def _made_of(self, column: str) -> Callable[[Sequence[str]], object]:
        wanted = [token for token, _ in self.stats_[f"token_counts({column})"].most_common()]

        def count(tokens: Sequence[str]) -> list[int]:
            counted = Counter(tokens)
            return [counted[token] for token in wanted]

        return count

    def _names_of(self, column: str) -> list[str]:
        return [
            f"{column}_{token}" for token, _ in self.stats_[f"token_counts({column})"].most_common()
        ]


class FeatureHasher(Preprocessor):
    """Put columns of counts into one of arrays, each column added at the hash of its name.

    Parameters
    ----------
    columns : list of str
        Columns of numbers.
    num_features : int
        Length of the arrays; columns whose hashes are equal are added up.
    output_column : str
        Name of the column of arrays.

    Examples
    --------
    >>> from raycompat.data.preprocessors import FeatureHasher
    >>> rows = ray.data.from_items([{"sea": 2, "sun": 1}])
    >>> hasher = FeatureHasher(
    ...     ["sea", "sun"], num_features=4, output_column="hashed"
    ... )
    >>> (row,) = hasher.transform(rows).take_all()
    >>> len(row["hashed"]), float(sum(row["hashed"]))
    (4, 3.0)
    """

    _is_fittable = False

    @hashes_into_columns
    def __init__(self, columns: Sequence[str], num_features: int, output_column: str) -> None:
        self.columns = list(columns)
        self.num_features = num_features
        self.output_column = output_column

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        dtypes = [df[column].dtype for column in self.columns]
        kinds = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
        rows = np.zeros((len(df), self.num_features), np.result_type(*kinds))
        for column in self.columns:
            rows[:, simple_hash(column, self.num_features)] += df[column].to_numpy()
        if not self.output_column:
            counts = pd.DataFrame(rows, index=df.index, columns=self.get_output_columns())
            return df.drop(columns=self.columns).join(counts)
        values = pd.Series(list(rows), index=df.index, dtype=object)
        return df.assign(**{self.output_column: values})

    def get_output_columns(self) -> list[str]:
        """Return the column that it writes, or those of the form of 2.0."""
        if self.output_column:
            return [self.output_column]
        return [f"hash_{index}" for index in range(self.num_features)]
