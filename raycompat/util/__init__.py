"""Ray's helpers, where Ray has them."""

from raycompat.util._named_actors import list_named_actors
from raycompat.util._node_address import get_node_ip_address
from raycompat.util.actor_pool import ActorPool

__all__ = ["ActorPool", "get_node_ip_address", "list_named_actors"]
