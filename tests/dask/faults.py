"""Workers, schedulers, clients and files that fail: the same model, or one clear error, and never a hang.

`make test-dask` runs these; `python benchmarks/dask_cluster.py faults` kills workers at random moments and records it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

import pyarrow
from pyarrow import parquet

from dask import delayed
from pysldl import make_sldl
from pysldl.cli._dask import predict_parts
from pysldl.dask import DaskSLDLClassifier, connect, read_parts
from pysldl.datasets import Dataset, write_parquet
from pysldl.decoding import FeatureNeighborDecoder
from pysldl.exceptions import ClusterError, DataError, MemoryLimitError
from pysldl.persistence import read_manifest
from pysldl.ranking import LinearRanker

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(600),
]
BOUND = 300  # seconds within which an answer or an error must be there, on a busy machine
SETTINGS = {"k": 3, "proba": False, "threshold": -np.inf}
STAGES = {  # what "accurate" takes for many labels, with every stage that runs on workers
    "decoder": FeatureNeighborDecoder(n_neighbors=20, n_terms=16, index_terms=50, temperature=None),
    "ranker": LinearRanker(n_candidates=10, n_centroid_candidates=5, C=None),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten parts of texts."""
    rng = np.random.RandomState(0)
    rows = [(60 * rng.rand(12) ** 2).astype(int).tolist() for _ in range(400)]
    labels = [sorted({word % 20 for word in row if word % 3 == 0}) for row in rows]
    Y = np.array([[label in row for label in range(20)] for row in labels])
    texts = [" ".join(f"word{word}" for word in row) for row in rows]
    records = Dataset("records", None, Y, [f"about {label}" for label in range(20)], texts=texts)
    target = tmp_path_factory.mktemp("records")
    write_parquet(records, target, rows_per_part=40)
    return target


@pytest.fixture(scope="module")
def client():
    with connect("local", workers=2, worker_memory="2 GB") as client:
        yield client


@pytest.fixture(scope="module")
def fitted(client, folder, tmp_path_factory):
    """Undisturbed: the classifier, and its predictions for every part."""
    clf = DaskSLDLClassifier(make_sldl("accurate", **STAGES), client).fit(read_parts(folder))
    out = tmp_path_factory.mktemp("predictions") / "out"
    predict_parts(client, clf.model_folder_, read_parts(folder), out, SETTINGS, None)
    return clf, out


@pytest.fixture
def in_time():
    started = time.monotonic()
    yield
    assert time.monotonic() - started < BOUND


def content(clf):
    manifest = read_manifest(clf.model_folder_)
    return manifest.files, manifest.tree


