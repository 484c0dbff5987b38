"""The address of the node of this process."""

from raycompat._caller import current_session


def get_node_ip_address(address: str | None = None) -> str:
    """Return the IP address of this node.

    Parameters
    ----------
    address : str, optional
        Accepted for compatibility with Ray, which uses it to choose among the host's addresses.

    Examples
    --------
    >>> ray.util.get_node_ip_address().count(".")
    3
    """
    session = current_session.get()
    found: str = session.home.ip if session is not None else "127.0.0.1"
    return found
