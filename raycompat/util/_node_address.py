"""The address of the node that this runs on."""

from raycompat._caller import session as sessions


def get_node_ip_address(address: str | None = None) -> str:
    """Return the IP address of this node.

    Parameters
    ----------
    address : str, optional
        Accepted for Ray's sake, which asks this host which of its addresses it is.

    Notes
    -----
    Ray source: ``ray.util.get_node_ip_address``, 2.60.0. No known difference.
    """
    session = sessions.current()
    found: str = session.home.ip if session is not None else "127.0.0.1"
    return found
