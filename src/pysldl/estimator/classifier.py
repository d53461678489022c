"""SLDLClassifier: fits scaling, label embedding, mapping, decoder, ranker, reranker and calibration in turn."""

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, gen_batches

from pysldl._utils.constraints import has_methods
from pysldl._utils.light_estimator import all_or_nothing, available_if, validate_parameters
from pysldl._utils.memory import fits_in_memory, require_memory
from pysldl._utils.progress import ProgressCallback, reporting
from pysldl.backend.dispatch import current_device, use_device
from pysldl.backend.linear_algebra import l2_normalize_in_parts, sparse_times
from pysldl.backend.threads import fixed_order_blas, matmul
from pysldl.backend.topk import top_k
from pysldl.backend.workspace import Workspace, current_workspace, row_parts, use_workspace
from pysldl.decoding import NeighborDecoder
from pysldl.decoding.base import CodedRows, Decoder, formed
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.embedding.base import LabelEmbedding
from pysldl.estimator.base import BaseLabelClassifier, TrainingRows
from pysldl.estimator.calibration import ScoreCalibration
from pysldl.estimator.online import OnlineLearning
from pysldl.estimator.predictor import why_no_codes
from pysldl.estimator.size_dispatch import ProblemSize, SizeDispatch, stage_for
from pysldl.exceptions import DataError, SLDLWarning
from pysldl.mapping import RidgeMapping
from pysldl.persistence import save_model
from pysldl.preprocessing.features import column_scales, is_mostly_dense
from pysldl.preprocessing.labels import as_indicator
from pysldl.ranking import LinearRanker, TreeReranker
from pysldl.ranking.candidates import Candidates, draw_held_rows

CALIBRATION_ROWS = 5000
ENOUGH_CALIBRATION_ROWS = 2000
MOST_LEFT_OUT = 2000
CALIBRATED_LABELS = 100  # of a row, the best
ROUNDED_TOGETHER = 1 << 22
SEEN_CANDIDATES = 40  # beside a row's own labels: twice as many take twice the time and rank no better
DEFAULT_STAGES: dict[str, Any] = {
    "embedding": GaussianLabelEmbedding,
    "mapping": RidgeMapping,
    "decoder": NeighborDecoder,
}
LESS_MEMORY = {
    "embedding": "Use a smaller n_components or RandomLabelEmbedding, or raise memory_limit.",
    "mapping": "Use a smaller n_components, solver='cg', which needs least, or raise memory_limit.",
    "decoder": "Use a smaller n_components.",
    "ranker": "Use fewer n_candidates.",
}


