"""Threads that compute responses beside the event loop, with a bounded queue before them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from pysldl.serve.errors import ServiceError

__all__ = ["WorkQueue"]

T = TypeVar("T")


class WorkQueue:
    """A pool of threads that refuses work at once when its queue is full.

    Parameters
    ----------
    threads : int
        For short work; one further thread is for large work, so that short work does not wait behind it.
    queue : int
        Most calls that wait for a thread, of short work and of large work.
    timeout : float
        Seconds until a caller is told that its work took too long. The thread stays busy until the work is done.
    """

    def __init__(self, threads: int, queue: int, timeout: float) -> None:
        self._pools = [
            ThreadPoolExecutor(threads, thread_name_prefix="sldl-work"),
            ThreadPoolExecutor(1, thread_name_prefix="sldl-large"),
        ]
        self._capacities = [threads + queue, 1 + queue]
        self._timeout = timeout
        self._n_unfinished = [0, 0]

    @property
    def is_full(self) -> bool:
        """Whether short work would be refused."""
        return self._n_unfinished[0] >= self._capacities[0]

    async def run(self, work: Callable[[], T], *, is_large: bool = False) -> T:
        """Return the result of ``work``, called in a thread."""
        lane = int(is_large)
        if self._n_unfinished[lane] >= self._capacities[lane]:
            raise ServiceError("overloaded", "The service is busy: try again soon.", Retry_After="1")
        loop = asyncio.get_running_loop()

        def finish() -> None:
            self._n_unfinished[lane] -= 1

        def done(_: Future[T]) -> None:
            # Counted until the thread is free, not only as long as somebody waits for it.
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish)

        self._n_unfinished[lane] += 1
        future = self._pools[lane].submit(work)
        future.add_done_callback(done)
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.wrap_future(future)  # canceling it takes back work that has not begun
        except TimeoutError:
            message = f"This took longer than {self._timeout:g} seconds: send fewer rows, or try again later."
            raise ServiceError("timed_out", message, Retry_After="5") from None
        except MemoryError:
            message = "There is not enough memory for this now: send fewer rows, or try again later."
            raise ServiceError("overloaded", message, Retry_After="5") from None

    def close(self) -> None:
        """Wait for the work that has begun, and drop the rest."""
        for pool in self._pools:
            pool.shutdown(wait=True, cancel_futures=True)
