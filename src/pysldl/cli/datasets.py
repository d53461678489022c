"""`sldl datasets`: the catalog of data sets, and local copies of them."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pysldl.cli._output import console, print_json, print_result, say, table

if TYPE_CHECKING:
    from pysldl.datasets import DatasetInfo


def datasets(name: str | None = None, /, *, data_dir: Path | None = None, json: bool = False) -> None:
    """List the known data sets and where local copies are, or show one and check its copy.

    Examples: `sldl datasets --data-dir ~/data`, `sldl datasets stackex-chess`

    Nothing is downloaded. Copies are searched in `--data-dir` or in the folders of the environment variable
    PYSLDL_DATA. With a NAME, its copy is read and its shape is compared with the catalog.

    Parameters
    ----------
    name : str, optional
        One data set of the catalog.
    data_dir : Path, optional
        Folder that holds the copies.
    json : bool
        Print a JSON list, or one object with a NAME.
    """
    from pysldl.datasets import list_datasets

    if name is not None:
        _show_one(name, data_dir, json)
        return
    entries = [_entry(info, data_dir) for info in list_datasets()]
    if json:
        print_json(entries)
        return
    sizes = ("samples", "features", "labels", "a sample")
    listing = table("data sets", "name", *sizes, "found", numbers=sizes)
    for entry in entries:
        shape = (entry[size] for size in ("n_samples", "n_features", "n_labels", "labels_per_sample"))
        found = ", ".join(Path(path).name for path in entry["found"] or ["-"])
        listing.add_row(
            entry["name"],
            *("-" if size is None else f"{size:.4g}" if isinstance(size, float) else str(size) for size in shape),
            found,
        )
    console().print(listing)
    _say_where(data_dir)


def _show_one(name: str, data_dir: Path | None, json: bool) -> None:
    from pysldl.datasets import dataset_info, load_dataset

    entry = _entry(dataset_info(name), data_dir)
    if entry["found"] is not None:
        dataset = load_dataset(name, data_dir)
        entry["verified"] = {
            "n_samples": dataset.n_samples,
            "n_features": dataset.n_features,
            "n_labels": dataset.n_labels,
            "labels_per_sample": dataset.labels_per_sample,
            "splits": {part: len(rows) for part, rows in dataset.splits.items()},
        }
    print_result(entry, json)


def _entry(info: "DatasetInfo", data_dir: Path | None) -> dict[str, Any]:
    from pysldl.datasets import find_dataset

    found = find_dataset(info.name, data_dir)
    return asdict(info) | {"found": None if found is None else [str(path) for path in found]}


def _say_where(data_dir: Path | None) -> None:
    from pysldl.datasets.catalog import DATA_VARIABLE

    folders = str(data_dir) if data_dir is not None else os.environ.get(DATA_VARIABLE, "")
    where = f"looked in {folders}" if folders else f"no folder to look in: pass --data-dir or set {DATA_VARIABLE}"
    say(where)
