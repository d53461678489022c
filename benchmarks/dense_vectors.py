"""Do dense vectors beside words find labels that words alone do not?

No encoder is downloaded: the vectors are the first components of a singular value decomposition of groups of
characters, fitted on the train texts, so that they know what words of similar spelling share. Vectors of a language
model know more.
"""

import argparse
import time
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD

from languages import label_lists, parts_of, read_corpus
from pysldl import evaluate, make_sldl
from pysldl.preprocessing.text import VECTORIZERS, default_vectorizer
from records import add_record_option, write_rows

KEY = ("corpus", "features", "preset")
METRICS = ("P@1", "P@5", "nDCG@5")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="a file with texts and labels, or a name of the catalog")
    parser.add_argument("--rows", type=int, default=20_000, help="train rows that are drawn, at most")
    parser.add_argument("--preset", default="accurate")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--test", help="a file with the test rows, where they are in one of their own")
    add_record_option(parser, "dense_vectors.csv")
    arguments = parser.parse_args()
    data = read_corpus(arguments.corpus)
    train, test = parts_of(data, arguments)
    characters = default_vectorizer(**VECTORIZERS["characters"])
    svd = TruncatedSVD(arguments.width, random_state=0)
    E = svd.fit_transform(characters.fit_transform(train.texts)).astype(np.float32)
    asked = svd.transform(characters.transform(test.texts)).astype(np.float32)
    lists, truth = label_lists(train), label_lists(test)
    rows: list[dict[str, Any]] = []
    for name in ("words", "vectors", "words and vectors"):
        model = make_sldl(arguments.preset, random_state=0)
        beside = {} if name != "words and vectors" else {"dense": asked}
        given, X = (E, asked) if name == "vectors" else (train.texts, test.texts)
        started = time.process_time()
        model.fit(given, lists, **({"dense": E} if beside else {}))
        seconds = time.process_time() - started
        labels, _ = model.predict_topk(X, 5, **beside)
        found = evaluate(model.encode(truth, unseen="keep"), labels, ks=(1, 5))
        about = {"corpus": data.name, "features": name, "preset": arguments.preset, "width": arguments.width}
        about |= {"train_rows": train.n_samples, "test_rows": test.n_samples, "fit_processor_s": round(seconds, 1)}
        about |= {"weight": getattr(model.decoder_, "weight_", None)} if beside else {"weight": None}
        rows.append(about | {metric: found[metric] for metric in METRICS})
        print(rows[-1], flush=True)
    if arguments.record is not None:
        write_rows(arguments.record, rows, KEY)


if __name__ == "__main__":
    main()