def files(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def killer_of_workers(client, killed):
    """A callback that kills one worker in every stage, at the first report of it."""

    def kill(report):
        while report.stage not in killed:
            # One that just starts would not be started again by Dask. The cluster's thread goes on meanwhile: a nanny
            # that was running may have no process any more when its number is read.
            processes = [nanny.process for nanny in client.cluster.workers.values() if nanny.process is not None]
            pids = [process.pid for process in processes if process.status.name == "running"]
            pids = [pid for pid in pids if pid is not None]
            if pids:
                pid = pids[len(killed) % len(pids)]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed[report.stage] = pid
            time.sleep(0.01)

    return kill


def test_a_worker_killed_in_every_stage_of_a_fit_changes_nothing(client, folder, fitted, in_time, monkeypatch):
    for size in (
        "estimator.predictor.SPARSE_BLOCK",
        "backend.label_shards.FEWEST_ROWS",
        "backend.label_shards.ROWS_AT_ONCE",
    ):
        monkeypatch.setattr(f"pysldl.{size}", 100)  # a stage of one part is no work of a worker
    killed = {}
    estimator = make_sldl("accurate", **STAGES, progress=killer_of_workers(client, killed))
    again = DaskSLDLClassifier(estimator, client).fit(read_parts(folder))
    assert {"reading", "vocabulary", "encoding", "indexing", "candidates", "label rows", "classifiers"} <= set(killed)
    again.estimator_.set_params(progress=None)
    assert content(again)[0] == content(fitted[0])[0]


def test_a_worker_killed_in_a_prediction_leaves_every_part_once(client, folder, fitted, tmp_path, in_time):
    killed, out = {}, tmp_path / "out"
    kill = killer_of_workers(client, killed)
    counts = predict_parts(client, fitted[0].model_folder_, read_parts(folder), out, SETTINGS, kill)
    assert killed and counts["rows"] == 400 and files(out) == files(fitted[1])


def sldl(*words):
    program = "from pysldl.cli import main; import sys; sys.exit(main())"
    return [sys.executable, "-c", program, *map(str, words)]


def test_a_prediction_that_was_killed_goes_on_where_it_was(folder, fitted, tmp_path, in_time):
    model, out = tmp_path / "model", tmp_path / "out"
    fitted[0].save(model)
    command = sldl("predict", model, folder, "--k", 3, "--dask", "local", "--workers", 1, "--out", out, "--json")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(out.glob("part-*.parquet")):
        time.sleep(0.01)
    process.kill()
    process.wait()
    there = {file.name: file.stat().st_mtime_ns for file in out.glob("part-*.parquet")}
    assert there
    done = subprocess.run(command, capture_output=True, check=True, timeout=BOUND)
    assert json.loads(done.stdout)["parts_there"] >= len(there)
    assert all((out / name).stat().st_mtime_ns == when for name, when in there.items())
    found = [row for file in sorted(out.glob("part-*.parquet")) for row in parquet.read_table(file).to_pylist()]
    whole = [row for file in sorted(fitted[1].glob("part-*.parquet")) for row in parquet.read_table(file).to_pylist()]
    assert found == whole


@pytest.fixture
def elsewhere(tmp_path):
    """A scheduler and a worker that were not started by the client: the address, and the scheduler's process."""
    file = tmp_path / "scheduler.json"

    def start(*words):
        command = [sys.executable, "-m", *words, "--scheduler-file", str(file)]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    options = ("--host", "tcp://127.0.0.1", "--no-dashboard")
    processes = [
        start("distributed.cli.dask_scheduler", "--port", "0", *options),
        start("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *options),
    ]
    try:
        while not file.exists() and processes[0].poll() is None:
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        with connect(address) as client:
            client.wait_for_workers(1, timeout=BOUND)
        yield address, processes[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_scheduler_that_is_gone_is_one_sentence(elsewhere, folder, in_time):
    address, scheduler = elsewhere

    def kill(report):
        scheduler.kill()
        scheduler.wait()

    said = f"the connection to the Dask scheduler {address} was lost"
    with pytest.raises(ClusterError, match=said), connect(address) as client:
        clf = DaskSLDLClassifier(make_sldl("fast", progress=kill), client)
        clf.fit(read_parts(folder))
    assert not hasattr(clf, "estimator_")


def test_a_client_of_another_version_is_refused(elsewhere, monkeypatch):
    monkeypatch.setattr("pysldl.__version__", "99.0")
    with pytest.raises(ClusterError, match=r"worker .* has pysldl .*, but here is pysldl 99.0"), connect(elsewhere[0]):
        pass


def too_large():
    return np.ones(1 << 50)


def ends_its_process():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_out_of_memory_is_one_sentence_that_names_the_block(client, in_time):
    blocks = [["a b", "b c"], delayed(too_large)()]
    with pytest.raises(MemoryLimitError, match=r"reading, block 1: a worker has too little memory \(Unable to alloc"):
        DaskSLDLClassifier(make_sldl("fast"), client).fit(blocks, [[["x"], ["y"]], [["x"]]])


def test_a_block_that_ends_every_worker_is_named(monkeypatch, in_time):
    monkeypatch.setattr("pysldl.dask.cluster.MOST_DEATHS", 1)  # as the system does where memory is short
    with connect("local", workers=1, worker_memory="1 GB") as client:
        blocks = [["a b", "b c"], delayed(ends_its_process)()]
        # Dask holds every task that a lost worker had in hand for the one that ended it.
        with pytest.raises(ClusterError, match=r"reading, block [01]: workers were lost again and again"):
            DaskSLDLClassifier(make_sldl("fast"), client).fit(blocks, [[["x"], ["y"]], [["x"]]])


def test_workers_that_do_not_come_back_are_one_sentence(monkeypatch, folder, in_time):
    monkeypatch.setattr("pysldl.dask.cluster.SECONDS_BETWEEN_LOOKS", 0.2)
    monkeypatch.setattr("pysldl.dask.cluster.SECONDS_WITHOUT_WORKERS", 1)
    with connect("local", workers=1, worker_memory="1 GB") as client:

        def remove_all(report):
            client.cluster.scale(0)

        clf = DaskSLDLClassifier(make_sldl("fast", progress=remove_all), client)
        with pytest.raises(ClusterError, match="all workers of the Dask cluster were lost, and none came back"):
            clf.fit(read_parts(folder))


def damaged(path):
    """Change bytes in the middle of the texts: the end, which says what is where, stays."""
    table = bytearray(path.read_bytes())
    table[100:140] = bytes(40)
    path.write_bytes(table)


def other_columns(path):
    table = parquet.read_table(path)
    parquet.write_table(table.rename_columns(["title", *table.column_names[1:]]), path)


def numbers_for_texts(path):
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(0, "text", pyarrow.array(range(len(table)))), path)


def missing_text(path):
    table = parquet.read_table(path)
    parquet.write_table(table.set_column(0, "text", pyarrow.array([None, *table["text"].to_pylist()[1:]])), path)


@pytest.mark.parametrize(
    "spoil, said",
    [
        (damaged, "is damaged"),
        (other_columns, "has no column 'text'"),
        (numbers_for_texts, "column 'text' must hold texts, but its type is int64"),
        (missing_text, "row 0: column 'text' is empty"),
    ],
    ids=["damaged", "columns", "type", "missing"],
)
def test_a_bad_part_in_the_middle_is_named_and_nothing_half_written(client, folder, fitted, tmp_path, spoil, said):
    shutil.copytree(folder, tmp_path / "records")
    bad = tmp_path / "records" / "part-00005.parquet"
    spoil(bad)
    parts = read_parts(tmp_path / "records")
    with pytest.raises(DataError, match=f"{bad}.*{said}"):
        DaskSLDLClassifier(make_sldl("fast"), client).fit(parts)
    out = tmp_path / "out"
    with pytest.raises(DataError, match=f"{bad}.*{said}"):
        predict_parts(client, fitted[0].model_folder_, parts, out, SETTINGS, None)
    there, whole = files(out), files(fitted[1])
    assert "part-00005.parquet" not in there
    assert all(there[name] == whole[name] for name in there if name.startswith("part-"))
    shutil.copy(folder / bad.name, bad)  # once it is mended, the same command does the rest
    counts = predict_parts(client, fitted[0].model_folder_, read_parts(tmp_path / "records"), out, SETTINGS, None)
    assert counts["rows"] > 0 and {**files(out), "_predictions.json": b""} == {**whole, "_predictions.json": b""}


def test_a_part_that_changes_meanwhile_is_named(client, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "records")
    parts = read_parts(tmp_path / "records")
    short = tmp_path / "records" / "part-00002.parquet"
    parquet.write_table(parquet.read_table(short)[:7], short)
    with pytest.raises(DataError, match=f"{short}, row group 0: has 7 rows, but had 40 before"):
        DaskSLDLClassifier(make_sldl("fast"), client).fit(parts)


def test_an_empty_part_changes_nothing(client, folder, fitted, tmp_path):
    shutil.copytree(folder, tmp_path / "records")
    empty = parquet.read_table(folder / "part-00003.parquet")[:0]
    parquet.write_table(empty, tmp_path / "records" / "part-00003-b.parquet")
    again = DaskSLDLClassifier(make_sldl("accurate", **STAGES), client).fit(read_parts(tmp_path / "records"))
    assert content(again) == content(fitted[0])
