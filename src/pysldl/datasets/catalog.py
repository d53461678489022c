"""The data sets that papers compare on: their expected shapes (catalog.csv), and where local copies are."""

import csv
import os
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from pysldl._utils.suggestions import did_you_mean
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.readers import read_dataset
from pysldl.exceptions import DataError

DATA_VARIABLE = "PYSLDL_DATA"
SUFFIXES = tuple(
    suffix + packed for suffix in (".npz", ".arff", ".txt", ".svm", ".jsonl", ".csv") for packed in ("", ".gz")
)


@dataclass(frozen=True)
class DatasetInfo:
    """Catalog entry of a data set: expected shape, kind of features, source and license.

    Parameters
    ----------
    name : str
        Name in the catalog.
    description : str
        What rows and labels are.
    group : {"paper", "large", "repository", "text"}
        The paper's fifteen; two large open ones; the extreme classification repository's; raw text.
    n_samples, n_features, n_labels : int or None
        Expected shape, train and test rows together; None if it is not certain or, for texts, does not apply.
    labels_per_sample : float or None
        Mean number of labels of a row.
    features : {"numbers", "binary", "counts", "bag of words", "texts"} or None
        What X holds; "counts" are raw term counts, "bag of words" any weights of terms.
    propensity : tuple of float
        The constants A and B usual for propensity-scored metrics on this set.
    source, license : str
        As stated there.
    aliases : tuple of str
        Other names of the same files.

    Examples
    --------
    >>> from pysldl.datasets import dataset_info
    >>> info = dataset_info("eurlex")
    >>> info.name, info.n_labels
    ('EURLex-4K', 3993)
    """

    name: str
    description: str
    group: str
    n_samples: int | None
    n_features: int | None
    n_labels: int | None
    labels_per_sample: float | None
    features: str | None
    propensity: tuple[float, float]
    source: str
    license: str
    aliases: tuple[str, ...] = ()


def _read_catalog() -> dict[str, DatasetInfo]:
    with files("pysldl.datasets").joinpath("catalog.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    catalog = {}
    for row in rows:
        entry: dict[str, Any] = {key: row[key] or None for key in row if not key.startswith("propensity")}
        for key in ("n_samples", "n_features", "n_labels"):
            entry[key] = int(row[key]) if row[key] else None
        entry["labels_per_sample"] = float(row["labels_per_sample"]) if row["labels_per_sample"] else None
        entry["propensity"] = (float(row["propensity_a"]), float(row["propensity_b"]))
        entry["aliases"] = tuple(filter(None, row["aliases"].split(";")))
        catalog[row["name"]] = DatasetInfo(**entry)
    return catalog


CATALOG: dict[str, DatasetInfo] = _read_catalog()


def list_datasets(group: str | None = None) -> list[DatasetInfo]:
    """List the data sets of the catalog, or those of one group.

    Parameters
    ----------
    group : {"paper", "large", "text", "repository"}, optional
        See :class:`DatasetInfo`.
    """
    return [info for info in CATALOG.values() if group in (None, info.group)]


def dataset_info(name: str) -> DatasetInfo:
    """Look up a data set in the catalog.

    Parameters
    ----------
    name : str
        A name or alias, in any case; the error for an unknown one suggests the nearest.
    """
    entries = {known.lower(): info for info in CATALOG.values() for known in (info.name, *info.aliases)}
    if name.lower() in entries:
        return entries[name.lower()]
    hint = did_you_mean(name, {known: info.name for known, info in entries.items()})
    raise DataError(f"no data set {name!r} in the catalog; {hint or 'see: sldl datasets, or list_datasets().'}")


def find_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> tuple[Path, ...] | None:
    """Find the local copy of a data set: one file, a train and a test file, or None.

    Parameters
    ----------
    name : str
        A name or alias, in any case.
    data_dir : path, optional
        As in :func:`load_dataset`.
    """
    info = dataset_info(name)
    names = tuple(name.lower() for name in (info.name, *info.aliases))
    return next(filter(None, (_files_in(folder, names) for folder in _folders(data_dir))), None)


def load_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Read a data set of the catalog from a local copy and check its shape.

    Parameters
    ----------
    name : str
        A name or alias of the catalog, in any case.
    data_dir : path, optional
        The folder of the copies. Default: the environment variable ``PYSLDL_DATA`` (several folders
        are separated as in ``PATH``). Looked for, in this order: ``name.npz``, ``name.arff``,
        ``name.txt``, ``name.svm``, ``name.jsonl``, ``name.csv``, each also with ``.gz``; the pair
        ``name_train.txt`` and ``name_test.txt``; the same, or ``train.txt`` and ``test.txt``, in a
        folder ``name``. Upper and lower case are alike.
    """
    info = dataset_info(name)
    found = find_dataset(name, data_dir)
    if found is None:
        raise DataError(_where_it_should_be(info, data_dir))
    options: dict[str, Any] = {"name": info.name}
    if len(found) == 2:
        options["test_path"] = found[1]
    dataset = read_dataset(found[0], **options)
    _check_shape(dataset, info, found[0])
    return dataset


def _folders(data_dir: str | os.PathLike[str] | None) -> list[Path]:
    if data_dir is not None:
        return [Path(data_dir)]
    return [Path(folder) for folder in os.environ.get(DATA_VARIABLE, "").split(os.pathsep) if folder]


def _files_in(folder: Path, names: tuple[str, ...]) -> tuple[Path, ...] | None:
    """The files of a data set known by ``names``, in a folder or in one of these names inside it."""
    outer = _entries(folder)
    inner = [_entries(outer[name]) for name in names if name in outer]
    for number, entries in enumerate([outer, *inner]):
        for name, suffix in product(names, SUFFIXES):
            if name + suffix in entries:
                return (entries[name + suffix],)
        prefixes = [name + joint for name in names for joint in "_-"] + [""] * (number > 0)
        for prefix, suffix in product(prefixes, SUFFIXES):
            train, test = (entries.get(f"{prefix}{part}{suffix}") for part in ("train", "test"))
            if train and test:
                return train, test
    return None


def _entries(folder: Path) -> dict[str, Path]:
    """What a folder holds, by lower-case name."""
    return {entry.name.lower(): entry for entry in sorted(folder.iterdir())} if folder.is_dir() else {}


def _where_it_should_be(info: DatasetInfo, data_dir: str | os.PathLike[str] | None) -> str:
    folders = _folders(data_dir)
    wanted = f"{info.name}.npz, .arff, .txt, .svm or a folder {info.name}"
    if not folders:
        looked = f"no folder was given; set {DATA_VARIABLE} or data_dir to the one that holds {wanted}"
    else:
        missing = [str(folder) for folder in folders if not folder.is_dir()]
        looked = f"looked in {', '.join(map(str, folders))} for {wanted}"
        looked += f"; no such folder: {', '.join(missing)}" if missing else ""
    return f"no local copy of data set {info.name!r}: {looked}. Source: {info.source} ({info.license})."


def _check_shape(dataset: Dataset, info: DatasetInfo, path: Path) -> None:
    for what in ("n_samples", "n_features", "n_labels"):
        expected, found = getattr(info, what), getattr(dataset, what)
        if expected is not None and expected != found:
            raise DataError(
                f"{path}: {what} is {found}, but data set {info.name!r} has {expected}. If it is meant to "
                "differ, read it with read_dataset()."
            )
