"""What a worker needs beside the files it maps, estimated before the work starts."""

from typing import Any

from pysldl._utils.memory import format_bytes
from pysldl.estimator.size_dispatch import ProblemSize, for_size
from pysldl.exceptions import MemoryLimitError

__all__ = ["require_worker_memory", "worker_memory"]

PROCESS = 300 << 20  # Python with the libraries loaded
TERM_BYTES = 150  # of a term in the vocabulary of a vectorizer
ROWS_AT_ONCE = 1 << 16
HASH_OF_LABEL = 16


def worker_memory(
    estimator: Any, n_samples: int, n_features: int, n_labels: int, n_nonzeros: int, *, n_shards: int, from_texts: bool
) -> dict[str, int]:
    """Estimate the bytes that one task of each stage needs, without the pages of mapped files.

    Parameters
    ----------
    estimator : SLDLClassifier
    n_samples, n_features, n_labels, n_nonzeros : int
        Of all rows.
    n_shards : int
        Into how many parts the labels are cut.
    from_texts : bool

    Returns
    -------
    dict of str to int
        By stage.
    """
    row = n_nonzeros / max(n_samples, 1)
    size = ProblemSize(n_samples, n_labels, n_features, n_nonzeros / max(n_samples * n_features, 1))
    width = getattr(for_size(estimator, size).ranker, "n_candidates", 0)
    stages = {
        "encoding": int(PROCESS + (TERM_BYTES * n_features if from_texts else 0) + 48 * row * ROWS_AT_ONCE),
        "search": int(PROCESS + 12 * n_samples + HASH_OF_LABEL * n_labels + 64 * row * 4096),
    }
    if width:
        offered = 2 * width * n_samples // n_shards
        stages["ranker"] = int(PROCESS + 16 * offered + 16 * width * ROWS_AT_ONCE + 12 * n_features + 32 * n_labels)
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
        n_shards=n_shards,
        from_texts=rows.vectorizer is not None,
    )
    stage = max(needed, key=lambda name: needed[name])
    if needed[stage] > limit:
        raise MemoryLimitError(
            f"{stage}: a task for {X.shape[0]} rows and {Y.shape[1]} labels needs about {format_bytes(needed[stage])}, "
            f"but a worker has {format_bytes(limit)}. Use fewer workers with more memory each"
            + (", or a vectorizer with min_df=2 or more." if stage == "encoding" else ".")
        )
