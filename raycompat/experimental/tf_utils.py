"""A network's weights as a dictionary of NumPy arrays.

A TensorFlow graph cannot be pickled, so it never leaves its process. Only the values of its variables
are sent between tasks and actors:

1. every process builds the same graph, once;
2. ``get_weights`` reads the variables of one copy into a dictionary of arrays;
3. ``ray.put`` shares that dictionary, and references to it are passed around;
4. ``set_weights`` writes it into another copy.

TensorFlow is imported when an instance is created, not with this module.
"""

import importlib
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from raycompat._surface.modules import names_of

__all__ = ["TensorFlowVariables"]

#: Operations that own a variable: TF1's two kinds of reference variable, and resource variables.
_VARIABLE_OPS = frozenset({"Variable", "VariableV2", "VarHandleOp"})


class TensorFlowVariables:
    """Reads and writes all variables on which a TensorFlow output depends.

    Parameters
    ----------
    output : tensor, operation, Keras model, optimizer, tf.Module, variable, or a list of these
        In a TF1 graph: the node from which the variables are found, usually the loss. A loss leads
        to the weights only, a train operation also to the optimizer's slots. In TF2, where a loss is
        only a number: the model, the optimizer, or the variables themselves.
    sess : tf.compat.v1.Session, optional
        The session whose values are read and written. TF1 graphs only; may follow later with
        `set_session`.
    input_variables : list of tf.Variable, optional
        More variables to include, on which `output` does not depend.

    Attributes
    ----------
    sess : tf.compat.v1.Session or None
        The session in use.
    variables : OrderedDict of str to tf.Variable
        The variables by name, in the order of their creation. The name is that of the variable's
        operation in a graph, or its ``path`` in Keras 3. Eager variables with equal names get ``_1``,
        ``_2``… as in a graph. A graph variable that is in no collection (from an imported graph)
        appears as the tensor that its operation makes.
    placeholders : dict of str to tf.Tensor
        The placeholders that `set_weights` feeds, in a graph. Empty in TF2.
    assignment_nodes : dict of str to tf.Operation
        The operations that `set_weights` runs, in a graph. Empty in TF2.

    Raises
    ------
    ImportError
        TensorFlow is not installed.
    TypeError
        `output` is, or contains, an object without variables, such as an eager tensor.
    ValueError
        The parts of `output` or `sess` belong to different graphs; graph and eager parts are mixed;
        a Keras object is not built yet.
    RuntimeError
        The graph is already finalized.

    Notes
    -----
    Ray source: ``ray.experimental.tf_utils.TensorFlowVariables``, 0.8.7;
    ``ray.rllib.utils.tf_utils.TensorFlowVariables``, 2.60.0. All nodes for reading and writing are
    created here, once: afterwards the graph does not grow and may be finalized. The graph is that of
    `output`, even if another one is the default.

    Differs from Ray: names must match exactly (2.60 also tries similar ones); a scalar's value is
    an array of shape () and not a NumPy scalar; ``ValueError`` and ``RuntimeError`` where Ray
    asserts; `get_weights` without a session is an error; local and uncollected variables are found
    too; Keras models, optimizers and modules are accepted; instances refuse to be pickled.

    Examples
    --------
    >>> import tensorflow.compat.v1 as tf
    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", initializer=[1.0, 2.0])
    ...     loss = tf.reduce_sum(w * w)
    ...     sess = tf.Session()
    ...     sess.run(tf.global_variables_initializer())
    >>> variables = TensorFlowVariables(loss, sess)
    >>> dict(variables.get_weights())
    {'w': array([1., 2.], dtype=float32)}
    >>> variables.set_weights({"w": [3.0, 4.0]})
    >>> float(sess.run(loss))
    25.0
    """

    def __init__(
        self, output: Any, sess: Any = None, input_variables: Iterable[Any] | None = None
    ) -> None:
        tf = _import_tensorflow()
        self.sess: Any = None
        self.variables: OrderedDict[str, Any] = OrderedDict()
        self.placeholders: dict[str, Any] = {}
        self.assignment_nodes: dict[str, Any] = {}
        self._read_nodes: dict[str, Any] = {}
        self._shapes: dict[str, Any] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        parts = list(_find_parts(tf, [output, list(input_variables or ())]))
        self._graph = _find_graph(tf, parts)
        if self._graph is None:
            self._collect_eager(tf, parts)
        else:
            self._collect_graph(tf, parts)
        if sess is not None:
            self.set_session(sess)

    def set_session(self, sess: Any) -> None:
        """Use another session.

        Parameters
        ----------
        sess : tf.compat.v1.Session
            A session of the same graph.

        Raises
        ------
        ValueError
            `sess` runs another graph, or the variables are eager ones, which need no session.

        Notes
        -----
        Ray source: ``TensorFlowVariables.set_session``, 0.8.7; gone in 2.60.
        """
        if self._graph is None:
            raise ValueError(
                f"sess is {sess!r}, but these variables are eager (TF2) ones, which have no "
                "session. Leave sess out."
            )
        if getattr(sess, "graph", self._graph) is not self._graph:
            raise ValueError(
                f"{sess!r} runs another graph than the one that output belongs to. "
                "Make it with tf.Session(graph=loss.graph)."
            )
        self.sess = sess

    def get_weights(self) -> OrderedDict[str, npt.NDArray[Any]]:
        """Read all variables at once.

        Returns
        -------
        OrderedDict of str to numpy.ndarray
            One array per variable, with its shape and dtype, in the order of `variables`. The
            arrays are copies.

        Raises
        ------
        RuntimeError
            A graph's variables are read without a session.
        tf.errors.FailedPreconditionError
            A variable is not initialized yet.
        """
        if self._graph is None:
            return OrderedDict((name, np.asarray(v.numpy())) for name, v in self.variables.items())
        values = self._require_session().run(self._read_nodes)
        return OrderedDict((name, np.asarray(values[name])) for name in self.variables)

    def set_weights(self, new_weights: Mapping[str, npt.ArrayLike]) -> None:
        """Write variables by name; variables without a new value are not changed.

        Parameters
        ----------
        new_weights : mapping of str to array_like
            Values by variable name, each with its variable's shape. They are cast to the variable's
            dtype and copied, so the read-only arrays of ``ray.get`` are allowed.

        Raises
        ------
        TypeError
            `new_weights` is not a mapping.
        ValueError
            A name is not in `variables`, a shape is not the variable's, or there is nothing to write.
            No variable has changed then.
        RuntimeError
            A graph's variables are written without a session.
        """
        sess = None if self._graph is None else self._require_session()
        self._check_names(new_weights)
        arrays = {
            name: np.asarray(value, dtype=self._dtypes[name]) for name, value in new_weights.items()
        }
        self._check_shapes(arrays)
        if sess is None:
            for name, array in arrays.items():
                self.variables[name].assign(array)
            return
        sess.run(
            [self.assignment_nodes[name] for name in arrays],
            feed_dict={self.placeholders[name]: array for name, array in arrays.items()},
        )

    def get_flat_size(self) -> int:
        """Count the numbers in all variables.

        Returns
        -------
        int
            The length of `get_flat`'s vector.

        Raises
        ------
        RuntimeError
            A variable's shape is known only to its session, and none is set.
        """
        return sum(math.prod(shape) for shape in self._known_shapes().values())

    def get_flat(self) -> npt.NDArray[Any]:
        """Read all variables into one vector.

        Returns
        -------
        numpy.ndarray, shape (get_flat_size(),)
            The variables one after another in the order of `variables`, each in row-major order.
            Its dtype is NumPy's promotion of theirs: float32 for float32 weights, float64 if an int64
            step counter is among them.

        Raises
        ------
        RuntimeError
            A graph's variables are read without a session.
        """
        values = [value.ravel() for value in self.get_weights().values()]
        return np.concatenate(values) if values else np.zeros(0, np.float32)

    def set_flat(self, new_weights: npt.ArrayLike) -> None:
        """Write all variables from one vector, as `get_flat` returns it.

        Parameters
        ----------
        new_weights : array_like, shape (get_flat_size(),)
            The new values. They are cast to each variable's dtype; integers are cut off, not
            rounded.

        Raises
        ------
        ValueError
            `new_weights` is not a vector of that length. No variable has changed then.
        RuntimeError
            A graph's variables are written without a session.
        """
        if self._graph is not None:
            self._require_session()
        vector = np.asarray(new_weights)
        shapes = self._known_shapes()
        ends = list(itertools.accumulate(math.prod(shape) for shape in shapes.values()))
        size = ends[-1] if ends else 0
        if vector.shape != (size,):
            raise ValueError(
                f"new_weights has shape {vector.shape}; expected {(size,)}, one number for each "
                f"in {', '.join(shapes) or 'no variables'}. Use another copy's get_flat()."
            )
        if shapes:
            pieces = np.split(vector, ends[:-1])
            self.set_weights(
                {n: p.reshape(s) for (n, s), p in zip(shapes.items(), pieces, strict=True)}
            )

    def __reduce__(self) -> NoReturn:
        """Raise an error: instances cannot be pickled."""
        raise TypeError(
            "TensorFlowVariables cannot be pickled: its graph, session and variables live in this "
            "process. Send get_weights() instead (for example ray.put(variables.get_weights())), "
            "build the network again where it arrives, and call set_weights there."
        )

    def _collect_eager(self, tf: Any, parts: list[Any]) -> None:
        for variable in {id(part): part for part in parts}.values():
            # Keras 3 keeps the full name in `path`; "dense/kernel:0" is a graph tensor's spelling.
            stem = getattr(variable, "path", None) or variable.name.removesuffix(":0")
            name = stem
            for number in itertools.count(1):
                if name not in self.variables:
                    break
                name = f"{stem}_{number}"
            self.variables[name] = variable
            self._shapes[name] = tf.TensorShape(variable.shape)
            self._dtypes[name] = np.dtype(tf.as_dtype(variable.dtype).as_numpy_dtype)

    def _collect_graph(self, tf: Any, parts: list[Any]) -> None:
        graph: Any = self._graph
        if graph.finalized:
            raise RuntimeError(
                "The graph is finalized, so the nodes that write its variables cannot be added. "
                "Make TensorFlowVariables first and call graph.finalize() after it."
            )
        wanted = _find_variable_ops(parts)
        known = {
            _op_of(item): item
            for key in graph.collections
            for item in graph.get_collection(key)
            if isinstance(item, tf.Variable)
        }
        # The new nodes do not depend on the caller's scope, device or control flow.
        with (
            graph.as_default(),
            graph.name_scope(None),
            graph.device(None),
            graph.control_dependencies(None),
        ):
            for op in graph.get_operations():
                if op in wanted:
                    self.variables[op.name] = known.get(op, op.outputs[0])
                    self._add_nodes(tf, op)

    def _add_nodes(self, tf: Any, op: Any) -> None:
        name, dtype, ref = op.name, op.get_attr("dtype"), op.outputs[0]
        shape = tf.TensorShape(op.get_attr("shape"))
        fed = tf.compat.v1.placeholder(dtype, shape, name=f"set_weights/{name}")
        if op.type == "VarHandleOp":
            assign = tf.raw_ops.AssignVariableOp(resource=ref, value=fed)
            self._read_nodes[name] = tf.raw_ops.ReadVariableOp(resource=ref, dtype=dtype)
        else:
            fixed = shape.is_fully_defined()
            assign = tf.compat.v1.assign(ref, fed, validate_shape=fixed).op
            self._read_nodes[name] = ref
        self.placeholders[name], self.assignment_nodes[name] = fed, assign
        self._shapes[name], self._dtypes[name] = shape, np.dtype(dtype.as_numpy_dtype)

    def _require_session(self) -> Any:
        if self.sess is None:
            raise RuntimeError(
                "These variables live in a graph and no session is set. "
                "Use TensorFlowVariables(loss, sess) or call set_session(sess)."
            )
        return self.sess

    def _known_shapes(self) -> dict[str, tuple[int, ...]]:
        if all(shape.is_fully_defined() for shape in self._shapes.values()):
            return {name: tuple(shape.as_list()) for name, shape in self._shapes.items()}
        return {name: value.shape for name, value in self.get_weights().items()}

    def _check_names(self, new_weights: Mapping[str, Any]) -> None:
        if not isinstance(new_weights, Mapping):
            raise TypeError(
                f"new_weights is of type {type(new_weights).__name__}; expected a dictionary of arrays "
                "by variable name, as get_weights() returns it."
            )
        unknown = [name for name in new_weights if name not in self.variables]
        if new_weights and not unknown:
            return
        mine = ", ".join(map(repr, self.variables)) or "none"
        if not new_weights:
            raise ValueError(f"new_weights is empty. Expected some of the variables: {mine}.")
        problem = f"new_weights names variables that are not in this network: {unknown!r}"
        if len(unknown) == len(new_weights):
            problem += (
                " (none matches). A second network in one graph gets other names than the first: "
                "build each copy in its own tf.Graph(), and name Keras layers"
            )
        raise ValueError(f"{problem}. Its variables are {mine}.")

    def _check_shapes(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        wrong = [
            f"{name!r} has shape {array.shape}, its variable {self._shapes[name]}"
            for name, array in arrays.items()
            if not self._shapes[name].is_compatible_with(array.shape)
        ]
        if wrong:
            raise ValueError(
                f"new_weights does not fit: {'; '.join(wrong)}. Use another copy's get_weights()."
            )


def _import_tensorflow() -> Any:
    try:
        return importlib.import_module("tensorflow")
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ImportError(
            "TensorFlowVariables needs TensorFlow, which is not installed. "
            "Use: pip install tensorflow"
        ) from error


def _find_parts(tf: Any, output: Any) -> Iterator[Any]:
    """Take nested outputs apart into graph tensors, operations and variables."""
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, list | tuple):
        for item in output:
            # Gradients of variables that a loss does not depend on are None.
            if item is not None:
                yield from _find_parts(tf, item)
    elif isinstance(output, tf.Operation | tf.Variable) or _is_keras_variable(output):
        yield output
    elif tf.is_tensor(output):
        yield from _find_tensors(tf, output)
    else:
        yield from _find_parts(tf, _owned_variables(output))


