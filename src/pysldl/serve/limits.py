"""What a service allows, and how much of the machine it takes."""

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Limits of one worker process.

    Parameters
    ----------
    max_body : int
        Bytes of a request body.
    max_rows : int
        Inputs of one request.
    max_k : int
        Labels asked of one input, and entries of any list in an answer.
    timeout : float
        Seconds from a whole request to its answer, waiting included.
    read_timeout : float
        Seconds a client may take to send its request.
    threads : int
        Requests worked on at once.
    queue : int
        Requests that may wait for a thread; the next one is told to come back later.
    poll : float
        Seconds between two looks at the model folder.
    token : str, optional
        What a client must send as a bearer token.
    """

    max_body: int = 4 << 20
    max_rows: int = 1000
    max_k: int = 100
    timeout: float = 30.0
    read_timeout: float = 10.0
    threads: int = 2
    queue: int = 64
    poll: float = 1.0
    token: str | None = None
