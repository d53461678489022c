"""Single rows of several requests, predicted together on the event loop.

A prediction of a few rows takes little longer than that of one: most of it is calls that are made once. Whoever asks
for one row waits until the other requests that have arrived have been read, and no longer.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pysldl.serve.bodies import encode_plain
from pysldl.serve.schemas import Input, PredictResponse
from pysldl.serve.served_model import ServedModel

__all__ = ["JoinedRows"]


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

    Parameters
    ----------
    most : callable
        Returns how many rows may keep the event loop busy at once.
    note_seconds : callable
        Called with the seconds that a row took.
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
