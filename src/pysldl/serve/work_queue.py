"""Work that needs the processor: beside the event loop, so much at once, and no more waiting than can be served."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from pysldl.serve.errors import ServiceError

__all__ = ["WorkQueue"]

Result = TypeVar("Result")


class WorkQueue:
    """A pool of threads with a short queue. Who comes when the queue is full is sent away at once.

    Parameters
    ----------
    threads : int
    queue : int
    timeout : float
        Seconds until a request gets no answer any more; its thread is not free before it is done.
    """

    def __init__(self, threads: int, queue: int, timeout: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sldl-work")
        self._room = threads + queue
        self._timeout = timeout
        self.inside = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of ``work``, done by a thread of the pool."""
        if self.inside >= self._room:
            raise ServiceError("overloaded", "The service has more to do than it can: try again soon.", Retry_After="1")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()

        def leave() -> None:
            self.inside -= 1
            if answer.done():  # nobody waits any more
                return
            if future.cancelled():
                answer.cancel()
            elif error := future.exception():
                answer.set_exception(error)
            else:
                answer.set_result(future.result())

        def done(_: Future[Result]) -> None:
            # Counted until the thread is free, not only as long as somebody waits for it.
            if not loop.is_closed():
                loop.call_soon_threadsafe(leave)

        self.inside += 1
        future = self._pool.submit(work)
        future.add_done_callback(done)
        patience = loop.call_later(self._timeout, _expire, answer)
        try:
            return await answer
        except TimeoutError:
            message = f"The answer took longer than {self._timeout:g} seconds: ask for fewer rows, or try again later."
            raise ServiceError("timed_out", message, Retry_After="5") from None
        finally:
            patience.cancel()
            future.cancel()  # takes back work that has not begun; does nothing to work that has

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _expire(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())
