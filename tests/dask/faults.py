"""Workers and schedulers that are killed: the same model, or one clear error, and never a hang.

`make test-dask` runs these; `python benchmarks/dask_cluster.py faults` makes more kills and records them.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from pysldl import make_sldl
from pysldl.dask import DaskSLDLClassifier, connect, read_parts
from pysldl.datasets import make_asymmetric_multilabel, write_parquet
from pysldl.exceptions import ClusterError
from pysldl.persistence import read_manifest

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(600),
]
BOUND = 240  # seconds, on a busy machine


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    data = make_asymmetric_multilabel(random_state=0).split("train")
    write_parquet(data, folder, rows_per_part=-(-data.n_samples // 10))
    return read_parts(folder)


def content(clf):
    manifest = read_manifest(clf.model_folder_)
    return manifest.files, manifest.tree


def later(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_a_killed_worker_changes_nothing(parts):
    chance = random.Random(0)
    with connect("local", workers=2) as client:
        started = time.monotonic()
        whole = DaskSLDLClassifier(make_sldl("fast"), client).fit(parts)
        lasted = time.monotonic() - started
        expected = whole.predict_topk(parts, 3)[0].compute(scheduler=client)
        for _ in range(5):
            pids = sorted(client.run(os.getpid).values())
            started = time.monotonic()
            timer = later(chance.uniform(0, lasted), lambda pids=pids: os.kill(chance.choice(pids), signal.SIGKILL))
            again = DaskSLDLClassifier(make_sldl("fast"), client).fit(parts)
            found = again.predict_topk(parts, 3)[0].compute(scheduler=client)
            timer.join()
            assert time.monotonic() - started < BOUND
            assert content(again) == content(whole) and np.array_equal(found, expected)
            client.wait_for_workers(2, timeout=60)


def start(*words):
    return subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def test_a_scheduler_that_is_gone_is_one_sentence(parts, tmp_path):
    address = f"tcp://127.0.0.1:{18000 + os.getpid() % 2000}"
    scheduler = start("distributed.cli.dask_scheduler", "--port", address.rpartition(":")[2], "--no-dashboard")
    worker = start("distributed.cli.dask_worker", address, "--nthreads", "1", "--death-timeout", "60")
    try:
        for _ in range(60):
            try:
                with connect(address) as client:
                    client.wait_for_workers(1, timeout=30)
                break
            except ClusterError:
                time.sleep(1)
        started = time.monotonic()
        with pytest.raises(ClusterError, match="connection to the Dask scheduler"), connect(address) as client:
            client.wait_for_workers(1, timeout=30)
            timer = later(0.5, scheduler.kill)
            for _ in range(100):
                DaskSLDLClassifier(make_sldl("fast"), client).fit(parts)
        timer.join()
        assert time.monotonic() - started < BOUND
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
