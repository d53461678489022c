"""What the latent path costs: the mapping by solver, and the search for neighbors of all training rows by index.

    python benchmarks/latent.py eurlex57k tibkat

Random codes of 128 dimensions; kernels are compiled before anything is timed. One JSON object a line, with wall and
processor seconds.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from data import add_data_options, open_dataset, text_features
from pysldl.backend.linear_algebra import unit_vectors
from pysldl.embedding import RandomLabelEmbedding
from pysldl.exceptions import SLDLError
from pysldl.mapping import RidgeMapping
from pysldl.neighbors import ExactIndex, FaissIndex
from records import add_record_option, write_rows

MAPPINGS = {
    "early stopping": {"early_stopping": True},
    "early stopping, six alphas": {"early_stopping": True, "alpha": [10.0, 5.0, 2.0, 1.0, 0.5, 0.2]},
    "residual 1e-4": {"tol": 1e-4},
}
INDEXES = {
    "exact": ExactIndex(),
    "faiss flat": FaissIndex("flat"),
    "faiss ivf 0.95": FaissIndex("ivf", recall=0.95),
    "faiss ivf 0.80": FaissIndex("ivf", recall=0.8),
    "faiss hnsw 0.95": FaissIndex("hnsw", recall=0.95),
}
NEIGHBORS = 30


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What the work gives, and its wall and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, {
        "seconds": round(time.perf_counter() - wall, 2),
        "processor": round(time.process_time() - processor, 2),
    }


def main() -> None:
    """Measure what was asked for, one line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["eurlex57k", "tibkat"])
    parser.add_argument("--indexes", nargs="*", default=list(INDEXES), choices=list(INDEXES))
    parser.add_argument("--mappings", nargs="*", default=list(MAPPINGS), choices=list(MAPPINGS))
    parser.add_argument("--rows", type=int, help="a quick look on fewer training rows")
    add_record_option(parser, "latent.csv")
    add_data_options(parser)
    options = parser.parse_args()

    def tell(found: dict[str, Any]) -> None:
        print(json.dumps(found), flush=True)
        if options.record:
            write_rows(options.record, [{"rows": options.rows, **found}], ("data", "rows", "mapping", "index"))

    for name in options.datasets:
        train = text_features(open_dataset(name, options.data_dir)).split("train")
        X, Y = train.X[: options.rows], train.Y[: options.rows]
        Z = RandomLabelEmbedding(128, random_state=0).fit(Y).transform(Y)
        codes = None
        for title in options.mappings:
            mapping = RidgeMapping(solver="cg", random_state=0, **MAPPINGS[title])
            mapping.fit(X[:300], Z[:300])
            _, spent = timed(lambda mapping=mapping, X=X, Z=Z: mapping.fit(X, Z))
            codes = mapping.predict(X) if codes is None else codes
            told = {"steps": mapping.n_iter_, "alpha": mapping.alpha_}
            tell({"data": name, "mapping": title, **told, **spent})
        codes = unit_vectors(Z if codes is None else codes)
        everyone = np.arange(len(codes))
        for title in options.indexes:
            index = INDEXES[title]
            index.fit(codes[:500]).nearest(codes[:500], 5)
            try:
                _, built = timed(lambda index=index, codes=codes: index.fit(codes).tune(NEIGHBORS))
            except SLDLError as error:
                tell({"data": name, "index": title, "error": str(error)})
                continue
            _, spent = timed(
                lambda index=index, codes=codes, rows=everyone: index.nearest(codes, NEIGHBORS, exclude=rows)
            )
            told = {"build": built["seconds"], "recall": getattr(index, "recall_", 1.0)}
            tell({"data": name, "index": title, **told, **spent})


if __name__ == "__main__":
    main()
