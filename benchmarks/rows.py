"""Does the cost of training follow the number of rows? Processor seconds of every stage, and the exponent.

Records of a text set, or rows drawn like a text: words by Zipf's law, some of them belonging to the row's labels. Every
measurement is a process of its own and, once finished, a JSON file in the results folder; what has its file is not run
again, so a larger machine can go on where a smaller one stopped. Peers need peers/make_environments.py.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from environments import PEERS, python_of
from row_cost import WORKER

from data import add_data_options, open_dataset
from measuring import WorkerError, measured_apart
from pysldl._utils.files import slug, write_atomically
from pysldl.experiments.report.tables import Cell, Row, Table
from pysldl.preprocessing.text import default_vectorizer
from records import add_record_option, environment, write_rows

SYNTHETIC = "synthetic"
ADAPTERS = {"omikuji": "omikuji_forest", "napkinxc": "napkinxc_tree", "pecos": "pecos_linear"}
N_TEST = 1000  # rows that only a warm-up predicts
N_WORDS, N_LABELS = 60_000, 25_000
WORDS_PER_ROW, LABELS_PER_ROW = 10, 5
WORDS_OF_A_LABEL, OWN_WORDS = 12, 0.5
ROWS_AT_ONCE = 100_000


def text_like_rows(n_rows: int, seed: int = 0) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Short texts as TF-IDF features, and their labels.

    Labels and words follow Zipf's law, so a few words are in a large share of the rows, as in any language. Half of the
    words of a row belong to its labels; a label has twelve words of its own, drawn by the same law from the rarer ones.

    Returns
    -------
    X : csr_matrix of shape (n_rows, 60000), float32
    Y : csr_matrix of shape (n_rows, 25000), float32
    """
    rng = np.random.default_rng(seed)
    of_label = 200 + _zipf(rng, N_WORDS - 200, (N_LABELS, WORDS_OF_A_LABEL), 0.6)
    counts, labels = [], []
    for start in range(0, n_rows, ROWS_AT_ONCE):
        n = min(ROWS_AT_ONCE, n_rows - start)
        drawn = _zipf(rng, N_LABELS, (n, LABELS_PER_ROW), 0.8)
        own = of_label[
            np.take_along_axis(drawn, rng.integers(0, LABELS_PER_ROW, (n, WORDS_PER_ROW)), axis=1),
            rng.integers(0, WORDS_OF_A_LABEL, (n, WORDS_PER_ROW)),
        ]
        words = np.where(rng.random(own.shape) < OWN_WORDS, own, _zipf(rng, N_WORDS, own.shape, 1.05))
        counts.append(_counted(words, N_WORDS))
        labels.append(_counted(drawn, N_LABELS))
    X, Y = sparse.vstack(counts, format="csr"), sparse.vstack(labels, format="csr")
    Y.data[:] = 1
    idf = np.log((1 + n_rows) / (1 + np.bincount(X.indices, minlength=N_WORDS))) + 1
    X.data = ((1 + np.log(X.data)) * idf[X.indices]).astype(np.float32)
    lengths = np.sqrt(np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1]))
    X.data /= np.repeat(lengths, np.diff(X.indptr)).astype(np.float32)
    return X, Y


def _zipf(rng: np.random.Generator, n: int, shape: tuple[int, ...], exponent: float) -> NDArray[np.int64]:
    cumulative = np.cumsum(np.arange(1, n + 1, dtype=np.float64) ** -exponent)
    return np.searchsorted(cumulative, rng.random(shape) * cumulative[-1], side="right")


def _counted(columns: NDArray[np.int64], n_columns: int) -> sparse.csr_matrix:
    indptr = np.arange(0, columns.size + 1, columns.shape[1])
    ones = np.ones(columns.size, dtype=np.float32)
    matrix = sparse.csr_matrix((ones, columns.ravel().astype(np.int32), indptr), shape=(len(columns), n_columns))
    matrix.sum_duplicates()
    return matrix


