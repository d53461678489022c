"""One round of AdaBoost.C2 with the authors' learners: support vector machines with a Gaussian kernel."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from pysldl.baselines.logistic import fit_logistic

BLOCK_BYTES = 64 << 20
PLATT_FOLDS = 5


@dataclass(eq=False, repr=False)
class SVMChain(BaseEstimator):
    """A weighted SVM per label, on the features and on the labels that come before it in the chain.

    Squared distances only grow along the chain, by one label at a time, so the kernel of every learner comes from the
    distances of the one before it. Decision values become probabilities by a sigmoid, fitted to those of five-fold
    cross-validation (Platt). ``C`` is the cost of the SVM, for weights that sum to the number of rows.

    ``labels_`` have a learner in this round, ``chain_`` is the whole chain. ``dual_coef_`` (n_learners, n_samples) are
    the coefficients of the support vectors among the training rows ``X_`` and ``Y_``, which all rounds share;
    ``intercept_``, ``gamma_``, ``slope_`` and ``offset_`` belong to decision values, kernel and sigmoid.
    """

    C: float = 1.0

    _saved_state = ("labels_", "chain_", "dual_coef_", "intercept_", "gamma_", "slope_", "offset_", "X_", "Y_")

    def fit(
        self,
        X: Any,
        Y: sparse.csr_array,
        chain: NDArray[np.integer],
        labels: NDArray[np.integer],
        weights: NDArray[np.float32],
    ) -> Self:
        """Fit a learner for each of ``labels``; see :meth:`LinearChain.fit`."""
        self.labels_, self.chain_, self.X_, self.Y_ = labels, chain, X, Y
        n_samples = X.shape[0]
        distances = euclidean_distances(X, squared=True)
        spread = _Spread(X)
        duals = np.zeros((len(labels), n_samples))
        self.intercept_, self.gamma_, self.slope_, self.offset_ = np.zeros((4, len(labels)))
        self._decisions = np.zeros((n_samples, len(labels)), dtype=bool)
        learner_of = {label: number for number, label in enumerate(labels)}
        for label in chain:
            carried = Y[:, [label]].toarray().ravel() > 0
            if label in learner_of:
                number = learner_of[label]
                self.gamma_[number] = spread.gamma()
                kernel = np.exp(-self.gamma_[number] * distances)
                weight = weights[:, number] * n_samples
                svm = SVC(C=self.C, kernel="precomputed").fit(kernel, carried, sample_weight=weight)
                duals[number, svm.support_] = svm.dual_coef_[0]
                self.intercept_[number] = svm.intercept_[0]
                self.slope_[number], self.offset_[number] = _platt(svm, kernel, carried, weight)
                self._decisions[:, number] = svm.predict(kernel)
            distances += carried[:, None] != carried
            spread.add(carried)
        self.dual_coef_ = sparse.csr_array(duals)
        return self

    def decisions(self, X: Any, Y: sparse.csr_array) -> NDArray[np.bool_]:
        """What the learners say of the training rows, true labels before them in the chain."""
        return self._decisions

    def fill(self, X: Any, P: NDArray[np.float32]) -> None:
        """Write the probabilities of ``labels_`` into ``P``, of shape (n_rows, n_labels), along the chain."""
        block = max(1, BLOCK_BYTES // (8 * self.Y_.shape[0]))
        for start in range(0, X.shape[0], block):
            self._fill_block(X[start : start + block], P[start : start + block])

    def _fill_block(self, X: Any, P: NDArray[np.float32]) -> None:
        distances = euclidean_distances(X, self.X_, squared=True)
        learner_of = {label: number for number, label in enumerate(self.labels_)}
        for label in self.chain_:
            if label in learner_of:
                number = learner_of[label]
                support = self.dual_coef_[[number]]
                kernel = np.exp(-self.gamma_[number] * distances[:, support.indices])
                decision = kernel @ support.data + self.intercept_[number]
                P[:, label] = expit(self.slope_[number] * decision + self.offset_[number])
            distances += (P[:, [label]] - self.Y_[:, [label]].toarray().ravel()) ** 2


def scale_gamma(X: Any) -> float:
    """scikit-learn's ``gamma="scale"``: one over the number of columns times the variance of all entries."""
    return _Spread(X).gamma()


class _Spread:
    """Variance over all entries of a matrix that gains columns: scikit-learn's ``gamma="scale"`` without the matrix."""

    def __init__(self, X: Any) -> None:
        self.n_samples, self.n_columns = X.shape
        self.total = float(X.sum(dtype=np.float64))
        self.squares = float((X.multiply(X) if sparse.issparse(X) else np.square(X)).sum(dtype=np.float64))

    def add(self, column: NDArray[np.bool_]) -> None:
        self.n_columns += 1
        self.total += float(column.sum())
        self.squares += float(column.sum())

    def gamma(self) -> float:
        size = self.n_samples * self.n_columns
        variance = self.squares / size - (self.total / size) ** 2
        return 1.0 / (self.n_columns * variance) if variance > 0 else 1.0


def _platt(
    svm: SVC, kernel: NDArray[np.floating], carried: NDArray[np.bool_], weight: NDArray[np.floating]
) -> tuple[float, float]:
    """Slope and offset of the sigmoid over decision values; over those of the training rows if folds are too few."""
    folds = min(PLATT_FOLDS, int(carried.sum()), int((~carried).sum()))
    if folds < 2:
        values = svm.decision_function(kernel)
    else:
        values = cross_val_predict(
            SVC(C=svm.C, kernel="precomputed"),
            kernel,
            carried,
            cv=StratifiedKFold(folds),
            method="decision_function",
            params={"sample_weight": weight},
        )
    coef, offset = fit_logistic(values[:, None], carried, 1.0)
    return float(coef[0]), offset
