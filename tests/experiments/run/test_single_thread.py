"""One thread means one of every library."""

import os
import subprocess
import sys

import pytest

CHECK = """
import os
{before}
from pysldl.experiments.run.single_thread import one_thread

with one_thread():
    import numba, torch
    from threadpoolctl import threadpool_info

    assert torch.get_num_threads() == 1, torch.get_num_threads()
    assert numba.get_num_threads() == 1
    assert all(pool["num_threads"] == 1 for pool in threadpool_info()), threadpool_info()
assert os.environ["OMP_NUM_THREADS"] == "2"
"""


@pytest.mark.parametrize("before", ["import torch; torch.set_num_threads(2)", "", "import numba"])
def test_one_thread_whatever_is_loaded_before(before):
    pytest.importorskip("torch")
    pytest.importorskip("numba")
    environment = os.environ | {"OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", CHECK.format(before=before)], check=True, env=environment)


def test_threads_come_back():
    torch = pytest.importorskip("torch")
    from pysldl.experiments.run.single_thread import one_thread

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
