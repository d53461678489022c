"""The hinge's derivative, also of a transposed divergence matrix."""

import numpy as np

from pysldl.embedding import GaussianLabelEmbedding
from pysldl.embedding.ranking_loss import ConsecutiveHinge


def test_the_derivative_is_that_of_the_loss_in_either_memory_order():
    rng = np.random.default_rng(0)
    D = rng.random((5, 5))
    ranking = np.stack([np.delete(rng.permutation(5), 0) for _ in range(5)]).astype(np.int32)
    hinge = ConsecutiveHinge(ranking, 0.1)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        loss, G = hinge(layout(D))
        for i, j in np.ndindex(5, 5):
            moved = D.copy()
            moved[i, j] += 1e-6
            assert abs((hinge(layout(moved))[0] - loss) / 1e-6 - G[i, j]) < 1e-4


def test_the_authors_objective_descends():
    Y = (np.random.default_rng(1).random((80, 12)) < 0.3).astype(float)
    embedding = GaussianLabelEmbedding(4, objective="official", n_steps=30, tol=None, random_state=0).fit(Y)
    assert embedding.losses_[-1] < 0.8 * embedding.losses_[0]
