"""The address of the node that this runs on."""

from raycompat import _driver


def get_node_ip_address() -> str:
    """Return the IP address of this node.

    Notes
    -----
    Ray source: ``ray.util.get_node_ip_address``, 2.60.0. No known difference.
    """
    address: str = _driver.require_session().setup.extra["ip"]
    return address
