"""How responses are computed beside the event loop: threads with a bounded queue, and single rows joined into one call.

A prediction of a few rows takes little longer than that of one: most of it is calls that are made once. A request
for one row waits until the other requests that have arrived have been read, and no longer.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from pysldl.serve.bodies import encode_plain
from pysldl.serve.errors import ServiceError
from pysldl.serve.schemas import Input, PredictResponse
from pysldl.serve.served_model import ServedModel

T = TypeVar("T")


class WorkQueue:
    """A pool of threads that refuses work at once when its queue is full.

    ``threads`` are for short work; one further thread is for large work, so that short work does not wait behind it.
    ``queue`` is the most calls that wait for a thread, of either. After ``timeout`` seconds a caller is told that its
    work took too long; the thread stays busy until the work is done.
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


class _Row(NamedTuple):
    model: ServedModel
    row: Input
    k: int
    threshold: Any
    response: asyncio.Future[bytes]

    def can_join(self, other: "_Row") -> bool:
        """Whether one prediction gives what both ask for."""
        return (
            self.model is other.model
            and type(self.row) is type(other.row)
            and (self.k, self.threshold) == (other.k, other.threshold)
        )


class JoinedRows:
    """Rows that wait to be predicted together.

    ``most`` returns how many rows may keep the event loop busy at once; ``note_seconds`` is called with the seconds
    that a row took.
    """

    def __init__(self, most: Callable[[], int], note_seconds: Callable[[float], None]) -> None:
        self._most, self._note_seconds = most, note_seconds
        self._waiting: list[_Row] = []

    async def predict(self, model: ServedModel, row: Input, k: int, threshold: Any) -> bytes:
        """Return the response for one row."""
        loop = asyncio.get_running_loop()
        response: asyncio.Future[bytes] = loop.create_future()
        self._waiting.append(_Row(model, row, k, threshold, response))
        if len(self._waiting) == 1:
            loop.call_soon(self._predict_waiting)
        return await response

    def _predict_waiting(self) -> None:
        first, *others = self._waiting
        joined = [first, *(row for row in others if row.can_join(first))][: max(1, self._most())]
        taken = {id(row) for row in joined}
        self._waiting = [row for row in self._waiting if id(row) not in taken]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._predict_waiting)
        started = time.perf_counter()
        try:
            _respond(joined)
        except Exception:  # of one of them, perhaps: the others get their responses
            for row in joined:
                try:
                    _respond([row])
                except Exception as error:
                    if not row.response.done():
                        row.response.set_exception(error)
        self._note_seconds((time.perf_counter() - started) / len(joined))


def _respond(joined: list[_Row]) -> None:
    model, _, k, threshold, _ = joined[0]
    found = model.predict([row.row for row in joined], k, threshold)
    for row, prediction in zip(joined, found.predictions, strict=True):
        if not row.response.done():  # nobody waits any more
            row.response.set_result(encode_plain(PredictResponse(found.version, [prediction])))
