"""Do names of labels that occur in a text, and the hierarchy of their vocabulary, make better rankings?

The model is ``accurate``, fitted on the train rows with the vocabulary; rates of names are learned on the same rows.
Nothing is chosen on the test rows.
"""

import argparse
from typing import Any

import numpy as np

from pysldl import evaluate, make_sldl
from pysldl.datasets import Dataset, load_dataset, read_dataset, read_vocabulary
from pysldl.metrics.propensity import inverse_propensity_from_counts
from records import add_record_option, write_rows

KEY = ("data", "method")
OPTIONS: dict[str, dict[str, Any]] = {
    "as they are": {},
    "with names in the text": {"match_names": True},
    "with broader labels": {"hierarchy": "broader"},
    "without labels that have a narrower one": {"hierarchy": "narrower"},
}
WIDTH = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", help="SKOS, CSV or TSV")
    parser.add_argument("data", help="a file, or a name of the catalog, with splits train and test")
    add_record_option(parser, "names_in_texts.csv")
    arguments = parser.parse_args()
    try:
        dataset = load_dataset(arguments.data)
    except ValueError:
        dataset = read_dataset(arguments.data)
    train, test = dataset.split("train"), dataset.split("test")
    vocabulary = read_vocabulary(arguments.vocabulary)
    model = make_sldl("accurate", random_state=0)
    model.fit(train.texts, train.Y, label_names=train.label_names.tolist(), vocabulary=vocabulary)
    model.learn_name_rates(train.texts, _label_lists(train))
    Y = model.encode(_label_lists(test), unseen="keep")
    counts = np.pad(model.label_counts_, (0, Y.shape[1] - len(model.label_counts_)))
    propensity = inverse_propensity_from_counts(counts, train.n_samples)
    rows = []
    for method, options in OPTIONS.items():
        labels, _ = model.predict_topk(test.texts, WIDTH, **options)
        found = evaluate(Y, labels, propensity, ks=(1, 5, 10))
        about = {"data": dataset.name, "method": method, "rows": test.n_samples, "labels": len(model.label_names_)}
        rows.append(about | {name: found[name] for name in ("P@1", "P@5", "nDCG@5", "R@10", "PSP@5")})
        print(rows[-1], flush=True)
    if arguments.record is not None:
        write_rows(arguments.record, rows, KEY)


def _label_lists(dataset: Dataset) -> list[list[str]]:
    rows = np.split(dataset.Y.indices, dataset.Y.indptr[1:-1])
    return [dataset.label_names[columns].tolist() for columns in rows]


if __name__ == "__main__":
    main()