def _find_tensors(tf: Any, output: Any) -> Iterator[Any]:
    for tensor in tf.nest.flatten(output, expand_composites=True):
        if not tf.is_symbolic_tensor(tensor):
            raise TypeError(
                f"output holds an eager tensor, {tensor!r}: a value that does not know which "
                "variables it came from. Pass the Keras model, the tf.Module, the optimizer or a "
                "list of tf.Variable; or build the loss inside `with tf.Graph().as_default():`."
            )
        yield tensor


def _is_keras_variable(item: Any) -> bool:
    return all(hasattr(item, name) for name in ("path", "assign", "numpy", "shape", "dtype"))


def _owned_variables(owner: Any) -> list[Any]:
    # A Keras layer's `variables` hold the state of its random generators too; `weights` do not.
    keras = callable(getattr(owner, "get_weights", None)) and hasattr(owner, "weights")
    owned = owner.weights if keras else getattr(owner, "variables", None)
    owned = owned() if callable(owned) else owned
    if not isinstance(owned, list | tuple):
        raise TypeError(
            f"output is or holds {owner!r}, which leads to no variables. Expected a graph tensor "
            "or operation, a variable, a Keras model, an optimizer, a tf.Module, or a list of them."
        )
    if not owned or getattr(owner, "built", True) is False:
        raise ValueError(
            f"{owner!r} has not made its variables yet. Call a model once on data or give it an "
            "input shape; call optimizer.build(model.trainable_variables)."
        )
    return list(owned)


