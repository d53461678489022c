"""Commands on a Dask cluster: rows of Parquet or Arrow files, read part by part by the workers."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from pysldl.cli._input import Reading
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl._utils.progress import ProgressCallback
    from pysldl.cli._model import Scored, Scoring
    from pysldl.dask.parts import Parts
    from pysldl.dask.transport import Packed
    from pysldl.datasets.parquet import Part

SETTINGS = "_predictions.json"  # of a folder of predictions; readers of parts leave out names with an underscore
BYTES_IN_MEMORY = 6  # that a byte of a Parquet file becomes in a local fit, about


@Parameter(name="*")
@dataclass(frozen=True)
class Cluster:
    """Where to work on Parquet and Arrow files part by part.

    Parameters
    ----------
    dask : str, optional
        local, processes of this machine; or the address of a scheduler, such as tcp://10.0.0.1:8786.
    workers : int, optional
        Of a local cluster. Default: one for each core.
    worker_memory : str, optional
        Of each of them, for example "2 GB". Default: an equal part of most of what is free.
    scratch : Path, optional
        Folder for large arrays, on a disk that all workers see. Default: that of temporary files.
    """

    dask: Annotated[str | None, Parameter(name="--dask")] = None
    workers: int | None = None
    worker_memory: str | None = None
    scratch: Path | None = None

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client of the cluster."""
        from pysldl.dask import connect

        with connect(self.dask or "local", workers=self.workers, worker_memory=self.worker_memory) as client:
            yield client


NO_CLUSTER = Cluster()


def open_parts(data: str, reading: Reading, *, n_features: int | None = None) -> "Parts":
    """The parts of files, with the columns that the options name."""
    from pysldl.dask.parts import read_parts
    from pysldl.datasets.parquet import is_arrow_path

    if not is_arrow_path(data):
        raise DataError(f"--dask: {data} is no Parquet or Arrow file, nor a folder or pattern of them.")
    options = reading.options()
    known = ("text", "labels", "indices", "values", "n_features")
    for name in options:
        if name not in known:
            raise DataError(f"--read {name}: Parquet and Arrow files take {', '.join(known)}.")
    if n_features is not None:
        options.setdefault("n_features", n_features)
    return read_parts(data, **options)


def name_of_parts(data: str) -> str:
    """What a report calls the data: ``records`` for ``records/*.parquet``."""
    return Path(data).stem.strip("*") or Path(data).parent.name


def would_not_fit(data: str) -> bool:
    """Whether files are so large that a fit in the memory of this machine would fail."""
    from pysldl._utils.memory import available_memory
    from pysldl.datasets.parquet import is_arrow_path, list_parts

    free = available_memory()
    if free is None or not is_arrow_path(data):
        return False
    files = {part.path for part in list_parts(data)}
    return BYTES_IN_MEMORY * sum(os.path.getsize(path) for path in files) > free  # noqa: PTH202


def predict_parts(
    client: Any,
    model: Path,
    parts: "Parts",
    out: Path,
    settings: dict[str, Any],
    progress: "ProgressCallback | None",
    scratch: Path | None = None,
) -> dict[str, int]:
    """Write the predictions of every part into a file of its own; parts that are there already are left as they are.

    The folder ``out`` remembers model, data and settings (arguments of :func:`predict_part`), and is not continued with
    others. ``scratch`` is for the arrays of the model, which all workers map. Returns the numbers of parts, of those
    that were there, of rows and of labels.
    """
    from pysldl.dask.classifier import open_model
    from pysldl.dask.cluster import clear_errors, shared_folder
    from pysldl.dask.workspace import gather
    from pysldl.persistence import read_manifest

    seal = hashlib.sha256(json.dumps(sorted((k, v.sha256) for k, v in read_manifest(model).files.items())).encode())
    about = {"model": seal.hexdigest(), "parts": [list(part) for part in parts.parts], **settings}
    _claim(out, about)
    todo = [number for number in range(len(parts)) if not _target(out, number).exists()]
    ask = partial(predict_part, str(out.resolve()), parts.columns, settings)
    counts = {"parts": len(parts), "parts_there": len(parts) - len(todo), "rows": 0, "labels": 0}
    with shared_folder(client, scratch) as folder, clear_errors(client, "predict"):
        opened = client.submit(open_model, str(Path(model).resolve()), folder, verify=True, pure=False)
        futures = [
            client.submit(ask, opened, folder, number, parts.parts[number], _first_row(parts, number), pure=False)
            for number in todo
        ]
        for rows, labels in gather(client, "predict", futures, [str(parts.parts[n]) for n in todo], progress):
            counts["rows"] += rows
            counts["labels"] += labels
    return counts


