"""Work in threads: what is done, what is refused, what takes too long."""

import asyncio
import threading

import msgspec
import pytest

from pysldl.serve.errors import ServiceError
from pysldl.serve.schemas import Prediction, PredictResponse, SparseRow
from pysldl.serve.work_queue import JoinedRows, WorkQueue


def test_results_and_errors_come_back():
    async def scenario():
        queue = WorkQueue(threads=1, queue=0, timeout=10)
        assert await queue.run(lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            await queue.run(lambda: 1 // 0)
        assert await queue.run(threading.get_ident) != threading.get_ident()
        queue.close()

    asyncio.run(scenario())


def test_a_full_queue_refuses_and_a_finished_one_takes_work_again():
    async def scenario():
        queue, hold = WorkQueue(threads=1, queue=1, timeout=10), threading.Event()
        tasks = [asyncio.create_task(queue.run(hold.wait)) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(ServiceError) as refused:
            await queue.run(lambda: None)
        assert refused.value.code == "overloaded" and refused.value.headers == {"Retry-After": "1"}
        hold.set()
        assert await asyncio.gather(*tasks) == [True, True]
        await asyncio.sleep(0.05)
        assert await queue.run(lambda: 1) == 1
        queue.close()

    asyncio.run(scenario())


def test_work_that_takes_too_long_keeps_its_thread_and_waiting_work_is_dropped():
    async def scenario():
        queue, hold, begun = WorkQueue(threads=1, queue=1, timeout=0.1), threading.Event(), []
        tasks = [asyncio.create_task(queue.run(hold.wait)), asyncio.create_task(queue.run(lambda: begun.append(1)))]
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(found, ServiceError) and found.code == "timed_out"
        hold.set()
        await asyncio.sleep(0.05)
        assert begun == [] and await queue.run(lambda: 2) == 2
        queue.close()

    asyncio.run(scenario())


# Rows of several requests that are predicted together: who gets what, and what a failure of one does to the others


class Model:
    """Counts the features of rows, and notes which were asked together; a text that is no number fails."""

    def __init__(self):
        self.asked = []

    def predict(self, inputs, k, threshold):
        self.asked.append((inputs, k, threshold))
        lengths = [int(row) if isinstance(row, str) else len(row.sparse) for row in inputs]
        return PredictResponse("v", [Prediction(length, k, []) for length in lengths])


def ask(model, *rows, most=16, seconds=None):
    """Ask for rows at the same time; returns the number that each is answered with, or the error."""

    async def one(joined, row, k=5, threshold=None):
        answer = msgspec.json.decode(await joined.predict(model, row, k, threshold), type=PredictResponse)
        return answer.predictions[0].features

    async def all_of_them():
        joined = JoinedRows(lambda: most, (seconds or []).append)
        asked = [one(joined, *(row if isinstance(row, tuple) else (row,))) for row in rows]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(all_of_them())


def test_rows_that_arrive_together_are_predicted_together_and_each_gets_its_own():
    model, seconds = Model(), [0.0]
    assert ask(model, "7", "3", "5", seconds=seconds) == [7, 3, 5]
    assert model.asked == [(["7", "3", "5"], 5, None)] and len(seconds) == 2


def test_no_more_rows_than_may_keep_the_loop_busy():
    model = Model()
    assert ask(model, "7", "3", "5", most=2) == [7, 3, 5]
    assert [inputs for inputs, _, _ in model.asked] == [["7", "3"], ["5"]]
    assert ask(model, "4", most=0) == [4]


def test_only_rows_that_ask_for_the_same_are_joined():
    model = Model()
    rows = ["7", ("3", 2), SparseRow([(0.0, 1.0)]), ("5", 5, 0.5), "9"]
    assert ask(model, *rows) == [7, 3, 1, 5, 9]
    assert [(len(inputs), k, threshold) for inputs, k, threshold in model.asked] == [
        (2, 5, None), (1, 2, None), (1, 5, None), (1, 5, 0.5),
    ]  # fmt: skip


def test_a_row_that_fails_does_not_take_others_with_it():
    found = ask(Model(), "7", "no number", "5")
    assert (found[0], found[2]) == (7, 5) and isinstance(found[1], ValueError)


def test_a_client_that_does_not_wait_any_more_is_left_out():
    model = Model()

    async def leave():
        joined = JoinedRows(lambda: 16, lambda seconds: None)
        gone, there = (asyncio.create_task(joined.predict(model, row, 5, None)) for row in ("7", "3"))
        await asyncio.sleep(0)
        gone.cancel()
        return await there

    assert b'"features":3' in asyncio.run(leave())
