"""The module in which early Ray had `get_node_ip_address`."""

from raycompat.util._node_address import get_node_ip_address

__all__ = ["get_node_ip_address"]