@dataclass(eq=False, repr=False)
class SLDLClassifier(TransformerMixin, OnlineLearning, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Scalable label distribution learning: many labels per row, out of thousands or a million.

    Labels become Gaussians in a latent space (``embedding``), features are mapped to that space by ridge regression
    (``mapping``), new rows are decoded there (``decoder``), and a ``ranker`` may order the best labels anew.

    Parameters
    ----------
    embedding : label embedding, optional
        Default :class:`~pysldl.embedding.GaussianLabelEmbedding`. One that is fitted already, and wrapped in
        scikit-learn's ``FrozenEstimator``, is used as it is (such a model cannot be saved); see :meth:`embedding_path`.
    mapping : RidgeMapping, optional
        Default :class:`~pysldl.mapping.RidgeMapping`.
    decoder : decoder, optional
        Default :class:`~pysldl.decoding.NeighborDecoder`. One that works on features needs neither embedding nor
        mapping, and none is fitted.
    ranker : LinearRanker, optional
        Ranks the best labels of the decoder anew, on the features. X must be sparse or small.
        Each of the four stages may be a :class:`~pysldl.estimator.size_dispatch.SizeDispatch`: one for small problems,
        another for large.
    reranker : TreeReranker, optional
        Rescores the best candidates of the ranker, or, without a ranker, those of a
        :class:`~pysldl.decoding.BlendDecoder`, whose read-out takes the place of the ranker's scores. With other
        decoders and no ranker it has nothing to do.
    normalize : bool
        Scale every row of X to length 1, as the paper does.
    standardize : bool or None
        Before that, bring every feature to mean 0 and deviation 1, those of the rows of ``fit``. None: where more than
        half of the values are not zero, as among measurements and unlike in texts.
    calibrate : bool
        Learn the threshold of ``predict`` and the probabilities of ``predict_proba`` from the scores of held-out
        training rows. With a mapping, a tenth of the rows is held out from a second mapping and decoder, and the next
        tenth, until there are about 2,000 rows; without one, up to 5,000 rows are each left out alone; a ranker holds
        out up to 1,000 rows of its own.
    online : bool
        Keep the features of the training rows, so that ``partial_fit`` can add rows and labels, and ``remove_rows``
        take rows out.
    vectorizer : TfidfVectorizer, "auto", "hashing" or None
        Used where X holds texts. None: tf-idf of words. ``"auto"``: of words, of words and pairs of them, or of groups
        of characters, whichever finds labels of held-out training rows best, see
        :func:`~pysldl.preprocessing.text.choose_vectorizer`. ``"hashing"``: counts of words in columns
        that are hashes of them; no vocabulary is kept, and explanations show no words.
    device : str
        ``"cuda"`` runs embedding (its dense path), mapping, neighbors and ranker on a GPU, through torch, in ``fit``
        and in prediction; the results are those of the processor up to rounding. ``"cpu"`` needs no torch.
    memory_limit : int or str, optional
        Refuse work that needs more, for example ``"8 GB"``. Default: what the machine has free.
    progress : callable or bool, optional
        Called with a :class:`~pysldl._utils.progress.Progress` after every step of a long stage; True draws bars in a
        terminal or a notebook, and else prints lines on standard error.
    verbose : bool
        Print how long each stage of ``fit`` took and, in the end, what was fitted and its metrics on held-out rows.
    random_state : int, RandomState or None
        Seed of everything random; a stage that has its own keeps it.

    Attributes
    ----------
    embedding_, mapping_, decoder_, ranker_, reranker_
        The fitted stages.
    feature_means_, feature_scales_ : ndarray of shape (n_features,) or None
        Where features are standardized.
    label_names_, label_counts_, n_features_in_, feature_names_, calibration_
        See :class:`~pysldl.estimator.base.BaseLabelClassifier`.

    Examples
    --------
    >>> from pysldl import SLDLClassifier
    >>> from pysldl.datasets import make_asymmetric_multilabel
    >>> data = make_asymmetric_multilabel(random_state=0)
    >>> train, test = data.split("train"), data.split("test")
    >>> clf = SLDLClassifier(random_state=0).fit(train.X, train.Y, label_names=data.label_names)
    >>> labels, scores = clf.predict_topk(test.X, k=3, names=True)
    >>> labels.shape
    (360, 3)
    """

    embedding: LabelEmbedding | None = None
    mapping: RidgeMapping | None = None
    decoder: Decoder | None = None
    ranker: LinearRanker | None = None
    _: KW_ONLY
    reranker: TreeReranker | SizeDispatch | None = None
    normalize: bool = True
    standardize: bool | None = False
    calibrate: bool = True
    online: bool = False
    vectorizer: Any = None
    device: str = "cpu"
    memory_limit: int | str | None = None
    progress: ProgressCallback | bool | None = None
    verbose: bool = False
    random_state: Any = None

    _saved_state = (
        *BaseLabelClassifier._saved_state,
        *("feature_means_", "feature_scales_", "embedding_", "mapping_", "decoder_", "ranker_", "reranker_"),
        *("training_features_", "training_labels_", "training_excerpts_"),
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseLabelClassifier._parameter_constraints,
        "embedding": [has_methods("fit", "transform"), SizeDispatch, None],
        "mapping": [has_methods("fit", "predict"), SizeDispatch, None],
        "decoder": [has_methods("fit", "scores"), SizeDispatch, None],
        "ranker": [has_methods("fit", "rank"), SizeDispatch, None],
        "reranker": [has_methods("fit", "scores"), SizeDispatch, None],
        "normalize": ["boolean"],
        "standardize": ["boolean", None],
        "online": ["boolean"],
        "device": [str],
    }

    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        """Fit scaling, embedding, mapping, decoder, ranker, reranker and calibration, in this order."""
        rng, workspace = check_random_state(self.random_state), current_workspace()
        calibrates = self._wants_calibration
        with use_device(self.device), fixed_order_blas():
            self._make_stages(X, Y, rng)
            X = self._fit_scaling(X)
            tunes = self.decoder_.needs_tuning
            rescores = self.ranker_ is not None or self.reranker_ is not None
            shuffled = tunes or (calibrates and not rescores)
            order = rng.permutation(X.shape[0]) if shuffled else np.empty(0, np.intp)
            held = order[:CALIBRATION_ROWS] if tunes else None
            ranking_rows = self._rows_to_rank(X.shape[0], rng) if rescores else np.empty(0, np.intp)
            maps_twice = rescores and self.mapping_ is not None and self.decoder_.has_readout
            Z, held_candidates = None, None
            if self.mapping_ is not None:
                # A ranker needs the code that each row would have, had it been left out, which its leverage gives.
                Z = self._fit_codes(
                    X, Y, None if maps_twice else held if self.ranker_ is None else np.arange(X.shape[0])
                )
                if tunes and self.mapping_.held_rows_ is not None:
                    held = self.mapping_.held_rows_
            with self._stage("decoder"):
                if maps_twice:
                    held_candidates = self._tune_on_held_rows(X, Z, Y, ranking_rows)
                codes = self._rows_to_decode(X)
                self.decoder_.fit(codes, Y)
                if held is not None and not maps_twice:
                    self.decoder_.tune(self._left_out_codes(codes, Z, held), held, codes)
            self._keep_rows(X.copy() if self.online else X, Y)  # it may be the caller's
            if self.ranker_ is not None:
                with self._stage("ranker"):
                    self._fit_ranker(X, codes, Z, Y, rng, workspace, ranking_rows, held_candidates)
                    scores = self._fit_reranker(self.ranker_.held_candidates_, Y, self.ranker_.held_rows_)
                if calibrates:
                    self.calibration_ = ScoreCalibration().fit(scores, Y[self.ranker_.held_rows_])
                self.ranker_.forget_held_rows()
            elif held_candidates is not None:
                with self._stage("reranker"):
                    scores = self._fit_reranker(Candidates(*held_candidates), Y, ranking_rows)
                if calibrates:
                    self.calibration_ = ScoreCalibration().fit(scores, Y[ranking_rows])
            elif calibrates:
                with self._stage("calibration"):
                    self.calibration_ = self._calibrated(X, Z, Y, order)

    @all_or_nothing
    def fit_prepared(self, rows: TrainingRows, workspace: Workspace) -> Self:
        """Fit to rows that were checked and encoded elsewhere, in a workspace that may reach beyond this process.

        The model is that of :meth:`fit` for the same rows, bit for bit. Their arrays may lie on a disk.
        """
        validate_parameters(self)
        with use_workspace(workspace):
            return self._fit_to(rows)

    @available_if(why_no_codes)
    def fit_transform(self, X: Any, y: Any, **names: Any) -> NDArray[np.float32]:
        """Return the latent codes of the training rows, of shape (n_samples, n_components), after :meth:`fit`."""
        codes: NDArray[np.float32] = self.fit(X, y, **names).transform(X, dense=names.get("dense"))
        return codes

    def _make_stages(self, X: Any, Y: sparse.csr_array, rng: np.random.RandomState) -> None:
        """Unfitted copies of the stages, each with a seed of its own; an error where they need too much memory."""
        size = ProblemSize.of(X, Y)
        embedding, mapping, decoder, ranker = self._stages(size)
        embedding, self.mapping_, self.decoder_ = (_seeded(stage, rng) for stage in (embedding, mapping, decoder))
        self.embedding_ = embedding.estimator if isinstance(embedding, FrozenEstimator) else embedding
        self.ranker_ = None if ranker is None else clone(ranker)
        reranker = stage_for(self.reranker, size)
        has_work = ranker is not None or self.decoder_.has_parts
        self.reranker_ = clone(reranker) if reranker is not None and has_work else None
        if self.decoder_.input_kind == "features":
            self.embedding_ = self.mapping_ = None
            if self.n_dense_ and sparse.issparse(X):
                self.decoder_ = self.decoder_.beside_vectors()
        n_pairs = int(np.sum(np.diff(Y.indptr).astype(np.int64) ** 2))
        estimate = self.estimate_memory(X.shape[0], X.shape[1], Y.shape[1], _n_nonzeros(X), n_pairs=n_pairs)
        for stage, needed in estimate.items():
            require_memory(needed, f"The {stage} stage for {Y.shape[1]} labels", LESS_MEMORY[stage], self.memory_limit)

    def _fit_scaling(self, X: Any) -> Any:
        """Return the scaled rows; means and deviations of the features are learned if they are to be standardized."""
        self.feature_means_ = self.feature_scales_ = None
        if self.standardize or (self.standardize is None and is_mostly_dense(X)):
            require_memory(
                2 * X.dtype.itemsize * X.shape[0] * X.shape[1],
                "Standardized features, which are dense,",
                "Set standardize=False: sparse features need no common scale.",
                self.memory_limit,
            )
            self.feature_means_, self.feature_scales_ = column_scales(X)
        if not sparse.issparse(X) or self.feature_means_ is not None or not self.normalize:
            return self._scaled(X)
        return l2_normalize_in_parts(X)

    def _fit_codes(self, X: Any, Y: sparse.csr_array, held: NDArray[np.integer] | None) -> Any:
        """Fit embedding and mapping; returns the targets of the training rows, (n_samples, n_components)."""
        report = self._on_progress
        if not isinstance(self.embedding, FrozenEstimator):
            with self._timed("embedding"):
                self.embedding_.fit(Y, progress=report, memory_limit=self.memory_limit)
        Z = self.embedding_.transform(Y)
        self._with_affordable_solver(self.mapping_, (*X.shape, _n_nonzeros(X), Z.shape[1]))
        with self._timed("mapping"):
            self.mapping_.fit(X, Z, leverage_of=held, progress=report)
        return Z

    def _left_out_codes(self, codes: Any, Z: Any, rows: NDArray[np.integer]) -> Any:
        """Codes of training ``rows``, with their features if any, by a mapping fitted without them."""
        own = codes[rows]
        if self.mapping_ is None:
            return own
        if isinstance(own, CodedRows):
            return CodedRows(self.mapping_.leave_one_out(formed(own.codes), Z[rows], rows), own.features)
        return self.mapping_.leave_one_out(own, Z[rows], rows)

    def _rows_to_rank(self, n_samples: int, rng: np.random.RandomState) -> NDArray[np.intp]:
        """The rows held out for ranker and reranker: as many as a reranker wants, which learns from them."""
        held_out: Any = None if self.reranker_ is None else self.reranker_.held_out
        if held_out is not None and self.decoder_.has_readout:  # which leaves rows out one by one, at a price
            held_out = min(held_out, MOST_LEFT_OUT)
        if self.ranker_ is None:
            return draw_held_rows(n_samples, rng, held_out)
        self.ranker_.check_parameters()
        rows: NDArray[np.intp] = self.ranker_.draw_held_rows(n_samples, rng, held_out)
        return rows

    def _tune_on_held_rows(
        self, X: Any, Z: Any, Y: sparse.csr_array, held: NDArray[np.integer]
    ) -> tuple[NDArray[Any], ...]:
        """Tune the decoder on rows that a second mapping never saw; returns their candidates.

        For a ranker they are labels and votes, else the parts of the scores that :class:`Candidates` consist of.

        A formula for the codes of rows left out is not enough here: the codes of their neighbors would still be those
        of a mapping that saw them, and votes would get too much weight.
        """
        others = np.delete(np.arange(X.shape[0]), held)
        codes = self._rows_to_decode(X, self._mapping_of(X[others], Z[others]))
        self.decoder_.fit(codes, Y)
        own = codes[held]
        self.decoder_.tune(own, held, codes)
        candidates: tuple[NDArray[Any], ...]
        if self.ranker_ is None:
            candidates = self.decoder_.loo_score_parts(own, held, codes, Y, CALIBRATED_LABELS)
        else:
            candidates = self.decoder_.loo_candidates(
                own, held, codes, Y, min(self.ranker_.n_decoder_candidates, Y.shape[1])
            )
        return candidates

    def _fit_ranker(
        self,
        X: Any,
        codes: Any,
        Z: Any,
        Y: sparse.csr_array,
        rng: np.random.RandomState,
        workspace: Workspace,
        held: NDArray[np.integer],
        held_candidates: tuple[NDArray[Any], ...] | None,
    ) -> None:
        """Train the ranker on the candidates that every training row gets while it is left out.

        Where every row gets all labels, only the held-out rows need candidates, for their votes. Where those have
        theirs already (``held_candidates``), the others get the best labels by the read-out, which was fitted to
        them: negatives that are as hard, for the cost of a product of matrices.
        """
        shape = (Y.shape[0], min(self.ranker_.n_decoder_candidates, Y.shape[1]))
        labels, votes = workspace.empty(shape, np.int32), workspace.empty(shape, np.float32)
        everywhere, late = self.ranker_.ranks_all_labels(Y), None
        if held_candidates is not None and not everywhere:
            labels[...], votes[...] = -1, 0
        if held_candidates is None:
            left_out = codes if Z is None else self._left_out_codes(codes, Z, np.arange(X.shape[0]))
            rows = np.sort(held) if everywhere else None
            on_device = current_device() is not None and self.decoder_.scores_are_sparse and workspace.n_shards == 1
            at_once = shape[0] if on_device else self._rows_at_once()  # a device cuts them itself
            parts = row_parts(shape[0] if rows is None else len(rows), at_once)
            is_held = np.zeros(shape[0], dtype=np.bool_)
            is_held[held] = True
            late = None if everywhere else workspace.empty(shape, np.int32)
            found = (labels, votes, late)
            workspace.map("candidates", _put_candidates, parts, self.decoder_, left_out, codes, Y, found, rows, is_held)
        else:
            if not everywhere:
                # Mapping and read-out are one product with the features; negatives can do without landmarks.
                readout = self.decoder_.readout_weights.astype(np.float64)
                weights = matmul(self.mapping_.coef_.astype(np.float64), readout)
                parts, start = row_parts(shape[0], self._rows_at_once()), self.mapping_.intercept_ @ readout
                workspace.map("candidates", _put_seen_candidates, parts, X, weights, start, Y, labels)
            labels[held], votes[held] = held_candidates
        self.ranker_.fit(_in_single_precision(X, workspace), Y, labels, votes, rng, held, late)

    def _fit_reranker(self, candidates: Candidates, Y: sparse.csr_array, held: NDArray[np.integer]) -> sparse.csr_array:
        """Train the reranker on rows that were held out; returns their final scores, (n_held, n_labels)."""
        if self.reranker_ is None:
            return self._as_sparse(candidates.labels, candidates.scores)
        self.reranker_.fit(candidates, Y, held)
        return self._as_sparse(candidates.labels, self.reranker_.pop_cross_fitted_scores())

    def _calibrated(self, X: Any, Z: Any, Y: sparse.csr_array, order: NDArray[np.integer]) -> ScoreCalibration:
        """Threshold and probabilities from training rows that were held out, drawn by the permutation ``order``.

        A formula for the codes that a row would have, had it been left out, is not enough: the codes of its neighbors
        would still be those of a mapping that saw it, and scores of presets could not be compared. Only the label
        embedding, which sees no features, is that of all rows.
        """
        scores, rows = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SLDLWarning)  # said once, for all rows
            for held in self._rows_to_hold_out(order):
                rows.append(held)
                parts = [held[part] for part in gen_batches(len(held), self._rows_at_once())]
                if self.mapping_ is None:
                    codes = self._rows_to_decode(X)
                    scores += [self.decoder_.loo_scores(codes[part], part, codes, Y) for part in parts]
                    continue
                others = np.sort(np.setdiff1d(order, held))
                mapping = self._mapping_of(X[others], Z[others])
                decoder = copy(self.decoder_).fit(self._rows_to_decode(X[others], mapping), Y[others])
                scores += [decoder.scores(self._rows_to_decode(X[part], mapping)) for part in parts]
        stacked = sparse.vstack(scores, format="csr") if sparse.issparse(scores[0]) else np.concatenate(scores)
        return ScoreCalibration().fit(stacked, Y[np.concatenate(rows)])

    def _rows_to_hold_out(self, order: NDArray[np.integer]) -> list[NDArray[np.integer]]:
        """Sets of rows to hold out in turn."""
        if self.mapping_ is None:  # to leave single rows out costs nothing
            return [order[:CALIBRATION_ROWS]]
        size = min(max(len(order) // 10, 1), CALIBRATION_ROWS)
        n_sets = min(len(order) // size, max(1, round(ENOUGH_CALIBRATION_ROWS / size)))
        return [order[start * size : (start + 1) * size] for start in range(n_sets)]

    def _mapping_of(self, X: Any, Z: Any) -> RidgeMapping:
        """The mapping fitted to some of the training rows; an iterative solver starts from the present weights."""
        if self.mapping_.solver_ != "cholesky" and not self.mapping_.early_stopping:
            warm: RidgeMapping = copy(self.mapping_)
            warm.normal_equations_ = None
            return warm.update(X, Z)
        fresh: RidgeMapping = clone(self.mapping_)
        fresh.set_params(keep_normal_equations=False)
        return fresh.like(self.mapping_).fit(X, Z)

    # Several configurations of the same rows

    def with_default_stages(self) -> Self:
        """Return a copy in which embedding, mapping and decoder are given, so that their parameters can be set."""
        missing = {name: make() for name, make in DEFAULT_STAGES.items() if getattr(self, name) is None}
        copied: Self = clone(self)
        copied.set_params(**missing)
        return copied

    def embedding_path(self, y: Any, *, n_steps: Sequence[int] | None = None) -> list[LabelEmbedding]:
        """Fit the label embedding for several numbers of descent steps, in one descent.

        Wrapped in scikit-learn's ``FrozenEstimator`` and given as ``embedding``, each of them makes :meth:`fit` learn
        what it would learn with that number of steps, on these rows or on part of them.

        Parameters
        ----------
        y : indicator of shape (n_samples, n_labels)
        n_steps : sequence of int, optional
            Ascending. By default the number of steps of the embedding: then the list holds one.

        Returns
        -------
        list of fitted label embeddings

        Examples
        --------
        >>> from sklearn.frozen import FrozenEstimator
        >>> from pysldl import make_sldl
        >>> from pysldl.datasets import make_asymmetric_multilabel
        >>> data = make_asymmetric_multilabel(200, 60, 20, random_state=0)
        >>> clf = make_sldl("paper", embedding__n_components=4)
        >>> short, long = clf.embedding_path(data.Y, n_steps=(5, 10))
        >>> clf.set_params(embedding=FrozenEstimator(long)).fit(data.X, data.Y).embedding_ is long
        True
        """
        Y = as_indicator(y)
        embedding = _seeded(self._stages(ProblemSize(*Y.shape))[0], check_random_state(self.random_state))
        with use_device(self.device):
            if n_steps is None:
                with reporting(self.progress) as report:
                    return [embedding.fit(Y, progress=report, memory_limit=self.memory_limit)]
            return list(embedding.fit_path(Y, n_steps=tuple(n_steps), memory_limit=self.memory_limit))

    def predict_topk_path(
        self, X: Any, k: int = 5, *, n_neighbors: Sequence[int]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Yield the k best labels of every row for several numbers of neighbors, from one search.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features), or texts
            All rows are searched before the first answer, and what was found is kept until the last.
        k : int
        n_neighbors : sequence of int
            None of them above the number that the classifier was fitted with. The decoder must have a
            ``has_neighbor_path``, and no ranker may follow it: others depend on the number of neighbors in ``fit``.

        Yields
        ------
        labels, scores
            For each number of neighbors what :meth:`predict_topk` gives after a fit with it.
        """
        X = self._features(X)
        rescores = self.ranker_ is not None or self.reranker_ is not None
        if rescores or not self.decoder_.has_neighbor_path:
            raise DataError("This model was fitted for one number of neighbors: fit it again with each of them.")
        with use_device(self.device), fixed_order_blas():
            paths = [
                self.decoder_.scores_path(self._rows_to_decode(self._scaled(X[rows])), n_neighbors)
                for rows in gen_batches(X.shape[0], self._rows_at_once())
            ]
        for _ in n_neighbors:
            with use_device(self.device), fixed_order_blas():  # not while the caller has its turn
                found = [top_k(self._without_unseen(next(path)), k) for path in paths]
            yield np.concatenate([labels for labels, _ in found]), np.concatenate([best for _, best in found])

    # Memory and files

    def estimate_memory(
        self, n_samples: int, n_features: int, n_labels: int, n_nonzeros: int, *, n_pairs: int | None = None
    ) -> dict[str, int]:
        """Estimate the bytes each stage needs at its peak, beside the input; ``fit`` refuses what is not available.

        Parameters
        ----------
        n_samples, n_features, n_labels : int
        n_nonzeros : int
            Stored entries of X.
        n_pairs : int, optional
            Pairs of labels that share a row; see :meth:`pysldl.embedding.base.LabelEmbedding.memory`.

        Returns
        -------
        dict of str to int
            By the name of the stage.
        """
        density = n_nonzeros / max(n_samples * n_features, 1)
        # Of labels that share a row there are at least as many pairs as the square of the mean number of labels.
        labels_per_row = (n_pairs / max(n_samples, 1)) ** 0.5 if n_pairs else 1.0
        size = ProblemSize(n_samples, n_labels, n_features or None, density, labels_per_row)
        embedding, mapping, decoder, ranker = self._stages(size)
        width = getattr(embedding, "n_components", n_labels)
        codes = 4 * n_samples * width
        stages = {"decoder": 12 * n_nonzeros}
        if decoder.input_kind != "features":
            mapping = self._with_affordable_solver(clone(mapping), (n_samples, n_features, n_nonzeros, width))
            stages = {
                "embedding": embedding.memory(n_labels, n_pairs=n_pairs, limit=self.memory_limit),
                "mapping": codes + mapping.memory(n_samples, n_features, n_nonzeros, width),
                "decoder": codes + decoder.memory(n_samples, width, n_labels),
            }
            if decoder.input_kind == "both":
                stages["decoder"] += 24 * n_nonzeros
        if ranker is not None:
            stages["ranker"] = ranker.memory(n_samples, n_features)
        return stages

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model folder; see :func:`pysldl.persistence.save_model`."""
        save_model(self, path, overwrite=overwrite)

    def _stages(self, size: ProblemSize) -> tuple[Any, Any, Any, Any]:
        """Embedding, mapping, decoder and ranker for a problem of that size, as given or by default."""
        stages = {name: stage_for(getattr(self, name), size) for name in ("embedding", "mapping", "decoder", "ranker")}
        for name, make in DEFAULT_STAGES.items():
            stages[name] = make() if stages[name] is None else stages[name]
        return stages["embedding"], stages["mapping"], stages["decoder"], stages["ranker"]

    def _with_affordable_solver(self, mapping: RidgeMapping, sizes: tuple[int, int, int, int]) -> RidgeMapping:
        """The mapping, set to conjugate gradients where the solver of ``"auto"`` would not fit into memory."""
        if self.online:
            mapping.set_params(keep_normal_equations=True)
        if mapping.solver == "auto" and not mapping.positive:
            codes = 4 * sizes[0] * sizes[3]
            if not fits_in_memory(codes + mapping.memory(*sizes), self.memory_limit):
                mapping.set_params(solver="cg")
        return mapping


def _seeded(stage: Any, rng: np.random.RandomState) -> Any:
    """A fresh copy of a stage, with a seed of its own where it has none."""
    fresh = clone(stage)
    seed = int(rng.randint(2**31 - 1))
    if "random_state" in fresh.get_params(deep=False) and fresh.random_state is None:
        fresh.set_params(random_state=seed)
    return fresh


def _in_single_precision(X: Any, workspace: Workspace) -> sparse.csr_array:
    workspace = workspace.for_pass(X)
    if workspace.n_shards == 1 or not sparse.issparse(X) or X.dtype == np.float32:
        return sparse.csr_array(X, dtype=np.float32)
    data = workspace.empty(X.nnz, np.float32)
    workspace.map("scaling", _put_rounded, row_parts(X.nnz, ROUNDED_TOGETHER), X.data, data)
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _put_rounded(part: slice, values: NDArray[np.float64], rounded: NDArray[np.float32]) -> None:
    rounded[part] = values[part]


def _put_candidates(
    part: slice,
    decoder: Decoder,
    left_out: Any,
    codes: Any,
    Y: sparse.csr_array,
    found: tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32] | None],
    chosen: NDArray[np.integer] | None,
    is_held: NDArray[np.bool_],
) -> None:
    """Find the candidates of some training rows, or of some of the ``chosen`` ones, while they are left out."""
    labels, votes, late = found
    rows = np.arange(part.start, part.stop) if chosen is None else chosen[part]
    own = left_out if len(rows) == Y.shape[0] else left_out[part if chosen is None else rows]
    labels[rows], votes[rows], offered = decoder.split_candidates(own, rows, codes, Y, labels.shape[1], is_held)
    if late is not None:
        late[rows] = offered


def _put_seen_candidates(
    part: slice,
    X: Any,
    weights: NDArray[np.float64],
    start: NDArray[np.float64],
    Y: sparse.csr_array,
    labels: NDArray[np.int32],
) -> None:
    """Write the best labels of some training rows by the read-out: their own, and about forty negatives."""
    n = min(SEEN_CANDIDATES + round(Y.nnz / Y.shape[0]), labels.shape[1])
    scores = sparse_times(sparse.csr_array(X[part]), weights, dtype=np.float64) + start
    labels[part, :n] = top_k(scores.astype(np.float32), n)[0]


def _n_nonzeros(X: Any) -> int:
    return int(X.nnz if sparse.issparse(X) else X.size)
