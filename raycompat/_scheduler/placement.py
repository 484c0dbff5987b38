"""STUB until the real one lands."""
from __future__ import annotations
from dataclasses import dataclass
from raycompat._protocol.resource_set import ResourceSet, U
@dataclass(frozen=True)
class Grant:
    node_id: str
    resources: ResourceSet
    gpus: tuple = ()
    lent: bool = False
class Ledger:
    def __init__(self): self.t = {}; self.a = {}; self.lent = set()
    def add_node(self, n, total, labels={}): self.t[n] = total; self.a[n] = total.units()
    def remove_node(self, n): del self.t[n]; del self.a[n]
    def acquire(self, request, *, strategy="DEFAULT", prefer=(), only=None):
        for n, a in self.a.items():
            if all(a.get(k, 0) >= v for k, v in request.units().items()):
                for k, v in request.units().items(): a[k] -= v
                return Grant(n, request, ((0, 1),) if "GPU" in request.units() else ())
        return None
    def release(self, g):
        if g.node_id in self.a:
            for k, v in g.resources.units().items():
                if k == "CPU" and id(g) in self.lent: continue
                self.a[g.node_id][k] += v
        self.lent.discard(id(g))
    def lend_cpu(self, g): self.lent.add(id(g)); self.a[g.node_id]["CPU"] += g.resources.units().get("CPU", 0)
    def take_back_cpu(self, g): self.lent.discard(id(g)); self.a[g.node_id]["CPU"] -= g.resources.units().get("CPU", 0)
    def shrink(self, g, to):
        self.release(g); n = Grant(g.node_id, to, g.gpus)
        for k, v in to.units().items(): self.a[g.node_id][k] -= v
        return n
    def feasible(self, r): return any(all(t.units().get(k, 0) >= v for k, v in r.units().items()) for t in self.t.values())
    def largest_node(self, r): return next(iter(self.t.values()))
    def cluster_total(self): return next(iter(self.t.values()))
    def cluster_available(self): return ResourceSet(next(iter(self.a.values())))
    def node_total(self, n): return self.t[n]
