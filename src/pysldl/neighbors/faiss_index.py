"""Neighbors through faiss: as many of the true ones as asked for, at the least effort that finds them."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from pysldl._utils.constraints import Seed, between
from pysldl._utils.light_estimator import validate_parameters
from pysldl.backend.linear_algebra import unit_vectors
from pysldl.backend.nearest import best_of_candidates
from pysldl.backend.threads import fixed_order_blas
from pysldl.exceptions import DataError, MissingDependencyError
from pysldl.neighbors.exact import SPARE, NeighborIndex, index_of

TUNING_QUERIES = 500
LINKS = 32  # of a vector in the HNSW graph
BUILD_EFFORT = 80
MOST_EFFORT = 4096  # candidates that a search of the HNSW graph keeps
VECTORS_A_CELL = 39  # faiss wants at least as many to train a cell of IVF


@dataclass(eq=False, repr=False)
class FaissIndex(NeighborIndex):
    """An index of faiss (extra ``faiss``), tuned to a wanted recall.

    Parameters
    ----------
    kind : {"flat", "ivf", "hnsw"}
        ``"flat"`` looks at every vector. ``"ivf"`` splits the vectors into cells and looks into the nearest ones;
        looking into all is exact, so every recall can be reached. ``"hnsw"`` walks a graph of near vectors: quick
        to search, slow to build, and a recall near 1 may be out of reach.
    recall : float
        Share of the true neighbors that a search must find, in (0, 1]. The effort is raised until the indexed
        vectors, each left out of its own search, find so many.
    random_state : int, RandomState or None
        Draws the queries of the tuning and the start of the cells.

    Attributes
    ----------
    vectors_ : ndarray of shape (n_vectors, n_components), float32
    structure_ : ndarray of uint8
        The index as faiss writes it, vectors included.
    effort_ : int
        Cells (IVF) or candidates (HNSW) that a search looks at.
    recall_ : float
        Recall reached in the tuning.

    Examples
    --------
    >>> vectors = np.random.default_rng(0).normal(size=(200, 8))
    >>> index = FaissIndex("ivf", recall=0.9).fit(vectors).tune(5)  # doctest: +SKIP
    >>> index.recall_ >= 0.9  # doctest: +SKIP
    True
    """

    kind: Literal["flat", "ivf", "hnsw"] = "ivf"
    _: KW_ONLY
    recall: Annotated[float, between(0, 1, "right")] = 0.95
    random_state: Seed = 0

    _saved_state = ("vectors_", "structure_", "effort_", "recall_")

    def fit(self, Z: Any, y: object = None) -> Self:
        """Index the rows of ``Z``, of shape (n_vectors, n_components)."""
        validate_parameters(self)
        faiss = _faiss()
        self.vectors_ = unit_vectors(Z)
        with fixed_order_blas():
            self._index = self._build(faiss)
        self.structure_ = faiss.serialize_index(self._index)
        self.effort_, self.recall_ = 1, 1.0
        return self

    def tune(self, k: int) -> Self:
        """Raise the effort until ``recall`` of the k nearest are found."""
        if self.kind == "flat" or len(self.vectors_) < 2:
            return self
        k = min(k, len(self.vectors_) - 1)
        rows = self._generator().permutation(len(self.vectors_))[:TUNING_QUERIES]
        _, products = index_of(self.vectors_).nearest(self.vectors_[rows], k, exclude=rows)
        # By similarity, not by number: of vectors that coincide, which is found makes no difference.
        enough = products[:, -1:] - 1e-6
        most = self._index.nlist if self.kind == "ivf" else MOST_EFFORT
        self.effort_ = 1 if self.kind == "ivf" else k + 1
        while True:
            _, found = self.nearest(self.vectors_[rows], k, exclude=rows)
            self.recall_ = float((found >= enough).mean())
            if self.recall_ >= self.recall:
                return self
            if self.effort_ >= most:
                raise DataError(
                    f"recall={self.recall} cannot be reached by kind={self.kind!r}: with the most effort it finds "
                    f"{self.recall_:.4f} of the {k} nearest. Ask for less, or take kind='ivf' or 'flat'."
                )
            self.effort_ = min(2 * self.effort_, most)

    def nearest(
        self, Q: NDArray[np.float32], k: int, *, exclude: NDArray[np.integer] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The k vectors with the largest product with each query, best first, and the products."""
        index = self._ready()
        Q = np.ascontiguousarray(Q, dtype=np.float32)
        with fixed_order_blas():
            _, found = index.search(Q, min(k + SPARE, len(self.vectors_)))
        found = found.astype(np.int32)
        if exclude is not None:
            found[found == np.asarray(exclude)[:, None]] = -1
        return best_of_candidates(Q, found, self.vectors_, k)

    def _generator(self) -> np.random.RandomState:
        from sklearn.utils import check_random_state  # not above: a model that only answers would wait for it

        rng: np.random.RandomState = check_random_state(self.random_state)
        return rng

    def _build(self, faiss: Any) -> Any:
        n_vectors, width = self.vectors_.shape
        if self.kind == "flat":
            index = faiss.IndexFlatIP(width)
        elif self.kind == "ivf":
            n_cells = max(1, min(int(4 * np.sqrt(n_vectors)), n_vectors // VECTORS_A_CELL))
            index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, n_cells, faiss.METRIC_INNER_PRODUCT)
            index.cp.seed = int(self._generator().randint(2**31 - 1))
            index.train(self.vectors_)
        else:
            index = faiss.IndexHNSWFlat(width, LINKS, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction = BUILD_EFFORT
        threads = faiss.omp_get_max_threads()
        if self.kind == "hnsw":  # several threads would link in the order in which they happen to finish
            faiss.omp_set_num_threads(1)
        try:
            index.add(self.vectors_)
        finally:
            faiss.omp_set_num_threads(threads)
        return index

    def _ready(self) -> Any:
        """The index with its effort set; a loaded one is read when first needed."""
        faiss = _faiss()
        if getattr(self, "_index", None) is None:
            self._index = faiss.deserialize_index(np.array(self.structure_))
        if self.kind == "ivf":
            self._index.nprobe = self.effort_
        elif self.kind == "hnsw":
            self._index.hnsw.efSearch = self.effort_
        return self._index

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self).copy()
        state.pop("_index", None)  # faiss's object cannot be copied; it is read again from structure_
        return state


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingDependencyError(
            'FaissIndex needs faiss, which is not installed: pip install "pysldl[faiss]", or use ExactIndex.'
        ) from error
    return faiss
