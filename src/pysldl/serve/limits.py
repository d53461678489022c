"""What a service allows, and how much of the machine it takes."""

from dataclasses import dataclass

from pysldl._utils.memory import parse_bytes
from pysldl.exceptions import DataError

__all__ = ["Limits"]


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
    """

    max_body: str = "4 MB"
    max_rows: int = 1000
    max_k: int = 100
    timeout: float = 30.0
    read_timeout: float = 10.0
    threads: int = 2
    queue: int = 64
    poll: float = 1.0

    @property
    def body_bytes(self) -> int:
        """Largest request body in bytes."""
        return parse_bytes(self.max_body)

    def validate(self) -> None:
        """Raise :class:`DataError` for limits that no service can keep."""
        for name in ("max_rows", "max_k", "timeout", "read_timeout", "threads", "poll"):
            if not getattr(self, name) > 0:
                raise DataError(f"--{name.replace('_', '-')} must be positive, but is {getattr(self, name)}.")
        if self.queue < 0:
            raise DataError(f"--queue must not be negative, but is {self.queue}.")
        try:
            parse_bytes(self.max_body)
        except ValueError as error:
            raise DataError(f"--max-body: {error}") from error
