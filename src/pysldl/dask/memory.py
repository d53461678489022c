"""What a worker needs beside the files it maps, estimated before the work starts."""

from typing import Any

import numpy as np

from pysldl._utils.memory import format_bytes
from pysldl.backend.label_shards import COPIED_BYTES, PAIRS_AT_ONCE
from pysldl.estimator.size_dispatch import ProblemSize, for_size
from pysldl.exceptions import MemoryLimitError
from pysldl.ranking.candidates import MOST_FREQUENT
from pysldl.ranking.centroids import ROWS_IN_MEMORY, LabelCentroids
from pysldl.ranking.linear import CENTROIDS_TRIED

PROCESS = 300 << 20  # Python with the libraries loaded
TERM_BYTES = 150  # of a term in the vocabulary of a vectorizer
ROWS_AT_ONCE = 1 << 16
HASH_OF_LABEL = 16
PAIR_BYTES = 32  # of a label and a row: its number, where it is found, and what the descent keeps of it
VALUE_BYTES = 12  # of a sparse value with its column, and a copy of the column
CENTROID_TERMS = LabelCentroids().n_terms


def worker_memory(
    estimator: Any,
    n_samples: int,
    n_features: int,
    n_labels: int,
    n_nonzeros: int,
    *,
    n_carried: int,
    n_largest: int,
    n_shards: int,
    from_texts: bool,
) -> dict[str, int]:
    """Estimate the bytes that one task of each stage needs, without the pages of mapped files.

    Sizes are those of all rows; ``n_carried`` counts the labels of all rows, each as often as it occurs; ``n_largest``
    are the rows of the label that has most; ``n_shards`` are the parts that the labels are cut into.
    """
    row = n_nonzeros / max(n_samples, 1)
    density = n_nonzeros / max(n_samples * n_features, 1)
    size = ProblemSize(n_samples, n_labels, n_features, density, n_carried / max(n_samples, 1))
    width = getattr(for_size(estimator, size).ranker, "n_candidates", 0)
    stages = {
        "encoding": int(PROCESS + (TERM_BYTES * n_features if from_texts else 0) + 48 * row * ROWS_AT_ONCE),
        "search": int(PROCESS + 12 * n_samples + HASH_OF_LABEL * n_labels + 64 * row * 4096),
    }
    if width:
        offered = (width + CENTROIDS_TRIED + MOST_FREQUENT) * n_samples
        pairs = max(n_samples, min(PAIRS_AT_ONCE, offered // n_shards))  # the most frequent labels are offered to all
        copied = min(COPIED_BYTES, int(8 * row * n_samples))
        stages["classifiers"] = int(
            PROCESS + PAIR_BYTES * pairs + copied + 13 * n_samples + 9 * n_features + 32 * n_labels
        )
        added = min(n_samples, max(n_largest, min(ROWS_IN_MEMORY, n_carried // n_shards)))
        terms = min(row, CENTROID_TERMS)
        stages["centroids"] = int(PROCESS + 2 * VALUE_BYTES * terms * added + 8 * n_features + 8 * n_labels)
    return stages


def require_worker_memory(estimator: Any, rows: Any, limit: int | None, n_shards: int) -> None:
    """Refuse, before the long stages, work that needs more than a worker has."""
    if limit is None:
        return
    X, Y = rows.X, rows.labels.Y
    n_nonzeros = int(getattr(X, "nnz", X.size))
    needed = worker_memory(
        estimator,
        X.shape[0],
        X.shape[1],
        Y.shape[1],
        n_nonzeros,
        n_carried=Y.nnz,
        n_largest=int(np.bincount(Y.indices, minlength=1).max()),
        n_shards=n_shards,
        from_texts=hasattr(rows.vectorizer, "vocabulary_"),
    )
    stage = max(needed, key=lambda name: needed[name])
    if needed[stage] > limit:
        raise MemoryLimitError(
            f"{stage}: a task for {X.shape[0]} rows and {Y.shape[1]} labels needs about {format_bytes(needed[stage])}, "
            f"but a worker has {format_bytes(limit)}. Use fewer workers with more memory each"
            + (", or a vectorizer with min_df=2 or more." if stage == "encoding" else ".")
        )
