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
    queue : int
        Most calls that wait for a thread.
    timeout : float
        Seconds until a caller is told that its work took too long. The thread stays busy until the work is done.
    """

    def __init__(self, threads: int, queue: int, timeout: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sldl-work")
        self._capacity = threads + queue
        self._timeout = timeout
        self._n_unfinished = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, called in a thread of the pool."""
        if self._n_unfinished >= self._capacity:
            raise ServiceError("overloaded", "The service is busy: try again soon.", Retry_After="1")
        loop = asyncio.get_running_loop()

        def finish() -> None:
            self._n_unfinished -= 1

        def done(_: Future[T]) -> None:
            # Counted until the thread is free, not only as long as somebody waits for it.
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish)

        self._n_unfinished += 1
        future = self._pool.submit(work)
        future.add_done_callback(done)
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.wrap_future(future)  # canceling it takes back work that has not begun
        except TimeoutError:
            message = f"This took longer than {self._timeout:g} seconds: send fewer rows, or try again later."
            raise ServiceError("timed_out", message, Retry_After="5") from None

    def close(self) -> None:
        """Wait for the work that has begun, and drop the rest."""
        self._pool.shutdown(wait=True, cancel_futures=True)
