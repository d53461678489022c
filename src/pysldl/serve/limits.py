"""Limits of a service: sizes, times, connections, threads."""

from dataclasses import dataclass
from functools import cached_property

from pysldl._utils.memory import parse_bytes
from pysldl.exceptions import DataError


@dataclass(frozen=True)
class Limits:
    """Limits of one worker process; the options of `sldl serve`.

    Parameters
    ----------
    max_body : str
        Largest request body, for example "4 MB".
    max_rows : int
        Maximum inputs per request.
    max_k : int
        Maximum labels per input, and entries of any list in a response.
    timeout : float
        Seconds from a complete request to its response, including the time in the queue.
    read_timeout : float
        Seconds that a client may take to send its request.
    threads : int
        Requests that a worker computes at once.
    queue : int
        Requests that may wait in a worker; further requests get 503.
    poll : float
        Seconds between two checks of the model folder.
    max_connections : int
        Connections that a worker keeps open; for a further one the connection that has been idle longest is closed.
    client_connections : int
        Connections of one client address that a worker keeps open; 0 sets no limit.
    client_rate : float
        Requests a second that a worker takes from one client address, on average; further ones get 429. 0 sets no
        limit.
    """

    max_body: str = "4 MB"
    max_rows: int = 1000
    max_k: int = 100
    timeout: float = 30.0
    read_timeout: float = 10.0
    threads: int = 2
    queue: int = 64
    poll: float = 1.0
    max_connections: int = 4000
    client_connections: int = 0
    client_rate: float = 0.0

    @cached_property
    def body_bytes(self) -> int:
        """Largest request body in bytes."""
        return parse_bytes(self.max_body)

    def validate(self) -> None:
        """Raise :class:`DataError` for limits that no service can keep."""
        for name in ("max_rows", "max_k", "timeout", "read_timeout", "threads", "poll", "max_connections"):
            if not getattr(self, name) > 0:
                raise DataError(f"--{name.replace('_', '-')} must be positive, but is {getattr(self, name)}.")
        for name in ("queue", "client_connections", "client_rate"):
            if not getattr(self, name) >= 0:
                raise DataError(f"--{name.replace('_', '-')} must not be negative, but is {getattr(self, name)}.")
        try:
            parse_bytes(self.max_body)
        except ValueError as error:
            raise DataError(f"--max-body: {error}") from error