def _op_of(part: Any) -> Any:
    if hasattr(part, "handle"):
        return part.handle.op
    return getattr(part, "op", part)


def _find_graph(tf: Any, parts: list[Any]) -> Any:
    """Return the one graph that all parts belong to, or None if they are eager variables."""

    def graph_of(part: Any) -> Any:
        handle = getattr(part, "handle", None)
        if _is_keras_variable(part) or (handle is not None and not tf.is_symbolic_tensor(handle)):
            return None
        return _op_of(part).graph

    graphs = {id(graph): graph for graph in map(graph_of, parts)}
    if len(graphs) > 1:
        raise ValueError(
            "output and input_variables belong to different graphs, or mix graph tensors with "
            "eager variables. Make one TensorFlowVariables for each graph."
        )
    if not graphs:
        raise TypeError("output holds nothing. Pass a loss, a model or a list of variables.")
    graph = next(iter(graphs.values()))
    if getattr(graph, "building_function", False):
        raise TypeError(
            f"output belongs to the function {graph.name!r}, whose graph has no session. Pass the "
            "model or the variables that the function uses, outside of it."
        )
    return graph


def _find_variable_ops(parts: list[Any]) -> set[Any]:
    """Walk a graph backwards from its parts: breadth first, every operation once.

    Loops of ``tf.while_loop`` make it cyclic. Branches and bodies that are functions (control flow
    v2, ``tf.function``) are not entered: what they read is captured, so it is among their inputs.
    """
    queue = deque(_op_of(part) for part in parts)
    seen = set(queue)
    while queue:
        op = queue.popleft()
        for earlier in itertools.chain((tensor.op for tensor in op.inputs), op.control_inputs):
            if earlier not in seen:
                seen.add(earlier)
                queue.append(earlier)
    return {op for op in seen if op.type in _VARIABLE_OPS}


#: Names of older Rays.
__getattr__ = names_of(__name__)
