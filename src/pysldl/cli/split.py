"""`sldl split`: training and test rows of a data set that has no split."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pysldl.cli._input import USUAL_READING, Data, Reading, read_data
from pysldl.cli._output import Json, console, print_json, table
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from pysldl.datasets import Dataset

PLACE = "{split}"


def split(
    data: Data,
    /,
    *,
    out: Path,
    test: float = 0.1,
    validation: float = 0.0,
    random: bool = False,
    seed: int = 0,
    reading: Reading = USUAL_READING,
    json: Json = False,
) -> None:
    """Split the rows of a data set into train and test rows, keeping the share of every label.

    Examples: `sldl split posts.jsonl --out posts-split.jsonl --test 0.1`, then `sldl fit posts-split.jsonl` and
    `sldl evaluate`, which find the parts by themselves; `sldl split posts.csv --out 'posts-{split}.csv'`

    Texts are written with their labels, ids and titles; other fields of the file are left out.

    Parameters
    ----------
    out : Path
        File to write, with the part of each row in its field `split`; or, with the word {split} in its name, one file a
        part. Texts are written as JSON lines or as a table, by the suffix (.jsonl, .csv, .tsv), features as .npz.
    test : float
        Share of the rows to test on.
    validation : float
        Share of the rows for a third part named validation.
    random : bool
        Draw rows at random instead of by iterative stratification, which keeps the share of every label.
    seed : int
        The same seed gives the same parts.
    """
    write = _writer(out)
    dataset = replace(read_data(data, reading), splits={})
    parts = _parts(dataset, test, validation, random, seed)
    files = {name: out.with_name(out.name.replace(PLACE, name)) for name in parts}
    _keep_source(data, files.values())
    if PLACE in out.name:
        for name, rows in parts.items():
            write(dataset.subset(rows), files[name])
    else:
        write(replace(dataset, splits=parts), out)
    result = {
        name: {"rows": len(rows), "labels": int((dataset.Y[rows].sum(axis=0) > 0).sum()), "file": str(files[name])}
        for name, rows in parts.items()
    }
    if json:
        print_json(result)
    else:
        shown = table(dataset.name, "part", "rows", "labels", "file", numbers=("rows", "labels"))
        for name, facts in result.items():
            shown.add_row(name, *map(str, facts.values()))
        console().print(shown)


def _keep_source(data: str, files: Iterable[Path]) -> None:
    """Raise an error if one of the files to write is the one that was read, which may have fields that are left out."""
    for file in files:
        if Path(data).exists() and file.exists() and file.samefile(data):
            raise DataError(f"--out {file}: this is the file that is read; choose another name for what is written.")


def _writer(out: Path) -> Any:
    """The function that writes files with the suffix of ``out``."""
    from pysldl.datasets import write_csv, write_jsonl, write_npz

    writers = {".jsonl": write_jsonl, ".ndjson": write_jsonl, ".csv": write_csv, ".tsv": write_csv, ".npz": write_npz}
    if out.suffix.lower() not in writers:
        raise DataError(f"--out {out}: parts are written as {', '.join(writers)}; end the name in one of them.")
    return writers[out.suffix.lower()]


def _parts(dataset: "Dataset", test: float, validation: float, random: bool, seed: int) -> Mapping[str, Any]:
    """Row numbers by the name of the part."""
    import numpy as np

    from pysldl.datasets import stratified_split

    for option, share in (("--test", test), ("--validation", validation)):
        if not 0 <= share < 1 or test + validation >= 1 or test == 0:
            raise DataError(f"{option} {share:g}: shares lie between 0 and 1, and leave rows to train on.")
    parts = {}
    rest = np.arange(dataset.n_samples)
    for name, share in (("test", test), ("validation", validation)):
        if share == 0:
            continue
        wanted = share * dataset.n_samples / len(rest)
        if random:
            shuffled = np.random.RandomState(seed).permutation(len(rest))
            n_chosen = max(1, round(wanted * len(rest)))
            others, chosen = np.sort(shuffled[n_chosen:]), np.sort(shuffled[:n_chosen])
        else:
            try:
                others, chosen = stratified_split(dataset.Y[rest], wanted, random_state=seed)
            except DataError:
                raise DataError(
                    f"--{name} {share:g}: of {dataset.n_samples} rows one part would get none; choose another share."
                ) from None
        parts[name], rest = rest[chosen], rest[others]
    return {"train": rest, **parts}
