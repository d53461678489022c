"""Fits on Dask: the same model for any number of workers and parts, what the cluster costs, kills, and memory.

    python benchmarks/dask_cluster.py equality --record
    python benchmarks/dask_cluster.py overhead --record
    python benchmarks/dask_cluster.py faults --record
    python benchmarks/dask_cluster.py memory --rows 2000000 --labels 1000000 --record
    python benchmarks/dask_cluster.py scaling --workers 1 2 4 8 16 --record

`equality` fits data sets locally and on clusters, and compares model folders and the five best labels of rows.
`overhead` compares the processor time of a local fit with two threads and that of two workers with one thread each,
from the same Parquet parts to a model folder. `faults` kills a worker (SIGKILL) at a random moment of each fit and of
each prediction, and compares what comes out. `memory` makes Parquet parts of rows with Zipf terms, fits and predicts
with workers of limited memory, and notes the peaks of all processes. `scaling` fits and predicts such rows with more
and more workers. With `--resume`, `equality` and `scaling` leave out what the record has already.
"""

import argparse
import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from data import open_dataset
from pysldl import make_sldl
from pysldl._utils.progress import Progress
from pysldl.backend.workspace import row_parts
from pysldl.cli._dask import predict_parts
from pysldl.dask import DaskSLDLClassifier, connect, read_parts
from pysldl.dask.cluster import run_everywhere
from pysldl.dask.parts import Parts
from pysldl.datasets import Dataset, read_parquet, write_parquet
from pysldl.exceptions import ClusterError
from pysldl.persistence import read_manifest, save_model
from records import add_record_option, read_rows, write_rows

PRESETS = ("fast", "accurate")
PREDICTION = {"k": 5, "proba": False, "threshold": -np.inf}
SAME_BEST, COMPARED_ROWS = 0.999, 1000  # rows with the same five best labels, for presets without the same bits
BOUND = 600  # seconds that a fit or a prediction with a killed worker may take


def content(folder: str | Path) -> tuple[Any, Any]:
    """All of a model folder but when it was written."""
    manifest = read_manifest(folder)
    return manifest.files, manifest.tree


def label_lists(data: Dataset) -> list[list[str]]:
    return [data.label_names[row].tolist() for row in np.split(data.Y.indices, data.Y.indptr[1:-1])]


def training_rows(name: str, n_rows: int | None) -> Dataset:
    """Training rows of a data set: the first ``n_rows``, or all."""
    data = open_dataset(name, None)
    data = data.tfidf() if data.idf is not None else data
    data = data.split("train") if "train" in data.splits else data
    return data if n_rows is None or n_rows >= data.n_samples else data.subset(np.arange(n_rows))


def fit_locally(preset: str, data: Dataset) -> Any:
    names = label_lists(data)
    known = sorted({name for row in names for name in row})
    return make_sldl(preset).fit(data.texts if data.X is None else data.X, names, label_names=known)


