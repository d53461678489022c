"""Work in threads: what is done, what is refused, what takes too long."""

import asyncio
import threading

import pytest

from pysldl.serve.errors import ServiceError
from pysldl.serve.work_queue import WorkQueue


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
