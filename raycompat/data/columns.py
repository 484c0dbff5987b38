"""Columns computed from expressions: `with_column` and `with_columns` of `Dataset`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from raycompat.data import expressions
from raycompat.data.compute import strategy
from raycompat.data.expressions import Expr, Unnest
from raycompat.data.options import remote_args
from raycompat.data.transform import TableStep

if TYPE_CHECKING:
    from raycompat.data.compute import Compute

#: The data set that the methods return.
DatasetT = TypeVar("DatasetT")


class Columns(Generic[DatasetT]):
    """The methods of a data set that take expressions for new columns."""

    _mapped: Callable[..., DatasetT]

    def with_column(
        self,
        column_name: str,
        expr: Expr,
        *,
        compute: Compute | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Add or replace a column with an expression.

        Parameters
        ----------
        column_name : str
            Name of the column.
        expr : Expr
            An expression from `raycompat.data.expressions`.
        compute : TaskPoolStrategy, optional
            Maximum number of concurrent tasks.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task, as in `raycompat.remote`.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Raises
        ------
        TypeError
            When `expr` is not an expression.

        Examples
        --------
        >>> import raycompat as ray
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(2).with_column("double", col("id") * 2).take_all()
        [{'id': 0, 'double': 0}, {'id': 1, 'double': 2}]
        """
        return self.with_columns(
            {column_name: expr},
            compute=compute,
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            memory=memory,
            label_selector=label_selector,
            fallback_strategy=fallback_strategy,
            max_calls=max_calls,
            resources=resources,
            accelerator_type=accelerator_type,
            runtime_env=runtime_env,
            **ray_remote_args,
        )

    def with_columns(
        self,
        exprs: Mapping[str, Expr] | Unnest | None = None,
        *more_exprs: Mapping[str, Expr] | Unnest,
        compute: Compute | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: Sequence[Mapping[str, object]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        **ray_remote_args: object,
    ) -> DatasetT:
        """Add or replace columns with expressions of the existing columns.

        Parameters
        ----------
        exprs, *more_exprs : dict of str to Expr
            The expressions by the names of their columns; or `unnest` of structs, whose fields become
            columns.
        compute : TaskPoolStrategy, optional
            Maximum number of concurrent tasks.
        num_cpus, num_gpus, memory, label_selector, max_calls, resources, accelerator_type, runtime_env
            Options of each task, as in `raycompat.remote`.
        fallback_strategy
            Not supported.
        **ray_remote_args
            Further options of `raycompat.remote`.

        Examples
        --------
        >>> from raycompat.data.expressions import col
        >>> ray.data.range(1).with_columns(
        ...     {"next": col("id") + 1, "twice": col("id") * 2}
        ... ).take_all()
        [{'id': 0, 'next': 1, 'twice': 0}]

        Raises
        ------
        TypeError
            When something is not a dictionary of expressions.
        """
        options = remote_args(locals())
        named = tuple(
            pair for each in (exprs, *more_exprs) if each is not None for pair in _pairs(each)
        )
        step = TableStep(expressions.with_columns, (named,))
        names = ", ".join(repr(e) if isinstance(e, Unnest) else e[0] for e in named)
        has_class = any(
            (e._expression if isinstance(e, Unnest) else e[1])._has_class() for e in named
        )
        pool = strategy(compute, None, has_class)
        return self._mapped(f"WithColumns({names})", step, pool, options)


def _pairs(given: object) -> list[tuple[str, Expr] | Unnest]:
    if isinstance(given, Unnest):
        return [given]
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{given!r} is not a dictionary of expressions: {{'double': col('id') * 2}}."
        )
    for name, expression in given.items():
        check(name, expression)
    return list(given.items())


def check(name: object, expression: object) -> None:
    """Raise an error for an invalid name or expression."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"{name!r} is not the name of a column.")
    if not isinstance(expression, Expr):
        raise TypeError(
            f"The column {name!r} is given as {expression!r}, which is not an expression: write "
            "col('id') * 2 or lit(3), of raycompat.data.expressions."
        )
