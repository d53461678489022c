"""Peers and this library on the same matrices: accuracy, time, memory and size, as a table and a figure.

Every measurement is a process of its own and, once finished, a JSON file in the results folder; what has its file is
not run again. Run make_environments.py first.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from environments import PEERS, python_of

from data import add_data_options, open_dataset, text_features, with_test_rows
from measuring import WorkerError, measured_apart
from pictures import draw_comparison
from pysldl._utils.files import slug, write_atomically
from pysldl.datasets import Dataset, write_xc
from pysldl.experiments.report.tables import Cell, Row, Table, write_table
from pysldl.metrics import evaluate, inverse_propensity
from records import add_record_option, write_rows
from specification import check_preset

ADAPTERS = {"omikuji": "omikuji_forest", "napkinxc": "napkinxc_tree", "pecos": "pecos_linear"}
RANKED = "accurate(embedding={}, mapping=RidgeMapping(early_stopping=True), decoder={}, ranker=LinearRanker(75))"
# What "accurate" does, with candidates from elsewhere: by latent codes, random or trained, by codes and features, or
# by features and the means of the labels.
CONTROLS = {
    "random codes": RANKED.format("RandomLabelEmbedding(128)", "NeighborDecoder(100)"),
    "trained Gaussians": RANKED.format("GaussianLabelEmbedding(128, cooccurrence='count')", "NeighborDecoder(100)"),
    "random codes and features": RANKED.format("RandomLabelEmbedding(128)", "JointNeighborDecoder(100)"),
    "features and label means": "accurate(ranker=LinearRanker(75, n_centroid_candidates=25))",
}
SYSTEMS = (*PEERS, "fast", "accurate", *CONTROLS)
METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
COSTS = {"train_s": "train s", "predict_s": "predict s", "peak_mb": "peak MiB", "model_mb": "model MiB"}
PROCESSOR = ("train_cpu_s", "predict_cpu_s")
WORKER = Path(__file__).with_name("worker.py")


class Comparison:
    """One data set: its matrices on disk, and the results on it.

    Parameters
    ----------
    dataset : str
        Name or file. Without a standard split, one fold of the ten-fold rule is left out of training.
    folder : Path
        Of the results.
    rows : int or None
        Use only so many training rows.
    fold : int
        The fold that is left out of training where there is no standard split.
    """

    def __init__(
        self, dataset: str, data_dir: str | None, folder: Path, rows: int | None = None, fold: int = 0
    ) -> None:
        whole = text_features(with_test_rows(open_dataset(dataset, data_dir), fold))
        train, test = whole.split("train"), whole.split("test")
        if rows is not None and rows < train.n_samples:
            train = train.subset(np.random.RandomState(0).permutation(train.n_samples)[:rows])
        self.name = whole.name if rows is None else f"{whole.name}-{train.n_samples}"
        self.folder = folder / self.name
        self.shape = f"{train.n_samples} training rows, {test.n_samples} test rows, {train.n_labels} labels"
        self._matrices = self.folder / "matrices"
        self._Y_test = test.Y
        self._weights = inverse_propensity(train.Y)
        self._write(train, test)

    def _write(self, train: Dataset, test: Dataset) -> None:
        if (self._matrices / "train.txt").exists():
            return
        self._matrices.mkdir(parents=True, exist_ok=True)
        for name, matrix in (("X", train.X), ("Y", train.Y), ("X_test", test.X)):
            # csr_matrix, float32 and int32: what the pickiest of the peers takes.
            plain = sparse.csr_matrix(matrix, dtype=np.float32)
            plain.sort_indices()
            sparse.save_npz(self._matrices / f"{name}.npz", plain, compressed=False)
        # omikuji refuses a file in which a row has no features.
        write_xc(train.subset(np.flatnonzero(np.diff(sparse.csr_matrix(train.X).indptr))), self._matrices / "train.txt")

    def measure(self, system: str, run: int, threads: int) -> dict[str, Any]:
        """Run one system, unless its result is there; a failure is a result too, but is tried again next time."""
        path = self.folder / f"{slug(system)}.{run}.json"
        if path.exists() and "error" not in (found := json.loads(path.read_text())):
            return found
        labels = self.folder / f"{slug(system)}.{run}.npy"
        options = {
            "adapter": ADAPTERS.get(system, "ours"),
            "specification": CONTROLS.get(system, system),
            "task": str(self._matrices),
            "labels": str(labels),
            "threads": threads,
        }
        python = python_of(system)
        result: dict[str, Any] = {"system": system, "dataset": self.name, "run": run, "threads": threads}
        try:
            if system not in PEERS and run == 0:  # what it compiles stays on the disk; compiling takes memory, too
                measured_apart(WORKER, options | {"only_warm_up": True}, python=python, threads=threads)
            result |= measured_apart(WORKER, options, python=python, threads=threads)
            metrics = evaluate(self._Y_test, np.load(labels, allow_pickle=False), self._weights)
            result["metrics"] = {name: metrics[name] for name in METRICS}
        except WorkerError as error:
            result["error"] = str(error)
        write_atomically(path, json.dumps(result, indent=2))
        return result


def read_results(folder: Path) -> list[dict[str, Any]]:
    """One entry a system of a data set: medians over its runs."""
    by_system: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        by_system.setdefault(result["system"], []).append(result)
    order = {name: place for place, name in enumerate(SYSTEMS)}
    return [_merged(by_system[name]) for name in sorted(by_system, key=lambda n: (order.get(n, len(order)), n))]


def as_rows(folder: Path) -> list[dict[str, Any]]:
    """One record for each run on a data set; what failed has its reason in place of figures."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text())
        system = result["system"]
        row = {
            key: result.get(key)
            for key in ("dataset", "system", "run", "threads", *COSTS, *PROCESSOR, "warm_up_s", "error")
        }
        row["specification"] = PEERS[system].package if system in PEERS else CONTROLS.get(system, system)
        rows.append(row | {name: 100 * value for name, value in result.get("metrics", {}).items()})
    return rows


