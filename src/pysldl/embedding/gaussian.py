"""Labels as Gaussians whose divergences follow the label graph: the embedding of the paper."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pysldl.embedding.base import LabelEmbedding, seen_labels
from pysldl.embedding.descent import Descent
from pysldl.embedding.divergence import js_backward, js_divergence, kl_backward, kl_divergence
from pysldl.embedding.hinge import ConsecutiveHinge
from pysldl.embedding.transfer import Weighting, cooccurrence, rank_labels, transfer_matrix, transfer_rows
from pysldl.progress import ProgressCallback

__all__ = ["GaussianLabelEmbedding"]

SMALLEST_VARIANCE = 1e-6
INITIAL_WIDTH = 10.0
# Of labels that join a fitted embedding: how many at a time, among how many, and for how long.
PLACED_TOGETHER, REFERENCES, SETTLING_STEPS = 32, 128, 200
SAME_FREQUENCY = 32


class GaussianLabelEmbedding(LabelEmbedding):
    """Every label a diagonal Gaussian; its neighbours ordered by KL divergence as the random walk orders them.

    Each label is an anchor once: going down its ranking of the remaining labels, each one shall be
    closer by ``margin`` than the next (Eqs. 7 and 8). Minimised by Adam with closed-form gradients until the
    loss stops falling.

    Parameters
    ----------
    n_components : int
        Width of the latent space (c_hat).
    margin : float
        The paper's tau.
    cooccurrence : {"binary", "count"}
        The paper links two labels that ever share a row; counting how often gives the walk more to follow.
    divergence : {"kl", "js"}
        ``"js"`` is the paper's ablation "without asymmetric correlation".
    objective : {"paper", "official"}
        ``"official"`` does what the authors' code does: KL(N_j ‖ N_i), the hinge with the opposite sign, the
        anchor kept in its own ranking, and variances as free parameters that start in U(0, 0.5). That code lets a
        variance fall below zero, where its loss is NaN; here it stops at 1e-6.
    walk_steps, discount : int, float
        Length of the random walk, and the factor from one step to the next.
    learning_rate, weight_decay, max_steps, tol, patience
        See :class:`~pysldl.embedding.descent.Descent`.
    init_scale : float, optional
        Standard deviation of the initial means. The Gaussians start ten times as wide, give or take 3 %, so that all
        overlap and every divergence starts small. The larger it is against the learning rate, the less the means
        move and the more of the order is left to the variances. Default: ``(n_components / 90) ** 2``, at least 0.1.
        Narrow codes must be placed with care; wide random codes are nearly orthogonal and better left so.
    random_state : int, RandomState or None

    Attributes
    ----------
    components_ : ndarray of shape (n_labels, n_components)
        Means; zero for labels that never occur in training.
    log_variances_ : ndarray of shape (n_labels, n_components)
    losses_ : list of float
        The loss after every step.
    converged_ : bool
        Whether the loss stopped falling before ``max_steps``.

    Examples
    --------
    >>> from pysldl.datasets import make_asymmetric_multilabel
    >>> data = make_asymmetric_multilabel(random_state=0)
    >>> embedding = GaussianLabelEmbedding(cooccurrence="count", random_state=0).fit(data.Y)
    >>> names = data.label_names.tolist()
    >>> cloud, sky = names.index("cloud"), names.index("sky")
    >>> divergence = embedding.divergences()
    >>> bool(divergence[cloud, sky] < divergence[sky, cloud])  # cloud implies sky
    True
    """

    _saved_state = ("components_", "log_variances_", "losses_", "converged_")

    def __init__(
        self,
        n_components: int = 128,
        *,
        margin: float = 0.1,
        cooccurrence: Weighting = "binary",
        divergence: Literal["kl", "js"] = "kl",
        objective: Literal["paper", "official"] = "paper",
        walk_steps: int = 10,
        discount: float = 0.5,
        learning_rate: float = 1e-2,
        weight_decay: float = 0.0,
        max_steps: int = 1000,
        tol: float = 5e-3,
        patience: int = 50,
        init_scale: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.margin = margin
        self.cooccurrence = cooccurrence
        self.divergence = divergence
        self.objective = objective
        self.walk_steps = walk_steps
        self.discount = discount
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_steps = max_steps
        self.tol = tol
        self.patience = patience
        self.init_scale = init_scale
        self.random_state = random_state

    def memory(self, n_labels: int) -> int:
        """Bytes at the peak: a dozen (n_labels, n_labels) arrays and the optimiser's copies of the parameters."""
        return 52 * n_labels**2 + 64 * n_labels * self.n_components

    def divergences(self, anchors: NDArray[np.integer] | None = None) -> NDArray[np.float32]:
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
        return kl_divergence(self.components_[rows], self.log_variances_[rows])

    def _place(self, Y: sparse.csr_array, progress: ProgressCallback | None) -> None:
        seen = seen_labels(Y)
        official = self.objective == "official"
        transfer = transfer_matrix(cooccurrence(Y[:, seen], self.cooccurrence), self.walk_steps, self.discount)
        loss_of = self._loss(transfer)
        del transfer

        def loss_of_variances(parameters: list[NDArray[Any]]) -> tuple[float, list[NDArray[Any]]]:
            mu, variance = parameters
            np.maximum(variance, SMALLEST_VARIANCE, out=variance)
            loss, (grad_mu, grad_log_var) = loss_of(mu, np.log(variance))
            return loss, [grad_mu, grad_log_var / variance]

        scale = self._scale()
        rng = check_random_state(self.random_state)
        shape = (seen.size, self.n_components)
        mu = rng.normal(0.0, scale, (Y.shape[1], self.n_components)).astype(np.float32)[seen]
        descent = Descent(self.learning_rate, self.max_steps, self.tol, self.patience, weight_decay=self.weight_decay)
        if official:
            variance = rng.uniform(SMALLEST_VARIANCE, 0.5, shape).astype(np.float32)
            result = descent.minimise(loss_of_variances, [mu, variance], progress)
            log_var = np.log(np.maximum(result.parameters[1], SMALLEST_VARIANCE))
        else:
            width = INITIAL_WIDTH * scale * rng.uniform(0.97, 1.03, shape)
            start = [mu, 2.0 * np.log(width).astype(np.float32)]
            result = descent.minimise(lambda parameters: loss_of(*parameters), start, progress)
            log_var = result.parameters[1]

        self.components_ = np.zeros((Y.shape[1], self.n_components), dtype=np.float32)
        self.log_variances_ = np.zeros_like(self.components_)
        self.components_[seen] = result.parameters[0]
        self.log_variances_[seen] = log_var
        self.losses_ = result.losses
        self.converged_ = result.converged

    def _widen(self, n_new: int) -> None:
        super()._widen(n_new)
        self.log_variances_ = np.pad(self.log_variances_, ((0, n_new), (0, 0)))

    def _place_further(self, Y: sparse.csr_array, new: NDArray[np.intp]) -> None:
        """Each new label starts where :meth:`fit` would have drawn it, as wide as labels of its frequency, and
        descends the same loss among the labels most related to it, all of which stay where they are."""
        A = cooccurrence(Y, self.cooccurrence)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        placed = np.setdiff1d(seen_labels(Y), new)
        by_count = placed[np.argsort(counts[placed], kind="stable")]
        rng = check_random_state(self.random_state)
        means = rng.normal(0.0, self._scale(), self.components_.shape).astype(np.float32)
        for start in range(0, new.size, PLACED_TOGETHER):
            group = new[start : start + PLACED_TOGETHER]
            self.components_[group] = means[group]
            for label in group:
                at = int(np.searchsorted(counts[by_count], counts[label]))
                alike = by_count[max(0, at - SAME_FREQUENCY // 2) : at + SAME_FREQUENCY // 2]
                self.log_variances_[label] = self.log_variances_[alike].mean(axis=0)
            self._settle(A, group, placed)

    def _settle(self, A: sparse.csr_array, group: NDArray[np.intp], placed: NDArray[np.intp]) -> None:
        """Minimise the loss over the Gaussians of ``group``, given those ``placed`` that are nearest on the walk."""
        related = transfer_rows(A, group, self.walk_steps, self.discount)[:, placed].max(axis=0)
        nearest = placed[np.argsort(-related, kind="stable")[:REFERENCES]]
        labels = np.concatenate([group, nearest])
        loss_of = self._loss(transfer_rows(A, labels, self.walk_steps, self.discount)[:, labels])
        mu, log_var = self.components_[labels], self.log_variances_[labels]
        free = slice(0, group.size)

        def loss_of_group(parameters: list[NDArray[Any]]) -> tuple[float, list[NDArray[Any]]]:
            mu[free], log_var[free] = parameters
            loss, gradients = loss_of(mu, log_var)
            return loss, [gradient[free] for gradient in gradients]

        descent = Descent(self.learning_rate, SETTLING_STEPS, tol=1e-3, patience=20)
        found = descent.minimise(loss_of_group, [mu[free].copy(), log_var[free].copy()])
        self.components_[group], self.log_variances_[group] = found.parameters

    def _loss(self, transfer: NDArray[np.float32]) -> Callable[..., tuple[float, list[NDArray[Any]]]]:
        """The ranking loss (Eq. 7) of means and log-variances, and its gradients."""
        official = self.objective == "official"
        hinge = ConsecutiveHinge(rank_labels(transfer, with_anchor=official), self.margin, related_closer=not official)
        forward, backward = _DIVERGENCES[self.divergence]

        def loss_of(mu: NDArray[Any], log_var: NDArray[Any]) -> tuple[float, list[NDArray[Any]]]:
            D = forward(mu, log_var)
            loss, G = hinge(D.T if official else D)
            return loss, list(backward(G.T if official else G, mu, log_var))

        return loss_of

    def _scale(self) -> float:
        return max((self.n_components / 90) ** 2, 0.1) if self.init_scale is None else self.init_scale


_DIVERGENCES = {"kl": (kl_divergence, kl_backward), "js": (js_divergence, js_backward)}
