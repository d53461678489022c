"""`sldl update`: add rows to a model, or take some out, and replace its folder."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pysldl.cli._dask import NO_CLUSTER, Cluster, name_of_parts, open_parts
from pysldl.cli._input import USUAL_READING, AnyData, Features, Reading, choose_rows, parse_ranges, read_data
from pysldl.cli._output import Json, print_result
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import name_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysldl.cli._model import Model
    from pysldl.dask.parts import Parts
    from pysldl.datasets import Dataset

NAMES_SHOWN = 10


def update(
    model: Path,
    data: AnyData | None = None,
    /,
    *,
    remove: str | None = None,
    split: str | None = None,
    features: Features = "auto",
    keep: Path | None = None,
    reading: Reading = USUAL_READING,
    cluster: Cluster = NO_CLUSTER,
    json: Json = False,
) -> None:
    """Add rows to a model, including new labels, or take rows out; nothing is refitted.

    Examples: `sldl update posts new-posts.jsonl`, `sldl update posts --remove 17,100-120 --keep posts-before`

    The model must have been fitted with `--set online=true`. The new version becomes the current one in one step:
    `load_model` always finds either the complete old one or the complete new one. Two updates of a model wait for each
    other.

    Parameters
    ----------
    model : Path
        Folder that `sldl fit --set online=true` wrote.
    data : str, optional
        Rows to add: a file, a name of the catalog, or - for standard input.
    remove : str, optional
        Training rows to take out before any are added, by number: `17,100-120`. They are counted from 0 in the order
        they were learned; the rows after a removed one move up.
    split : str, optional
        Only the rows of this split of the data. Default: all.
    keep : Path, optional
        Folder to leave the old version in.
    cluster : Cluster, optional
        With --dask, the parts of Parquet or Arrow files are read by its workers and learned one after the other.
    """
    from pysldl.persistence import lock_model, read_manifest

    if data is None and remove is None:
        raise DataError("There is nothing to do: give DATA to add rows from, or --remove with rows to take out.")
    if keep is not None and keep.exists():
        raise DataError(f"{keep}: exists already. Choose another folder for the old version.")
    manifest = read_manifest(model)
    if cluster.dask is not None:
        if data is None or split is not None:
            raise DataError("--dask: needs DATA in Parquet or Arrow files, and takes all rows, without --split.")
        parts = open_parts(data, reading, n_features=manifest.n_features)
        with cluster.client() as client, lock_model(model):
            done = _update(model, lambda opened: _add_parts(opened, client, parts, data), remove, keep)
    else:
        dataset = None if data is None else read_data(data, reading, n_features=manifest.n_features)
        with lock_model(model):  # from reading to saving, so that no other update comes in between
            done = _update(model, lambda opened: _add(opened, dataset, split, features), remove, keep)
    _report(*done, keep, json)


def _update(
    model: Path, add: "Callable[[Model], tuple[str | None, str | None]]", remove: str | None, keep: Path | None
) -> "tuple[Model, dict[str, Any], list[str], int, float]":
    """Change and save the model; return it, what was changed, new labels, the number of its version, and seconds.

    ``add`` learns rows, and returns the names of their data and split.
    """
    from pysldl.cli._model import open_model
    from pysldl.persistence import save_model

    opened = open_model(model)
    classifier = opened.classifier
    if not hasattr(classifier, "partial_fit"):
        able = "" if hasattr(classifier, "online") else " --preset accurate"  # or another of SLDL
        raise DataError(
            f"{model}: was not fitted for incremental updates. Fit it again with: "
            f"sldl fit DATA{able} --set online=true."
        )

    started = time.perf_counter()
    known, n_before = set(classifier.label_names_.tolist()), classifier.n_samples_
    if remove is not None:
        classifier.remove_rows(parse_ranges(remove, "--remove", n_before, "training row"))
    n_removed = n_before - classifier.n_samples_
    name, part = add(opened)
    seconds = time.perf_counter() - started
    new_labels = [str(label) for label in classifier.label_names_.tolist() if label not in known]
    change = {
        "data": name,
        "split": part,
        "n_added": classifier.n_samples_ - n_before + n_removed,
        "n_removed": n_removed,
        "n_new_labels": len(new_labels),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    about = opened.manifest.extra
    extra = about | {"n_samples": classifier.n_samples_, "updates": [*about.get("updates", []), change]}
    if keep is not None:
        _copy_aside(opened, keep)
    save_model(classifier, model, extra=extra, overwrite=True, expected_version=opened.version)
    return opened, change, new_labels, len(extra["updates"]) + 1, seconds


def _report(
    opened: "Model",
    change: dict[str, Any],
    new_labels: list[str],
    version: int,
    seconds: float,
    previous: Path | None,
    json: bool,
) -> None:
    result = {
        "model": str(opened.path),
        **change,
        "n_samples": opened.classifier.n_samples_,
        "n_labels": len(opened.classifier.label_names_),
        "new_labels": new_labels,
        "version": version,
        "previous": None if previous is None else str(previous),
        "seconds": round(seconds, 3),
    }
    more = f" and {len(new_labels) - NAMES_SHOWN} more; --json shows all" if len(new_labels) > NAMES_SHOWN else ""
    print_result(result, json, result | {"new_labels": ", ".join(new_labels[:NAMES_SHOWN]) + more})


def _add(
    opened: "Model", dataset: "Dataset | None", split: str | None, features: Features
) -> tuple[str | None, str | None]:
    """Learn the rows of a data set, if there is one; returns its name and that of the split."""
    if dataset is None:
        return None, None
    rows, part = choose_rows(dataset, split)
    _learn(opened, rows, features)
    return dataset.name, part


def _add_parts(opened: "Model", client: Any, parts: "Parts", data: str) -> tuple[str, str]:
    """Learn parts that the workers of a cluster read, one after the other."""
    from pysldl.dask.parts import blocks_of, labeled_rows, named_errors, read_in_order

    classifier = opened.classifier
    for block in read_in_order(client, blocks_of(parts), "update"):
        with named_errors(block):
            X, Y, names = labeled_rows(block, classifier.label_names_)
            classifier.partial_fit(X, Y, label_names=names)
    return name_of_parts(data), "all"


def _learn(opened: "Model", rows: "Dataset", features: Features) -> None:
    """Learn the rows, their labels matched by name; by position if the data has no names for them."""
    import numpy as np

    X: Any = opened.rows_of(rows, features)
    known = opened.classifier.label_names_
    unnamed = np.array_equal(rows.label_names, name_array(range(rows.n_labels)))
    if unnamed and len(known) == rows.n_labels:
        opened.classifier.partial_fit(X, rows.Y)
        return
    if unnamed and not np.array_equal(known, name_array(range(len(known)))):
        raise DataError(
            f"{rows.name}: has {rows.n_labels} labels without names, but {opened.path} knows {len(known)} by name."
        )
    # A split need not carry every label of its data set; those that it does not are none of the model's concern.
    carried = np.flatnonzero(np.bincount(rows.Y.indices, minlength=rows.n_labels))
    if carried.size == 0:
        raise DataError(f"{rows.name}: carries no label at all, so there is nothing to learn from it.")
    opened.classifier.partial_fit(X, rows.Y[:, carried], label_names=rows.label_names[carried].tolist())


def _copy_aside(opened: "Model", keep: Path) -> None:
    """Copy the old version to ``keep``, whole or not at all."""
    from pysldl.persistence import current_version
    from pysldl.persistence.versions import copy_version

    try:
        copy_version(current_version(opened.path), keep.resolve())
    except OSError as error:
        raise DataError(f"{keep}: the old version cannot be kept there: {error.strerror or error}.") from error