def _merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    finished = [run for run in runs if "error" not in run]
    if not finished:
        return runs[0]
    numbers = {key: median(run[key] for run in finished) for key in (*COSTS, "warm_up_s")}
    metrics = {name: median(run["metrics"][name] for run in finished) for name in METRICS}
    return finished[0] | numbers | {"metrics": metrics, "runs": len(finished)}


def as_table(name: str, caption: str, results: list[dict[str, Any]]) -> Table:
    """Accuracy in per cent, and costs; the best of each column in bold."""
    finished = [result for result in results if "error" not in result]
    best = {metric: max((r["metrics"][metric] for r in finished), default=None) for metric in METRICS}
    least = {cost: min((r[cost] for r in finished), default=None) for cost in COSTS}

    def cells(result: dict[str, Any]) -> tuple[Cell, ...]:
        if "error" in result:
            return (Cell("failed"), *[Cell(None)] * (len(METRICS) + len(COSTS)))
        accuracy = (Cell(100 * (value := result["metrics"][m]), best=value == best[m]) for m in METRICS)
        costs = (Cell(result[c], decimals=1, best=result[c] == least[c]) for c in COSTS)
        return (*accuracy, *costs, Cell(result["warm_up_s"], decimals=1))

    failures = tuple(f"{r['system']} failed: {r['error']}" for r in results if "error" in r)
    runs = sorted({result["runs"] for result in finished})
    return Table(
        "peers",
        name,
        caption,
        "system",
        (*METRICS, *COSTS.values(), "warm-up s"),
        tuple(Row(result["system"], cells(result)) for result in results),
        notes=(
            f"Medians of {' or '.join(map(str, runs))} run(s). Times are wall time; peak memory is that of the whole "
            "process, data included. Reading the data, bringing it into a system's own form, reading a saved model and "
            "the warm-up, in which kernels are compiled, do not count as training or prediction.",
            *failures,
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["eurlex57k", "tibkat"], help="names or files")
    parser.add_argument(
        "--only",
        nargs="+",
        default=list(SYSTEMS),
        metavar="SYSTEM",
        help=f"run these: {', '.join(PEERS)}, or a preset, such as accurate or "
        f"'accurate(embedding=RandomLabelEmbedding(256))'; or a control: {', '.join(CONTROLS)} "
        "(default: all of these); the table shows all that have results",
    )
    parser.add_argument("--repeat", type=int, default=1, help="runs of each (default 1); the table shows medians")
    parser.add_argument("--rows", type=int, help="only so many training rows, for a quick look")
    parser.add_argument("--threads", type=int, default=2, help="of each system (default 2)")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/peers"), help="folder of the results")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_record_option(parser, "peers.csv")
    add_data_options(parser)
    options = parser.parse_args()
    for system in options.only:
        if system not in PEERS:
            check_preset(parser, CONTROLS.get(system, system))
        elif not PEERS[system].python(system).exists():
            parser.error(f"{system} is not installed: run {Path(__file__).with_name('make_environments.py')} first")

    comparisons = [Comparison(name, options.data_dir, options.out, options.rows) for name in options.datasets]
    # Repeats go round by round, so that a slow minute of the machine does not fall on one system alone.
    for run in range(options.repeat):
        for comparison in comparisons:
            for system in options.only:
                print(f"{comparison.name}: {system}, run {run + 1}", file=sys.stderr, flush=True)
                comparison.measure(system, run, options.threads)
    if options.record:
        for comparison in comparisons:
            write_rows(options.record, as_rows(comparison.folder), ("dataset", "system", "run"))
    results = {comparison.name: read_results(comparison.folder) for comparison in comparisons}
    for comparison in comparisons:
        caption = f"{comparison.shape}; {options.threads} threads; peers with their defaults; metrics in per cent."
        table = as_table(comparison.name, caption, results[comparison.name])
        write_table(table, comparison.folder)
        if not options.json:
            print(table.to_markdown())
    draw_comparison(results, PEERS, METRICS, COSTS, options.out / "peers")
    if options.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
