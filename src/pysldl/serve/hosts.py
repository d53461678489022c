"""Which names a service answers to.

A page of another site can make a browser call this service under a name of its own, whose address it then changes to
ours (DNS rebinding); the browser would give it the answers. Such a request carries the other name in its Host header.
"""

import ipaddress
from collections.abc import Iterable, Mapping

from pysldl.serve.errors import ServiceError

__all__ = ["AllowedHosts"]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = "*"


class AllowedHosts:
    """The names and addresses under which clients may call.

    Parameters
    ----------
    listening : str
        Where the service listens: a name or an address; those that mean "everywhere" name no host.
    names : iterable of str
        Further names; "*" allows all, where something before the service checks them.

    Examples
    --------
    >>> hosts = AllowedHosts("127.0.0.1", ["tags.example.org"])
    >>> hosts.allows("Tags.Example.org:8000", None), hosts.allows("evil.example", None)
    (True, False)
    """

    def __init__(self, listening: str = "127.0.0.1", names: Iterable[str] = ()) -> None:
        self._names = {_plain(name) for name in (*LOOPBACK, listening, *names)} - {"", "0.0.0.0", "::"}

    def check(self, headers: Mapping[str, str], server: str | None) -> None:
        """Refuse a request for another host, or one that a page of another site sends.

        Parameters
        ----------
        headers : mapping
            Of the request.
        server : str or None
            The address of this machine that the connection was made to.
        """
        host = headers.get("host", "")
        if not self.allows(host, server):
            message = "This service does not answer to that host name; see --allowed-host of sldl serve."
            raise ServiceError("unknown_host", message)
        origin = headers.get("origin")
        if origin is not None and ANY not in self._names and origin.partition("://")[2].lower() != host.lower():
            raise ServiceError("foreign_origin", "Pages of other sites may not call this service.")

    def allows(self, host: str, server: str | None) -> bool:
        """Return whether a Host header names this service; an address that was connected to always does."""
        name = _plain(host)
        if ANY in self._names or name in self._names:
            return True
        try:
            return server is not None and ipaddress.ip_address(name) == ipaddress.ip_address(server)
        except ValueError:
            return False


def _plain(host: str) -> str:
    """Return a host in lower case, without its port and the brackets of an IPv6 address."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0].rstrip(".")
