"""A linear read-out of the latent code."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from pysldl._utils.constraints import NotNegative
from pysldl._utils.light_estimator import validate_parameters
from pysldl.backend.half_precision import nearest_halves
from pysldl.backend.threads import matmul, single_threaded_blas
from pysldl.decoding.base import Codes, Decoder, LatentEvidence, UnformedCodes, codes_times, codes_times_at, formed

ROWS_AT_ONCE, LEFT_OUT_AT_ONCE = 2048, 512


@dataclass(eq=False, repr=False)
class LinearReadout(Decoder):
    """Ridge regression from codes back to labels: ``score = code · B[:, label]``.

    It sees all training rows where the neighbors see a few, and so ranks the middle of the list better.

    Parameters
    ----------
    alpha : float
        Penalty, in units of the mean squared length of a training code, so that it does not depend on their scale.
    half_precision : bool
        Round the weights to half precision, in which they take half the space of a model folder.

    Attributes
    ----------
    B_ : ndarray of shape (n_components, n_labels), float32

    Examples
    --------
    >>> Z, Y = np.eye(2, dtype=np.float32), sparse.csr_array(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> LinearReadout().fit(Z, Y).scores(Z)
    array([[0.5, 0. , 0.5],
           [0. , 0.5, 0. ]], dtype=float32)
    """

    alpha: NotNegative = 1.0
    _: KW_ONLY
    half_precision: bool = False

    has_readout = True
    _saved_state = ("B_",)
    B_: NDArray[np.float32] = field(init=False)

    @single_threaded_blas
    def fit(self, Z: Codes, Y: sparse.csr_array) -> Self:
        validate_parameters(self)
        gram, products = _moments(Z, Y)
        gram.flat[:: len(gram) + 1] += max(self.alpha * np.trace(gram) / len(Z), 1e-12)
        self._factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True)
        self.B_ = scipy.linalg.cho_solve(self._factor, products.T).astype(np.float32)
        if self.half_precision:
            self.B_ = nearest_halves(self.B_)
        return self

    def scores(self, Z: Codes) -> NDArray[np.float32]:
        return codes_times(Z, self.B_)

    def scores_of(self, Z: Codes, labels: NDArray[np.integer]) -> NDArray[np.float32]:
        """Scores of the labels that are listed for each row."""
        return codes_times_at(Z, self.B_, labels)

    @property
    def readout_weights(self) -> NDArray[np.float32]:
        return self.B_

    @single_threaded_blas
    def loo_scores(
        self, Z_left_out: Codes, rows: NDArray[np.integer], Z: Codes, Y: sparse.csr_array
    ) -> NDArray[np.float32]:
        weights = self.B_.astype(np.float64)
        found = np.empty((len(rows), weights.shape[1]), dtype=np.float32)
        # Codes of one mapping are the same, whoever asks.
        are_same = isinstance(Z, UnformedCodes) and isinstance(Z_left_out, UnformedCodes)
        are_same = are_same and Z_left_out.mapping is Z.mapping  # type: ignore[union-attr]
        for start in range(0, len(rows), LEFT_OUT_AT_ONCE):
            part = slice(start, start + LEFT_OUT_AT_ONCE)
            codes = formed(Z[rows[part]]).astype(np.float64)
            influence = scipy.linalg.cho_solve(self._factor, codes.T)  # (n_components, n_rows)
            cross = leverage = np.einsum("ij,ji->i", codes, influence)
            scores = own = matmul(codes, weights)
            if not are_same:
                codes = formed(Z_left_out[part]).astype(np.float64)
                cross, scores = np.einsum("ij,ji->i", codes, influence), matmul(codes, weights)
            residual = Y[rows[part]].toarray() - own
            residual *= (cross / np.maximum(1.0 - leverage, 0.05))[:, None]
            found[part] = scores - residual
        return found

    def evidence(self, z: NDArray[np.float32], label: int) -> LatentEvidence:
        direction = self.B_[:, label]
        return LatentEvidence(float(z @ direction), [], direction, "score of the linear read-out", terms_in_score=True)

    def memory(self, n_samples: int, n_components: int, n_labels: int) -> int:
        return 20 * n_components * n_labels + 16 * n_components**2


def _moments(Z: Codes, Y: sparse.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``ZᵀZ`` and ``YᵀZ``, in double precision."""
    found = Z.mapping.code_moments(Z.features, Y) if isinstance(Z, UnformedCodes) else None
    if found is not None:
        gram, products = found
        return gram, products
    gram, products = np.zeros((Z.shape[1], Z.shape[1])), np.zeros((Y.shape[1], Z.shape[1]))
    for start in range(0, len(Z), ROWS_AT_ONCE):  # a copy of all codes in double precision would be the largest
        part = slice(start, start + ROWS_AT_ONCE)
        codes = formed(Z[part]).astype(np.float64)
        gram += matmul(codes.T, codes)
        products += Y[part].T @ codes
    return gram, products
