"""Fixtures for the baselines."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    """The same random numbers of torch for every test, which leaves those of the process alone, on one thread.

    Threads of torch that wait for each other would take most of the time where several tests run at once.
    """
    if find_spec("torch") is None:
        yield
        return
    import torch

    from pysldl.backend.threads import one_torch_thread

    with one_torch_thread(), torch.random.fork_rng():
        torch.manual_seed(0)
        yield
