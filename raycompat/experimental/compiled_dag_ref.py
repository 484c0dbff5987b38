"""The module of Ray from which programs import the results of compiled graphs."""

from raycompat.dag.compiled_dag_ref import CompiledDAGFuture, CompiledDAGRef

__all__ = ["CompiledDAGFuture", "CompiledDAGRef"]
