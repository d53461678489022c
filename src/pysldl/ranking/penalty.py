"""How strongly the weights of the linear classifiers are penalized, chosen on held-out rows."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.candidate_scores import score_candidates
from pysldl.backend.label_problems import LabelProblems
from pysldl.decoding.voting import clearly_better, row_quality
from pysldl.ranking.candidates import best_labels

MIDDLE, SMOOTHER, SHARPER = 0.3, 0.1, 1.0
FEW_LEFT_OUT = 0.1  # of the labels: up to so many, classifiers that are very smooth can be judged
TRIAL_PRODUCTS = 1e7  # of a weight and a value, in one pass over the rows: what one trial may cost

Solve = Callable[[LabelProblems, float], tuple[sparse.csr_array, NDArray[np.float32]]]


def choose_penalty(
    X: sparse.csr_array,
    Y: sparse.csr_array,
    sample: Callable[[float], tuple[LabelProblems, float]],
    solve: Solve,
    held: NDArray[np.integer],
    held_labels: NDArray[np.int32],
    mixed: Callable[[NDArray[np.float32]], Iterable[NDArray[np.float32]]],
) -> float:
    """The weight of the errors with which held-out rows are ranked best: 1, 0.3 or 0.1.

    Short rows and few labels want less than long rows and many labels. Where classifiers of all labels would cost too
    much to be trained several times, every second, third, ... label stands for all, in the order of their rows; the
    trials then cost the same however large the data are. A smaller weight must gain more than a standard error. Among
    fewer labels, classifiers that are too smooth rank well: so 0.1 is tried only where hardly any are left out, and the
    more are, the more must 0.3 gain over 1, up to two standard errors.

    ``sample`` gives the problems of labels that have about so many rows together (:func:`some_labels`), without the
    held-out rows, and a factor of the weights tried, for having fewer rows than there are; ``solve`` gives weights and
    biases of problems for a C; ``mixed`` makes final scores of linear ones, in several ways, of which the best counts.
    """
    chosen, factor = sample(TRIAL_PRODUCTS * X.shape[0] / max(X.nnz, 1))
    is_chosen = np.diff(chosen.indptr) > 0
    labels = np.where((held_labels >= 0) & is_chosen[held_labels], held_labels, np.int32(-1))
    truth = sparse.csr_array(Y[held] @ sparse.diags_array(is_chosen.astype(np.float32)))
    truth.eliminate_zeros()
    if truth.nnz == 0:
        return MIDDLE

    def quality_of(C: float) -> NDArray[np.float64]:
        linear = score_candidates(X[held], labels, *solve(chosen, factor * C))
        ways = (row_quality(truth, best_labels(labels, scores, 5), ks=(1, 3, 5)) for scores in mixed(linear))
        return max(ways, key=np.mean)

    of_middle = quality_of(MIDDLE)
    left_out = max(1 - is_chosen.sum() / max(len(np.unique(Y.indices)), 1), 0.0)
    if left_out <= FEW_LEFT_OUT and clearly_better(quality_of(SMOOTHER), of_middle):
        return SMOOTHER
    return SHARPER if clearly_better(quality_of(SHARPER), of_middle, -2 * left_out) else MIDDLE


def some_labels(sizes: NDArray[np.integer], n_rows: float) -> NDArray[np.intp]:
    """Every n-th label by its number of rows, ascending, such that they have about ``n_rows`` rows in all."""
    step = max(1, int(np.ceil(sizes.sum() / max(n_rows, 1.0))))
    if step == 1:
        return np.arange(len(sizes))
    return np.sort(np.argsort(-sizes, kind="stable")[step // 2 :: step])