def write_matrices(name: str, n_rows: int, data_dir: str | None, folder: Path) -> Path:
    """The rows of a text set, shuffled, or synthetic ones, as the workers read them; written once for a size."""
    matrices = folder / "matrices"
    size = matrices / "size.json"
    if size.exists() and json.loads(size.read_text()) >= n_rows:
        return matrices
    matrices.mkdir(parents=True, exist_ok=True)
    if name == SYNTHETIC:
        X, Y = text_like_rows(n_rows + N_TEST)
    else:
        dataset = open_dataset(name, data_dir)
        order = np.random.RandomState(0).permutation(dataset.n_samples)[: n_rows + N_TEST]
        X = default_vectorizer(dtype=np.float32, min_df=2).fit_transform([str(dataset.texts[row]) for row in order])
        Y = dataset.Y[order]
    for part, matrix in (("X", X[N_TEST:]), ("Y", Y[N_TEST:]), ("X_test", X[:N_TEST])):
        plain = sparse.csr_matrix(matrix, dtype=np.float32)
        plain.sort_indices()
        sparse.save_npz(matrices / f"{part}.npz", plain, compressed=False)
    write_atomically(size, json.dumps(n_rows))
    return matrices


def measured(name: str, system: str, n_rows: int, matrices: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What one system took for so many rows, now or before."""
    path = options.out / name / f"{slug(system)}.{n_rows}.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    print(f"{name}: {system}, {n_rows:,} rows", file=sys.stderr, flush=True)
    work = {
        "adapter": ADAPTERS.get(system, "ours"),
        "system": system,
        "task": str(matrices),
        "rows": n_rows,
        "threads": options.threads,
    }
    python = python_of(system)
    # With the commit of now: what is recorded later may have been measured long before.
    result = environment() | {"dataset": name, "system": system, "rows": n_rows, "threads": options.threads}
    result |= measured_apart(WORKER, work, python=python, threads=options.threads)
    write_atomically(path, json.dumps(result, indent=2))
    return result


def exponent(runs: list[dict[str, Any]], seconds: str = "train_processor_s") -> float | None:
    """The slope of the logarithm of the seconds over that of the rows, by least squares; None for fewer than two."""
    points = [(run["rows"], run["stages"].get(seconds, run.get(seconds))) for run in runs]
    points = [(rows, spent) for rows, spent in points if spent]
    if len(points) < 2:
        return None
    rows, spent = np.log(np.array(points, dtype=np.float64)).T
    return float(np.polyfit(rows, spent, 1)[0])


def as_table(name: str, runs: list[dict[str, Any]]) -> Table:
    """A row a measurement, and below them the exponents of every system."""
    stages = list(dict.fromkeys(stage for run in runs for stage in run["stages"]))
    columns = ("train_processor_s", *stages)

    def cells(values: list[Any], peak: Any) -> tuple[Cell, ...]:
        return (*(Cell(value, decimals=2) for value in values), Cell(peak, decimals=0))

    body = [
        Row(
            f"{run['system']}, {run['rows']:,}",
            cells([run["train_processor_s"], *(run["stages"].get(stage) for stage in stages)], run["peak_mb"]),
        )
        for run in runs
    ]
    by_system = {system: [run for run in runs if run["system"] == system] for system in {r["system"] for r in runs}}
    footer = [
        Row(f"exponent, {system}", cells([exponent(own, column) for column in columns], None))
        for system, own in sorted(by_system.items())
    ]
    return Table(
        "rows",
        f"Cost over the number of rows: {name}",
        "Processor seconds of training, all threads together.",
        "system, rows",
        ("train", *stages, "peak MiB"),
        tuple(body),
        footer=tuple(footer),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default=SYNTHETIC, help=f"a text set, by name or file (default {SYNTHETIC})")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 40_000, 80_000, 160_000])
    parser.add_argument("--systems", nargs="+", default=["accurate"], help=f"presets, or {', '.join(PEERS)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/rows"), help="folder of the results")
    add_record_option(parser, "rows.csv")
    add_data_options(parser)
    options = parser.parse_args()
    name = Path(options.dataset).name.partition(".")[0]
    matrices = write_matrices(options.dataset, max(options.rows), options.data_dir, options.out / name)
    runs, failed = [], False
    for n_rows in sorted(options.rows):
        for system in options.systems:
            try:
                runs.append(measured(name, system, n_rows, matrices, options))
            except WorkerError as error:
                print(f"{system}, {n_rows:,} rows: {error}", file=sys.stderr)
                failed = True
    if options.record:
        for run in runs:
            stages = {f"{stage}_processor_s": spent for stage, spent in run["stages"].items()}
            plain = {key: value for key, value in run.items() if key != "stages"}
            write_rows(options.record, [plain | stages], ("dataset", "system", "rows"))
    print(as_table(name, runs).to_markdown())
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
