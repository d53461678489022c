"""Which features does ``vectorizer="auto"`` choose for texts of several languages, and is it right?

Each corpus is a file that ``read_dataset`` takes, with train and test rows; without such a split a fifth of the rows,
drawn by iterative stratification, is tested. The choice sees train rows only. All three kinds of features are measured
with the preset ``accurate``; ``probe`` is what the choice was made by, on held-out train rows.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from pysldl import evaluate, make_sldl
from pysldl.datasets import Dataset, load_dataset, read_dataset, stratified_split
from pysldl.preprocessing.text import VECTORIZERS, choose_vectorizer, default_vectorizer, probe_quality, probe_rows
from records import add_record_option, write_rows

KEY = ("corpus", "features")
METRICS = ("P@1", "P@5", "nDCG@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="a file with texts and labels, or a name of the catalog")
    parser.add_argument("language", help="what the record calls it: fi, de, en")
    parser.add_argument("--rows", type=int, default=20_000, help="train rows that are drawn, at most")
    parser.add_argument("--preset", default="accurate")
    parser.add_argument("--test", help="a file with the test rows, where they are in one of their own")
    add_record_option(parser, "languages.csv")
    arguments = parser.parse_args()
    rows = measure(read_corpus(arguments.corpus), arguments)
    if arguments.record is not None:
        write_rows(arguments.record, rows, KEY)


def measure(data: Dataset, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Metrics of each kind of features, of which one is the chosen one."""
    train, test = parts_of(data, arguments)
    texts, lists = train.texts, label_lists(train)
    probed = probe_rows(texts)
    some, Y = [texts[row] for row in probed], sparse.csr_array(train.Y[probed])
    chosen = choose_vectorizer(texts, train.Y).get_params()
    rows = []
    for name, settings in VECTORIZERS.items():
        vectorizer = default_vectorizer(**settings)
        model = make_sldl(arguments.preset, vectorizer=vectorizer, random_state=0).fit(texts, lists)
        labels, _ = model.predict_topk(test.texts, 5)
        found = evaluate(model.encode(label_lists(test), unseen="keep"), labels, ks=(1, 5))
        rows.append(
            {"corpus": data.name, "language": arguments.language, "features": name, "preset": arguments.preset}
            | {
                "chosen": "yes" if vectorizer.get_params() == chosen else "no",
                "probe": probe_quality(some, Y, settings),
            }
            | {"train_rows": train.n_samples, "test_rows": test.n_samples, "labels": len(model.label_names_)}
            | {"n_features": model.n_features_in_}
            | {metric: found[metric] for metric in METRICS}
        )
        print(rows[-1], flush=True)
    return rows


def parts_of(data: Dataset, arguments: argparse.Namespace) -> tuple[Dataset, Dataset]:
    if arguments.test is not None:
        return data, read_corpus(arguments.test)
    if {"train", "test"} <= data.splits.keys():
        train, test = data.splits["train"], data.splits["test"]
    else:
        train, test = stratified_split(data.Y, 0.2)
    rng = np.random.RandomState(0)
    train, test = (rng.permutation(part)[: arguments.rows] for part in (train, test))
    return data.subset(np.sort(train)), data.subset(np.sort(test))


def read_corpus(name: str) -> Dataset:
    path = Path(name)
    if not path.exists():
        return load_dataset(name)
    data = read_dataset(path)
    return replace(data, name=path.parent.name) if path.stem == "train" else data


def label_lists(dataset: Dataset) -> list[list[str]]:
    rows = np.split(dataset.Y.indices, dataset.Y.indptr[1:-1])
    return [dataset.label_names[columns].tolist() for columns in rows]


if __name__ == "__main__":
    main()
