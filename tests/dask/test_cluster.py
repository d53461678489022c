"""What a client asks the scheduler of a cluster."""

import asyncio

import pytest

pytest.importorskip("distributed")

from pysldl.dask.cluster import memory_per_worker, n_workers


def test_workers_are_counted_though_the_client_asks_for_none_of_them_meanwhile(client):
    """Every few seconds a client asks what the scheduler is, without its workers, and keeps the answer."""

    async def ask_for_none():
        while True:
            await client._update_scheduler_info()

    async def begin():
        return asyncio.ensure_future(ask_for_none())

    async def end():
        asking.cancel()

    asking = client.sync(begin)
    try:
        assert {n_workers(client) for _ in range(200)} == {2}
        assert all(memory_per_worker(client) for _ in range(100))
    finally:
        client.sync(end)
