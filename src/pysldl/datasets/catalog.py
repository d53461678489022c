"""The data sets that papers compare on: what they should look like, and where copies lie."""

import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pysldl._utils.suggestions import did_you_mean
from pysldl.datasets.dataset import Dataset
from pysldl.datasets.readers import read_dataset
from pysldl.exceptions import DataError

__all__ = ["CATALOG", "DATA_VARIABLE", "DatasetInfo", "dataset_info", "find_dataset", "list_datasets", "load_dataset"]

DATA_VARIABLE = "PYSLDL_DATA"
SUFFIXES = tuple(
    suffix + packed for suffix in (".npz", ".arff", ".txt", ".svm", ".jsonl", ".csv") for packed in ("", ".gz")
)


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before reading it.

    Parameters
    ----------
    name : str
    description : str
    group : {"paper", "large", "repository", "text"}
        The paper's fifteen; two large open ones; the extreme classification repository's; raw text.
    n_samples, n_features, n_labels : int or None
        Expected shape; None where it is not certain or, for texts, does not apply. Train and test
        rows together.
    labels_per_sample : float or None
    features : {"numbers", "binary", "counts", "bag of words", "texts"} or None
        What X holds; "counts" are raw term counts, "bag of words" any weights of terms.
    propensity : (float, float)
        The constants A and B usual for propensity-scored metrics on this set.
    source, license : str
        As stated there.
    aliases : tuple of str
        Other names under which the files are handed round.
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


def _paper(
    name: str,
    description: str,
    shape: tuple[int, int, int],
    labels_per_sample: float | None,
    features: str | None,
    source: str = "mldr.datasets",
    license: str = "LGPL-3",
    aliases: tuple[str, ...] = (),
) -> DatasetInfo:
    usual = (0.55, 1.5)
    return DatasetInfo(name, description, "paper", *shape, labels_per_sample, features, usual, source, license, aliases)


def _repository(
    name: str,
    description: str,
    shape: tuple[int | None, int, int],
    labels_per_sample: float,
    propensity: tuple[float, float] = (0.55, 1.5),
    features: str = "bag of words",
    aliases: tuple[str, ...] = (),
) -> DatasetInfo:
    source, license = "extreme classification repository", "see the source"
    return DatasetInfo(
        name,
        description,
        "repository",
        *shape,
        labels_per_sample,
        features,
        propensity,
        source,
        license,
        aliases,
    )


ELSEWHERE = ("see the paper's references", "see the source")
WIKIPEDIA = (0.5, 0.4)
AMAZON = (0.6, 2.6)

CATALOG: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        _paper("cal500", "songs, described by listeners", (502, 68, 174), 26.04, "numbers"),
        _paper("corel16k-s1", "images", (13766, 500, 153), 2.859, "binary", aliases=("corel16k001",)),
        _paper("corel16k-s2", "images", (13761, 500, 164), 2.882, "binary", aliases=("corel16k002",)),
        _paper("corel16k-s3", "images", (13760, 500, 154), 2.829, "binary", aliases=("corel16k003",)),
        _paper("CUB", "birds and their attributes", (11788, 128, 312), None, None, *ELSEWHERE),
        _paper("delicious", "bookmarked web pages and their tags", (16105, 500, 983), 19.02, "binary"),
        _paper("eurlex-dc", "EU law, directory codes", (19348, 500, 412), None, None, *ELSEWHERE),
        _paper("eurlex-sm", "EU law, subject matters", (19348, 500, 201), None, None, *ELSEWHERE),
        _paper("espgame", "images, named by players", (20770, 1000, 268), None, None, *ELSEWHERE),
        _paper("stackex-chemistry", "forum posts and their tags", (6961, 540, 175), 2.109, "counts"),
        _paper("stackex-chess", "forum posts and their tags", (1675, 585, 227), 2.411, "counts"),
        _paper("stackex-coffee", "forum posts and their tags", (225, 1763, 123), 1.987, "counts"),
        _paper("stackex-cooking", "forum posts and their tags", (10491, 577, 400), 2.225, "counts"),
        _paper("stackex-cs", "forum posts and their tags", (9270, 635, 274), 2.556, "counts"),
        _paper("stackex-philosophy", "forum posts and their tags", (3971, 842, 233), 2.272, "counts"),
        DatasetInfo(
            "eurlex57k",
            "EU law, EuroVoc concepts",
            "large",
            57000,
            19790,
            4271,
            5.069,
            "counts",
            (0.55, 1.5),
            "EURLEX57K",
            "(c) European Union, re-use under Decision 2011/833/EU",
        ),
        DatasetInfo(
            "tibkat",
            "library records in German and English, GND subjects",
            "large",
            95603,
            81101,
            35613,
            2.839,
            "counts",
            (0.55, 1.5),
            "LLMs4Subjects shared task",
            "CC BY 4.0",
        ),
        DatasetInfo(
            "eurlex-text",
            "the first words of EU law, EuroVoc concepts",
            "text",
            12000,
            None,
            None,
            None,
            "texts",
            (0.55, 1.5),
            "EURLEX57K",
            "(c) European Union, re-use under Decision 2011/833/EU",
        ),
        _repository("Bibtex", "bookmarked papers and their tags", (7395, 1836, 159), 2.40, features="binary"),
        _repository("Mediamill", "video shots and concepts", (43907, 120, 101), 4.38, features="numbers"),
        _repository("EURLex-4K", "EU law, EuroVoc concepts", (19348, 5000, 3993), 5.31, aliases=("eurlex",)),
        _repository(
            "Wiki10-31K", "Wikipedia articles and social tags", (20762, 101938, 30938), 18.64, aliases=("wiki10",)
        ),
        _repository("AmazonCat-13K", "products and categories", (1493021, 203882, 13330), 5.04, aliases=("amazonCat",)),
        _repository(
            "Delicious-200K", "bookmarks and their tags", (296701, 782585, 205443), 75.54, aliases=("deliciousLarge",)
        ),
        _repository(
            "WikiLSHTC-325K",
            "Wikipedia articles, categories",
            (2365435, 1617899, 325056),
            3.19,
            WIKIPEDIA,
            aliases=("wikiLSHTC",),
        ),
        _repository(
            "Wiki-500K",
            "Wikipedia articles, categories",
            (None, 2381304, 501070),
            4.77,
            WIKIPEDIA,
            aliases=("Wikipedia-500K",),
        ),
        _repository(
            "Amazon-670K", "products bought together", (643474, 135909, 670091), 5.45, AMAZON, aliases=("amazon",)
        ),
        _repository("Amazon-3M", "products bought together", (2460406, 337067, 2812281), 36.04, AMAZON),
    )
}


def list_datasets(group: str | None = None) -> list[DatasetInfo]:
    """All entries of the catalog, or those of one group ("paper", "large", "text", "repository")."""
    return [info for info in CATALOG.values() if group in (None, info.group)]


def dataset_info(name: str) -> DatasetInfo:
    """The entry of a name or alias, in any case; an unknown one is answered with the nearest."""
    entries = {known.lower(): info for info in CATALOG.values() for known in (info.name, *info.aliases)}
    if name.lower() in entries:
        return entries[name.lower()]
    hint = did_you_mean(name, {known: info.name for known, info in entries.items()})
    raise DataError(f"no data set {name!r} in the catalog; {hint or 'list_datasets() shows all.'}")


def find_dataset(name: str, data_dir: str | os.PathLike[str] | None = None) -> tuple[Path, ...] | None:
    """Where a copy of a data set lies: one file, a train and a test file, or None."""
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