def equality(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row for each data set, preset, number of workers and of parts: whether the model folder is the local one."""
    for name in args.data:
        data, near = training_rows(name, args.rows), {}
        with tempfile.TemporaryDirectory() as folder:
            for preset in args.presets:
                near[preset] = fit_locally(preset, data)
                save_model(near[preset], Path(folder, preset))
            for n_parts in args.parts:
                write_parquet(data, Path(folder, f"parts-{n_parts}"), rows_per_part=-(-data.n_samples // n_parts))
            for workers in args.workers:
                wanted = [(preset, n) for preset in args.presets for n in args.parts]
                wanted = [some for some in wanted if not is_recorded(args, (name, some[0], workers, some[1]))]
                with connect("local", workers=workers) if wanted else nullcontext() as client:
                    for preset, n_parts in wanted:
                        parts = read_parts(Path(folder, f"parts-{n_parts}"))
                        far = DaskSLDLClassifier(make_sldl(preset), client).fit(parts)
                        same = content(far.model_folder_) == content(Path(folder, preset))
                        sizes = {"rows": data.n_samples, "labels": int((np.bincount(data.Y.indices) > 0).sum())}
                        yield (
                            {"data": name}
                            | sizes
                            | {"preset": preset, "workers": workers, "parts": n_parts, "same": same}
                            | {"same_top5": same_best_labels(near[preset], far.estimator_, data)}
                        )


def same_best_labels(near: Any, far: Any, data: Dataset) -> float:
    """The share of up to a thousand rows to which two models give the same five best labels."""
    rows = data.subset(np.unique(np.linspace(0, data.n_samples - 1, COMPARED_ROWS).astype(np.int64)))
    X = rows.texts if rows.X is None else rows.X
    found = [model.predict_topk(X, 5, names=True)[0] for model in (near, far)]
    return float((found[0] == found[1]).all(axis=1).mean())


def overhead(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Processor seconds from Parquet parts to a model folder: here with two threads, and on two workers with one each.

    Both are done in turns; the first pair, in which processes import and load compiled code, is told apart.
    """
    for name in args.data:
        data = training_rows(name, args.rows)
        with tempfile.TemporaryDirectory() as folder, connect("local", workers=2) as client:
            parts = Path(folder, "parts")
            write_parquet(data, parts, rows_per_part=-(-data.n_samples // 8))
            for preset in args.presets:
                pairs = []
                for turn in range(args.repeats + 1):
                    started = processor_seconds(client)
                    near = read_parquet(parts)
                    rows = near.X if near.texts is None else near.texts
                    model = make_sldl(preset).fit(rows, near.Y, label_names=near.label_names)
                    save_model(model, Path(folder, f"{preset}-{turn}"))
                    between = processor_seconds(client)
                    DaskSLDLClassifier(make_sldl(preset), client).fit(read_parts(parts))
                    ended = processor_seconds(client)
                    pairs.append(((sum(between) - sum(started)), ended[0] - between[0], ended[1] - between[1]))
                ratios = sorted((client_s + worker_s) / local for local, client_s, worker_s in pairs[1:])
                local, client_s, worker_s = np.median(np.array(pairs[1:]), axis=0).round(1).tolist()
                yield (
                    {"data": name, "rows": data.n_samples, "preset": preset, "fits": args.repeats}
                    | {"local_cpu_s": local, "client_cpu_s": client_s, "workers_cpu_s": worker_s}
                    | {"ratio": round(float(np.median(ratios)), 2), "least": round(ratios[0], 2)}
                    | {"most": round(ratios[-1], 2), "first_dask_cpu_s": round(pairs[0][1] + pairs[0][2], 1)}
                )


def processor_seconds(client: Any) -> tuple[float, float]:
    """Of this process, in which the scheduler runs, and of the workers."""
    return time.process_time(), sum(client.run(time.process_time).values())


def faults(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Fits and predictions in which a worker is killed at a random moment: whether all comes out as undisturbed."""
    chance = random.Random(args.seed)
    for name in args.data:
        data = training_rows(name, args.rows)
        for preset in args.presets:
            with tempfile.TemporaryDirectory() as folder, connect("local", workers=2) as client:
                write_parquet(data, Path(folder, "parts"), rows_per_part=-(-data.n_samples // 8))
                parts = read_parts(Path(folder, "parts"))
                whole = DaskSLDLClassifier(make_sldl(preset), client).fit(parts)

                def fit(preset: str = preset, client: Any = client, parts: Any = parts) -> Any:
                    fitted = DaskSLDLClassifier(make_sldl(preset), client).fit(parts)  # its folder goes with it
                    return content(fitted.model_folder_)

                def predict(whole: Any = whole, client: Any = client, parts: Any = parts) -> Any:
                    with tempfile.TemporaryDirectory() as out:
                        predict_parts(client, Path(whole.model_folder_), parts, Path(out), PREDICTION, None)
                        return {file.name: file.read_bytes() for file in Path(out).iterdir()}

                for what, work in (("fit", fit), ("predict", predict)):
                    told = {"data": name, "rows": data.n_samples, "preset": preset, "work": what, "kills": args.kills}
                    yield told | killed_again_and_again(client, work, args.kills, chance)


def killed_again_and_again(client: Any, work: Callable[[], Any], kills: int, chance: random.Random) -> dict[str, Any]:
    """Do some work undisturbed, and then until so many times a worker was killed at a random moment of it."""
    work()  # processes import, and load compiled code
    started = time.perf_counter()
    expected = work()
    lasted = time.perf_counter() - started
    done = same = 0
    longest = 0.0
    while done < kills:
        with killing(client, chance.uniform(0.0, lasted), chance) as is_killed:
            started = time.perf_counter()
            faulthandler.dump_traceback_later(BOUND, exit=True)  # it hangs
            is_same = work() == expected
            faulthandler.cancel_dump_traceback_later()
            took = time.perf_counter() - started
            if is_killed.is_set():  # else the work was done before its moment came
                done, same, longest = done + 1, same + is_same, max(longest, took)
                print(
                    f"kill {done}: {'the same' if is_same else 'DIFFERENT'}, {took:.1f} s", file=sys.stderr, flush=True
                )
    times = {"undisturbed_s": round(lasted, 1), "longest_s": round(longest, 1)}
    return {"same": same, **times, "within_bound": longest < BOUND}


@contextmanager
def killing(client: Any, after: float, chance: random.Random) -> Iterator[threading.Event]:
    """Kill a worker of the cluster after so many seconds, unless the block has ended; its nanny starts another.

    Yields
    ------
    threading.Event
        Set when that has happened.
    """
    pids, over, is_killed = running_workers(client), threading.Event(), threading.Event()

    def kill() -> None:
        if not over.wait(after):
            os.kill(chance.choice(pids), signal.SIGKILL)
            is_killed.set()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        yield is_killed
    finally:
        over.set()
        killer.join()


def running_workers(client: Any) -> list[int]:
    """Processes of all workers, once all of them run: Dask does not start one again that was killed while it began."""
    cluster, limit = client.cluster, time.monotonic() + BOUND
    while time.monotonic() < limit:
        nannies = list(cluster.workers.values())
        states = [nanny.process.status.name if nanny.process is not None else "" for nanny in nannies]
        if states == ["running"] * len(cluster.worker_spec):
            with suppress(ClusterError):
                alive = set(run_everywhere(client, os.getpid).values())
                if alive == {nanny.pid for nanny in nannies}:
                    return sorted(alive)
        time.sleep(0.1)
    raise SystemExit(f"Workers did not come back within {BOUND} s: {states}")


def write_zipf_parts(folder: Path, n_rows: int, n_labels: int, n_features: int, rows_per_part: int) -> None:
    """Rows of Zipf terms whose labels follow from their rarer terms, part by part; parts that are there stay.

    Two labels of a row are drawn by Zipf's law and a third in turn, so that all occur. Each brings terms of its own;
    other terms are drawn for all rows alike.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as writers:
        parts = [
            writers.submit(write_zipf_part, folder / f"{number:05d}.parquet", number, some, n_labels, n_features)
            for number, some in enumerate(row_parts(n_rows, rows_per_part))
        ]
    for part in parts:
        part.result()


def write_zipf_part(target: Path, number: int, part: slice, n_labels: int, n_features: int) -> None:
    """Write the rows of a part, unless they are there."""
    if target.exists():
        return
    rng = np.random.default_rng(number)
    size = part.stop - part.start
    in_turn = (np.arange(part.start, part.stop) % n_labels)[:, None]
    labels = np.hstack([zipf(rng, n_labels, (size, 2)), in_turn])
    common = zipf(rng, n_features, (size, 24))
    own = (labels[:, :, None] * 7919 + rng.integers(0, 12, (size, 3, 6)) * 104729) % n_features
    terms = np.hstack([common, own.reshape(size, -1)])
    indptr = np.arange(0, terms.size + 1, terms.shape[1])
    X = sparse.csr_array((np.ones(terms.size, np.float32), terms.ravel(), indptr), shape=(size, n_features))
    X.sum_duplicates()
    used, columns = np.unique(labels, return_inverse=True)
    indptr = np.arange(0, labels.size + 1, labels.shape[1])
    Y = sparse.csr_array((np.ones(labels.size), columns.ravel(), indptr), shape=(size, len(used)))
    Y.sum_duplicates()
    Y.data[:] = 1
    write_parquet(Dataset("zipf", X, Y, [f"L{label:07d}" for label in used]), target)


def zipf(rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers below ``n``, the r-th about as often as 1/r."""
    return np.minimum(np.exp(rng.random(shape) * np.log(n)).astype(np.int64), n - 1)


def watched(command: Sequence[str]) -> dict[str, Any]:
    """Run the command ``sldl``, and look at the memory of it and of its workers ten times a second.

    Returns what it printed as JSON; seconds, and those of the processor; and the peaks of every process in MiB: the
    memory of its own, and with the pages of files.
    """
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    program = "from pysldl.cli import main; import sys; sys.exit(main())"
    process = subprocess.Popen([sys.executable, "-c", program, *command, "--json"], stdout=subprocess.PIPE, text=True)
    peaks: dict[int, dict[str, int]] = {}
    while process.poll() is None:
        for pid in (process.pid, *worker_pids(process.pid)):
            found = peaks.setdefault(pid, {"own": 0, "resident": 0})
            for name, amount in memory_of(pid).items():
                found[name] = max(found[name], amount)
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"sldl {command[0]}: ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "said": json.loads(process.stdout.read()),  # type: ignore[union-attr]
        "s": round(time.perf_counter() - started),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime),
        "client": peaks.pop(process.pid),
        "workers": [peaks[pid] for pid in sorted(peaks)],
    }


def worker_pids(parent: int) -> list[int]:
    """Processes that were started by another one to work for it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if int(status[1]) == parent and "spawn_main" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return sorted(found)


def memory_of(pid: int) -> dict[str, int]:
    try:
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:
        return {}
    names = {"own": "RssAnon", "resident": "VmRSS"}
    return {name: int(lines.get(field, "0").split()[0]) >> 10 for name, field in names.items()}


def memory(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Peaks of client and workers in a fit and a prediction of generated parts, as the command does them.

    What is found in ``--folder`` is not done again: parts, and the model with what was noted of its fit. Predictions
    are made anew, for the command would go on where it was stopped.
    """
    with nullcontext(args.folder) if args.folder is not None else tempfile.TemporaryDirectory() as place:
        folder = Path(place, f"{args.rows}-{args.labels}")
        write_zipf_parts(folder / "parts", args.rows, args.labels, args.features, args.rows_per_part)
        cluster = ("--dask", "local", "--workers", "2", "--worker-memory", args.worker_memory, "--scratch", str(folder))
        for preset in args.presets:
            model, noted = str(folder / preset), folder / f"{preset}.json"
            if not noted.exists():
                options = ("--model", model, "--preset", preset, "--overwrite")
                noted.write_text(json.dumps(watched(["fit", str(folder / "parts"), *options, *cluster])))
            fit = json.loads(noted.read_text())
            told = {"preset": preset, "rows": args.rows, "labels": fit["said"]["n_labels"]}
            told |= {"worker_memory": args.worker_memory} | peaks_of("fit", fit)
            yield told  # predictions take long
            out = folder / f"{preset}-predictions"
            shutil.rmtree(out, ignore_errors=True)
            predict = watched(["predict", model, str(folder / "parts"), "--out", str(out), *cluster])
            yield told | {"predicted": predict["said"]["rows"]} | peaks_of("predict", predict)


def peaks_of(name: str, work: dict[str, Any]) -> dict[str, Any]:
    """Times and peaks of a command as columns of a record."""
    processes = {"client": work["client"]} | {f"worker_{n}": peak for n, peak in enumerate(work["workers"])}
    return {f"{name}_{key}": work[key] for key in ("s", "cpu_s")} | {
        f"{name}_{what}_{who}_mb": peak[what] for who, peak in processes.items() for what in ("own", "resident")
    }


def scaling(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Seconds of a fit and of a prediction of generated parts by the number of workers, and of whose processors."""
    with nullcontext(args.folder) if args.folder is not None else tempfile.TemporaryDirectory() as folder:
        write_zipf_parts(Path(folder, "parts"), args.rows, args.labels, args.features, args.rows_per_part)
        parts = read_parts(Path(folder, "parts"))
        asked = parts_of_rows(parts, args.predicted or args.rows)
        for workers in args.workers:
            with connect("local", workers=workers) as client:
                for preset in args.presets:
                    told = {"preset": preset, "rows": args.rows, "labels": args.labels, "workers": workers}
                    if is_recorded(args, tuple(told.values())):
                        continue
                    some = Parts(parts.parts[: 2 * workers], parts.columns)
                    DaskSLDLClassifier(make_sldl(preset), client).fit(some)  # workers import, and load compiled code
                    started, before, clock = time.perf_counter(), processor_seconds(client), stage_clock()
                    far = DaskSLDLClassifier(make_sldl(preset, progress=clock[0]), client).fit(parts)
                    print(clock[1](), file=sys.stderr, flush=True)
                    told["fit_s"], after = round(time.perf_counter() - started, 1), processor_seconds(client)
                    told["fit_client_cpu_s"], told["fit_workers_cpu_s"] = (
                        round(b - a, 1) for a, b in zip(before, after, strict=True)
                    )
                    yield told
                    started = time.perf_counter()
                    with tempfile.TemporaryDirectory() as out:
                        predict_parts(client, Path(far.model_folder_), asked, Path(out, "out"), PREDICTION, None)
                    told["predicted"], told["predict_s"] = asked.n_rows, round(time.perf_counter() - started, 1)
                    yield told


def stage_clock() -> tuple[Callable[[Progress], None], Callable[[], str]]:
    """A callback for a fit, and what it heard: when the first and the last task of each stage ended, in seconds.

    They are functions, for those are not copied with the estimator.
    """
    started, stages = time.perf_counter(), []

    def note(progress: Progress) -> None:
        now = time.perf_counter() - started
        first = stages.pop()[2] if progress.step > 1 and stages else now
        stages.append((progress.stage, progress.total, first, now))

    def heard() -> str:
        lines = [f"{stage:12} {n_tasks:5} tasks, ended {a:7.2f} to {b:7.2f}" for stage, n_tasks, a, b in stages]
        return "\n".join([*lines, f"in all {time.perf_counter() - started:.2f}"])

    return note, heard


def parts_of_rows(parts: Parts, n_rows: int) -> Parts:
    """As many of the first parts as have so many rows."""
    n_parts = int(np.searchsorted(np.cumsum([part.n_rows for part in parts.parts]), n_rows)) + 1
    return Parts(parts.parts[:n_parts], parts.columns, parts.n_features)


def is_recorded(args: argparse.Namespace, key: tuple[Any, ...]) -> bool:
    """Whether the record has a measurement that need not be made again."""
    if not args.resume or args.record is None:
        return False
    return key in {tuple(row[column] for column in KEYS[args.command]) for row in read_rows(args.record)}


KEYS = {
    "equality": ("data", "preset", "workers", "parts"),
    "overhead": ("data", "preset"),
    "faults": ("data", "preset", "work"),
    "memory": ("preset", "rows", "labels"),
    "scaling": ("preset", "rows", "labels", "workers"),
}
COMMANDS = {"equality": equality, "overhead": overhead, "faults": faults, "memory": memory, "scaling": scaling}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("--presets", nargs="+", default=list(PRESETS))
        add_record_option(command, f"dask_{name}.csv")
        if name in ("memory", "scaling"):
            command.add_argument("--rows", type=int, default=2_000_000 if name == "memory" else 400_000)
            command.add_argument("--labels", type=int, default=1_000_000 if name == "memory" else 20_000)
            command.add_argument("--features", type=int, default=500_000)
            command.add_argument("--rows-per-part", type=int, default=50_000 if name == "memory" else 5_000)
            command.add_argument("--folder", type=Path, help="where parts and results are kept, for another run")
        else:
            command.add_argument("--data", nargs="+", default=["eurlex57k", "tibkat", "eurlex-text"])
            command.add_argument("--rows", type=int, help="only the first rows of each set")
    commands.choices["memory"].add_argument("--worker-memory", default="1.5 GB")
    commands.choices["scaling"].add_argument("--predicted", type=int, help="predict only about so many rows")
    for name, workers in (("equality", [1, 2, 4]), ("scaling", [1, 2, 4, 8, 16])):
        commands.choices[name].add_argument("--workers", type=int, nargs="+", default=workers)
        commands.choices[name].add_argument("--resume", action="store_true", help="leave out what is recorded")
    commands.choices["equality"].add_argument("--parts", type=int, nargs="+", default=[1, 3, 16])
    commands.choices["overhead"].add_argument("--repeats", type=int, default=3)
    commands.choices["faults"].add_argument("--kills", type=int, default=20)
    commands.choices["faults"].add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    failed = 0
    for row in COMMANDS[args.command](args):
        print(row, flush=True)
        exactly = row.get("preset") in PRESETS
        failed += (exactly and row.get("same") is False) or row.get("within_bound") is False
        failed += row.get("same_top5", 1.0) < (1.0 if exactly else SAME_BEST)
        failed += "kills" in row and row["same"] != row["kills"]
        if args.record is not None:
            write_rows(args.record, [row], KEYS[args.command])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
