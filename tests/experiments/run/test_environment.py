"""What is noted of the machine and the libraries of a run; one thread of every library; the peak of memory."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pysldl.experiments.run.environment import (
    environment,
    library_versions,
    one_thread,
    peak_mb,
    reset_peak_memory,
    run_id,
)

CHECK = """
import os
{before}
from pysldl.experiments.run.environment import one_thread

with one_thread():
    import numba, torch
    from threadpoolctl import threadpool_info

    assert torch.get_num_threads() == 1, torch.get_num_threads()
    assert numba.get_num_threads() == 1
    assert all(pool["num_threads"] == 1 for pool in threadpool_info()), threadpool_info()
assert os.environ["OMP_NUM_THREADS"] == "2"
"""


def test_versions_processor_and_thread_settings_are_noted(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    noted = environment(jobs=2, device="cuda")
    assert noted.items() >= library_versions().items()
    assert noted["processor"] and int(noted["cores"]) >= 1
    assert (noted["processes"], noted["device"]) == ("2 of one thread each", "cuda")
    assert "OMP_NUM_THREADS=3" in noted["thread_settings"].split()


def test_equal_environments_have_the_same_id():
    noted = {"numpy": "2.0", "date": "2026-01-01"}
    assert run_id(noted) == run_id(dict(reversed(noted.items()))) != run_id(noted | {"numpy": "2.1"})
    assert len(run_id(noted)) == 8


@pytest.mark.parametrize("before", ["import torch; torch.set_num_threads(2)", "", "import numba"])
def test_one_thread_whatever_is_loaded_before(before):
    pytest.importorskip("torch")
    pytest.importorskip("numba")
    environment = os.environ | {"OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", CHECK.format(before=before)], check=True, env=environment)


def test_threads_come_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_peak_shows_what_was_allocated_and_freed():
    reset_peak_memory()
    before = peak_mb()
    np.ones(64 << 20, dtype=np.uint8).sum()
    assert before > 10
    assert peak_mb() - before > 40
