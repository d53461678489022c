"""Labels as Gaussians whose divergences follow the label graph: the embedding of the paper."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pysldl._utils.constraints import Count, CountOrZero, NotNegative, Positive
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.memory import require_memory
from pysldl._utils.progress import ProgressCallback
from pysldl.backend import exact
from pysldl.backend.dispatch import to_device, to_host
from pysldl.backend.divergence import (
    Gaussians,
    half_cross_terms,
    js_backward,
    js_of_all,
    kl_backward,
    kl_divergence,
    kl_of_all,
    kl_offset,
)
from pysldl.backend.label_embedding import ranking_hinge
from pysldl.embedding.adam import BatchDescent, Descent, DescentResult
from pysldl.embedding.base import TrainedLabelEmbedding, assumed_pairs, normal_rows, seen_labels
from pysldl.embedding.label_graph import (
    Graph,
    choose_graph,
    cooccurrence,
    rank_labels,
    transfer_matrix,
    transfer_rows,
)
from pysldl.embedding.truncated_walk import TruncatedRanking, truncated_walk, walk_memory
from pysldl.exceptions import DataError

SMALLEST_VARIANCE = 1e-6
INITIAL_WIDTH = 10.0
# Of labels that join a fitted embedding: how many at a time, among how many, and for how long.
PLACED_TOGETHER, REFERENCES, SETTLING_STEPS = 32, 128, 200
SAME_FREQUENCY = 32


@inherit_parameters
@dataclass(eq=False, repr=False)
class GaussianLabelEmbedding(TrainedLabelEmbedding):
    """Each label as a diagonal Gaussian, whose KL divergences order the other labels as a random walk does.

    Each label is an anchor once: going down its ranking of the remaining labels, each one should be
    closer by ``margin`` than the next (Eqs. 7 and 8). The loss is minimized by Adam with closed-form gradients, for
    a given number of steps. The result has the same bits on every processor and for every number of threads.

    Parameters
    ----------
    n_steps : int, default=300
        Number of Adam steps. It is a regularizer, like the number of epochs of a network: the loss still falls when
        the steps end, and codes that are trained to its minimum need not rank better (``docs/method.md`` has the
        figure). Of 100, 300 and 1,000, validation rows chose 300 most often.
    graph : {"auto", "dense", "sparse"}, default="auto"
        ``"dense"`` ranks all labels for every anchor and follows all anchors at each step: time and memory grow with
        the square of the labels. ``"sparse"`` walks and ranks only as far as ``n_walk_labels`` and ``n_negatives`` say,
        for ``batch_size`` anchors at a step: time and memory follow the number of co-occurring pairs. ``"auto"`` is
        dense for up to two thousand labels that occur, if that fits into memory.
    n_walk_labels : int, default=64
        Sparse: labels kept of every walk, and ranked by it.
    margin : float, default=0.1
        The paper's tau.
    divergence : {"kl", "js"}, default="kl"
        ``"js"`` is the paper's ablation "without asymmetric correlation".
    objective : {"paper", "official"}, default="paper"
        ``"official"`` does what the authors' code does: KL(N_j ‖ N_i), the hinge with the opposite sign, the
        anchor kept in its own ranking, and variances as free parameters that start in U(0, 0.5). That code lets a
        variance fall below zero, where its loss is NaN; here it stops at 1e-6.
    init_scale : float, optional
        Standard deviation of the initial means. The Gaussians start ten times as wide, give or take 3 %, so that all
        overlap and every divergence starts small. The larger it is against the learning rate, the less the means
        move and the more of the order is left to the variances. Default: ``(n_components / 90) ** 2``, at least 0.1.
        Wide random codes are nearly orthogonal, which serves; narrow ones have to be moved further.
    n_negatives : int, default=16
        Sparse: labels sampled from all others, ranked behind those.
    batch_size : int, default=1024
        Sparse: anchors of one step.

    Attributes
    ----------
    components_ : ndarray of shape (n_labels, n_components)
        Means; zero for labels that never occur in training.
    log_variances_ : ndarray of shape (n_labels, n_components)
    losses_ : list of float
        The loss before every step.
    converged_ : bool or None
        With ``tol``, whether the loss stopped falling within ``n_steps``.
    graph_ : {"dense", "sparse"}
        The path that was taken.

    References
    ----------
    "Scalable Label Distribution Learning": Eqs. 1 to 6 (the label graph and its random walk), 7 (the ranking loss), 8
    (the divergence) and 9 (the target of a row).

    Examples
    --------
    >>> from pysldl.datasets import make_asymmetric_multilabel
    >>> data = make_asymmetric_multilabel(random_state=0)
    >>> embedding = GaussianLabelEmbedding(random_state=0).fit(data.Y)
    >>> data.recovered(embedding.divergences())["direction"] > 0.9  # of 72 planted implications
    True
    """

    _: KW_ONLY
    margin: NotNegative = 0.1
    divergence: Literal["kl", "js"] = "kl"
    objective: Literal["paper", "official"] = "paper"
    init_scale: Positive | None = None
    n_negatives: CountOrZero = 16
    batch_size: Count = 1024

    _saved_state = ("components_", "log_variances_", "losses_", "converged_", "graph_")

    def memory(self, n_labels: int, *, n_pairs: int | None = None, limit: int | str | None = None) -> int:
        """Bytes at the peak, of the path that :meth:`fit` takes.

        Dense: a dozen (n_labels, n_labels) arrays and the optimizer's copies of the parameters. Sparse: the walk's
        tables of ``n_walk_labels`` labels each, the graph, and the copies of the parameters.
        """
        if self._graph_for(n_labels, limit) == "dense":
            return self._dense_memory(n_labels)
        anchors, ranked = min(n_labels, self.batch_size), min(n_labels, self.n_walk_labels + self.n_negatives)
        touched = min(n_labels, anchors * (1 + ranked))
        batch = 40 * self.n_components * touched + 64 * anchors * ranked
        parameters = 48 * n_labels * self.n_components
        return parameters + batch + walk_memory(n_labels, self.n_walk_labels, assumed_pairs(n_labels, n_pairs))

    def _dense_memory(self, n_labels: int) -> int:
        return 64 * n_labels**2 + 160 * n_labels * self.n_components

    def divergences(self, anchors: NDArray[np.integer] | None = None) -> NDArray[np.float64]:
        """KL(N_i ‖ N_j) of the learned Gaussians; [i, j] small and [j, i] large reads "i implies j".

        Parameters
        ----------
        anchors : array of int, optional
            Compute only among these labels.

        Returns
        -------
        ndarray of shape (n_labels, n_labels), or (n_anchors, n_anchors)
        """
        check_is_fitted(self)
        rows = slice(None) if anchors is None else anchors
        n_labels = len(self.components_[rows])
        advice = "Name fewer labels as anchors."
        require_memory(24 * n_labels**2, f"The matrix of divergences between {n_labels} labels", advice)
        return kl_divergence(self.components_[rows], self.log_variances_[rows])

    def _keep(self, Y: sparse.csr_array, result: DescentResult) -> None:
        super()._keep(Y, result)
        log_var = result.parameters[1]
        if self.objective == "official":
            log_var = exact.log(np.maximum(log_var, SMALLEST_VARIANCE))
        self.log_variances_ = np.zeros_like(self.components_)
        self.log_variances_[seen_labels(Y)] = log_var

    def _descend(
        self,
        Y: sparse.csr_array,
        progress: ProgressCallback | None,
        memory_limit: int | str | None,
        path: Sequence[int] = (),
    ) -> DescentResult:
        """Draw the Gaussians and move them; variances take the place of log-variances if official."""
        seen = seen_labels(Y)
        rng = check_random_state(self.random_state)
        mu = normal_rows(rng, self._scale(), (Y.shape[1], self.n_components), seen)
        self.graph_ = self._graph_for(seen.size, memory_limit)
        A = cooccurrence(Y[:, seen], self.cooccurrence)
        descend = self._descend_sparse if self.graph_ == "sparse" else self._descend_dense
        return descend(A, mu, rng, progress, path)

    def _descend_dense(
        self,
        A: sparse.csr_array,
        mu: NDArray[np.float32],
        rng: np.random.RandomState,
        progress: ProgressCallback | None,
        path: Sequence[int],
    ) -> DescentResult:
        """Rankings of all labels, all anchors at once."""
        loss_of = self._loss(transfer_matrix(A, self.walk_steps, self.discount))

        def loss_of_variances(parameters: list[NDArray[Any]]) -> tuple[float, list[NDArray[Any]]]:
            mu, variance = parameters
            np.maximum(variance, SMALLEST_VARIANCE, out=variance)
            loss, (grad_mu, grad_log_var) = loss_of(mu, exact.log(variance))
            return loss, [grad_mu, grad_log_var / variance]

        descent = Descent(self.learning_rate, self.n_steps, self.tol, self.patience, weight_decay=self.weight_decay)
        if self.objective == "official":
            variance = rng.uniform(SMALLEST_VARIANCE, 0.5, mu.shape).astype(np.float32)
            return descent.minimize(loss_of_variances, [mu, variance], progress, path=path)
        start = [mu, self._initial_log_variances(rng, mu.shape)]
        return descent.minimize(lambda parameters: loss_of(*parameters), start, progress, path=path)

    def _descend_sparse(
        self,
        A: sparse.csr_array,
        mu: NDArray[np.float32],
        rng: np.random.RandomState,
        progress: ProgressCallback | None,
        path: Sequence[int],
    ) -> DescentResult:
        """Rankings of the labels reached, a batch of anchors at a time."""
        walk = truncated_walk(A, self.walk_steps, self.discount, self.n_walk_labels)
        ranking = TruncatedRanking(walk, A, self.n_negatives)
        log_var = self._initial_log_variances(rng, mu.shape)
        descent = BatchDescent(
            self.learning_rate, self.n_steps, self.tol, self.patience, self.batch_size, weight_decay=self.weight_decay
        )
        return descent.minimize(
            mu, log_var, ranking, self.margin, rng, symmetric=self.divergence == "js", progress=progress, path=path
        )

    def _initial_log_variances(self, rng: np.random.RandomState, shape: tuple[int, int]) -> NDArray[np.float32]:
        log_var = np.empty(shape, dtype=np.float32)
        for row in log_var:  # the draws of one call, without their copies in double precision
            row[:] = 2.0 * np.log(INITIAL_WIDTH * self._scale() * rng.uniform(0.97, 1.03, shape[1])).astype(np.float32)
        return log_var

    def _graph_for(self, n_seen: int, memory_limit: int | str | None) -> Graph:
        """The path that is taken for ``n_seen`` labels."""
        if self.objective == "official":
            if self.graph == "sparse":
                raise DataError("objective='official' ranks all labels and needs graph='dense', or 'auto'.")
            return "dense"
        return choose_graph(self.graph, n_seen, self._dense_memory(n_seen), memory_limit)

    def _widen(self, n_new: int) -> None:
        super()._widen(n_new)
        self.log_variances_ = np.pad(self.log_variances_, ((0, n_new), (0, 0)))

    def _place_further(self, Y: sparse.csr_array, new: NDArray[np.intp]) -> None:
        """Place each new label by the same loss, among the labels most related to it, which stay where they are.

        It starts where :meth:`fit` would have drawn it, as wide as labels of its frequency.
        """
        A = cooccurrence(Y, self.cooccurrence)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        placed = np.setdiff1d(seen_labels(Y), new)
        by_count = placed[np.argsort(counts[placed], kind="stable")]
        ascending = counts[by_count]
        rng = check_random_state(self.random_state)
        means = normal_rows(rng, self._scale(), self.components_.shape, new)
        for start in range(0, new.size, PLACED_TOGETHER):
            group = new[start : start + PLACED_TOGETHER]
            self.components_[group] = means[start : start + PLACED_TOGETHER]
            for label in group:
                at = int(np.searchsorted(ascending, counts[label]))
                alike = by_count[max(0, at - SAME_FREQUENCY // 2) : at + SAME_FREQUENCY // 2]
                self.log_variances_[label] = self.log_variances_[alike].mean(axis=0)
            self._settle(A, group, placed)

    def _settle(self, A: sparse.csr_array, group: NDArray[np.intp], placed: NDArray[np.intp]) -> None:
        """Minimize the loss over the Gaussians of ``group``, given those ``placed`` that are nearest on the walk."""
        walk = (self.walk_steps, self.discount)
        of_group = transfer_rows(A, group, np.arange(A.shape[0]), *walk)
        nearest = placed[np.argsort(-of_group[:, placed].max(axis=0), kind="stable")[:REFERENCES]]
        labels = np.concatenate([group, nearest])
        loss_of = self._loss(np.vstack([of_group[:, labels], transfer_rows(A, nearest, labels, *walk)]))
        mu, log_var = self.components_[labels].astype(np.float64), self.log_variances_[labels].astype(np.float64)
        free = slice(0, group.size)

        def loss_of_group(parameters: list[NDArray[Any]]) -> tuple[float, list[NDArray[Any]]]:
            mu[free], log_var[free] = parameters
            loss, gradients = loss_of(mu, log_var)
            return loss, [gradient[free] for gradient in gradients]

        descent = Descent(self.learning_rate, SETTLING_STEPS, tol=1e-3, patience=20)
        found = descent.minimize(loss_of_group, [mu[free], log_var[free]])
        self.components_[group], self.log_variances_[group] = found.parameters

    def _loss(self, transfer: NDArray[np.float32]) -> Callable[..., tuple[float, list[NDArray[Any]]]]:
        """The ranking loss (Eq. 7) of means and log-variances, and its gradients."""
        official, symmetric = self.objective == "official", self.divergence == "js"
        ranking = to_device(rank_labels(transfer, with_anchor=official))
        n_labels = len(ranking)
        sign = -1 if official else 1  # the authors' code asks for the opposite order
        # Written over in every step: fresh memory would cost as much as a third of the arithmetic.
        D, G = (to_device(array) for array in (np.empty((n_labels, n_labels)), np.zeros((n_labels, n_labels))))

        def loss_of(mu: NDArray[Any], log_var: NDArray[Any]) -> tuple[float, list[NDArray[Any]]]:
            gaussians = Gaussians.of(mu, log_var)
            if not symmetric and not official:
                cross, offset = half_cross_terms(gaussians, out=D), kl_offset(gaussians)
                loss, _ = ranking_hinge(cross, ranking, self.margin, offset=offset, out=G)
                gradients = kl_backward(G, gaussians)
            else:
                divergence = to_device(js_of_all(gaussians)) if symmetric else kl_of_all(gaussians)
                loss, _ = ranking_hinge(divergence.T if official else divergence, ranking, self.margin, sign, out=G)
                pulls = G.T if official else G
                gradients = js_backward(to_host(pulls), gaussians) if symmetric else kl_backward(pulls, gaussians)
            return loss / n_labels, [to_host(gradient) / n_labels for gradient in gradients]

        return loss_of

    def _scale(self) -> float:
        return max((self.n_components / 90) ** 2, 0.1) if self.init_scale is None else self.init_scale