def predict_part(
    out: str,
    columns: Any,
    settings: dict[str, Any],
    model: "Packed",
    token: str,
    number: int,
    part: "Part",
    first_row: int,
) -> tuple[int, int]:
    """Predict for one part and write its file, whole or not at all; returns numbers of rows and labels."""
    from pysldl._utils.files import open_atomic
    from pysldl.backend.threads import at_most_threads
    from pysldl.cli._model import UnlabeledRows
    from pysldl.cli.predict import predict_rows, write_parquet_rows
    from pysldl.dask.transport import unpacked
    from pysldl.dask.workspace import releasing_pages
    from pysldl.datasets.parquet import read_part

    classifier = unpacked(token, model)
    rows = read_part(part, columns, labels=False, n_features=_width(classifier))
    try:
        unlabeled = UnlabeledRows(rows.X if rows.texts is None else rows.texts)
        cut, proba = settings["threshold"], settings["proba"]
        with releasing_pages(), at_most_threads(1):
            found = list(predict_rows(classifier, unlabeled, settings["k"], cut, first_row=first_row, proba=proba))
    except DataError as error:
        raise DataError(f"{part}: {error}") from error
    with open_atomic(_target(Path(out), number)) as stream:
        write_parquet_rows(stream, found, "probabilities" if settings["proba"] else "scores")
    return len(found), sum(len(row.names) for row in found)


def _width(classifier: Any) -> int | None:
    """Columns that features must have; None where the model takes texts."""
    return classifier.n_features_in_ if classifier.vectorizer_ is None else None


def _target(out: Path, number: int) -> Path:
    return out / f"part-{number:05d}.parquet"


def _first_row(parts: "Parts", number: int) -> int:
    return sum(part.n_rows for part in parts.parts[:number])


def _claim(out: Path, about: dict[str, Any]) -> None:
    """Make the folder, or make sure that it holds the beginning of the same predictions."""
    from pysldl._utils.files import is_leftover, write_atomically

    if out.exists() and not out.is_dir():
        raise DataError(f"--out {out}: is a file, but predictions of parts need a folder.")
    noted = out / SETTINGS
    if not noted.exists():
        # A command that was killed here leaves a part of this file, which the next one removes.
        if out.is_dir() and any(not is_leftover(entry.name, SETTINGS) for entry in out.iterdir()):
            raise DataError(f"--out {out}: the folder holds other files. Choose a new one.")
        write_atomically(noted, json.dumps(about, indent=1))
        return
    try:
        before = json.loads(noted.read_text())
    except ValueError:
        before = None
    if before != json.loads(json.dumps(about)):
        raise DataError(f"--out {out}: holds predictions of another model, other data or other settings.")


def scored_parts(
    client: Any,
    model: Path,
    parts: "Parts",
    scoring: "Scoring",
    progress: "ProgressCallback | None",
    scratch: Path | None = None,
) -> "Scored":
    """Score the predictions of all parts on the workers; only sums come back."""
    from pysldl.dask.classifier import open_model
    from pysldl.dask.cluster import clear_errors, shared_folder
    from pysldl.dask.workspace import gather

    score = partial(_score_part, parts.columns, scoring)
    with shared_folder(client, scratch) as folder, clear_errors(client, "evaluate"):
        opened = client.submit(open_model, str(Path(model).resolve()), folder, pure=False)
        futures = [client.submit(score, opened, folder, part, pure=False) for part in parts.parts]
        found: list[Scored] = gather(client, "evaluate", futures, [str(part) for part in parts.parts], progress)
    return sum(found[1:], start=found[0])


def _score_part(columns: Any, scoring: "Scoring", model: "Packed", token: str, part: "Part") -> "Scored":
    import numpy as np

    from pysldl.backend.threads import at_most_threads
    from pysldl.cli._model import Truth
    from pysldl.dask.transport import unpacked
    from pysldl.dask.workspace import releasing_pages
    from pysldl.datasets.parquet import read_part
    from pysldl.preprocessing.labels import rows_of_names

    classifier = unpacked(token, model)
    rows = read_part(part, columns, n_features=_width(classifier))
    counts = classifier.label_counts_
    try:
        names = [] if rows.labels is None else rows_of_names(rows.labels)
        Y = classifier.encode(names, unseen=scoring.unseen or "error")
        with releasing_pages(), at_most_threads(1):
            X = rows.X if rows.texts is None else rows.texts
            labels, _ = classifier.predict_topk(X, max(scoring.cutoffs))
    except DataError as error:
        raise DataError(f"{part}: {error}") from error
    return scoring.sums(Truth(Y, np.pad(counts, (0, Y.shape[1] - len(counts)))), labels)
