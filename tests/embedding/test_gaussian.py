"""The Gaussian embedding learns what the paper says it learns."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding, VectorLabelEmbedding
from pysldl.exceptions import DataError


@pytest.fixture(scope="module")
def world():
    return make_asymmetric_multilabel()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("cooccurrence", ["binary", "count"])
def test_planted_directions_are_recovered(world, cooccurrence, seed):
    embedding = GaussianLabelEmbedding(cooccurrence=cooccurrence, n_steps=1000, random_state=seed).fit(world.Y)
    found = world.recovered(embedding.divergences())
    assert found["direction"] >= 0.93
    if cooccurrence == "count":
        assert found["near"] >= 0.80


@pytest.mark.parametrize("cooccurrence", ["binary", "count"])
def test_fifty_small_steps_learn_no_direction(world, cooccurrence):
    """The authors' schedule leaves the Gaussians near where they started: the directions are nearly a coin toss."""
    found = []
    for seed in range(5):
        short = GaussianLabelEmbedding(
            cooccurrence=cooccurrence, learning_rate=1e-3, n_steps=50, tol=None, random_state=seed
        ).fit(world.Y)
        found.append(world.recovered(short.divergences()))
    assert 0.35 < np.mean([start["direction"] for start in found]) < 0.65
    assert np.mean([start["near"] for start in found]) < 0.25


def test_loss_falls_and_progress_is_reported(world):
    steps = []
    embedding = GaussianLabelEmbedding(32, n_steps=200, tol=None, random_state=0).fit(world.Y, progress=steps.append)
    assert embedding.losses_[-1] < 0.7 * embedding.losses_[0]
    assert [p.step for p in steps] == list(range(1, 201))
    assert steps[-1].loss == embedding.losses_[-1] and steps[0].stage == "embedding"


def test_stops_when_the_loss_stops_falling(world):
    embedding = GaussianLabelEmbedding(2, tol=0.05, patience=10, n_steps=5000, random_state=0).fit(world.Y)
    assert embedding.converged_ and len(embedding.losses_) < 5000


def test_unseen_labels_do_not_change_the_others(world):
    n = world.Y.shape[0]
    gaps = sparse.hstack([world.Y, sparse.csr_array((n, 2), dtype=np.float32)], format="csr")
    with_gaps = GaussianLabelEmbedding(8, n_steps=20, random_state=0).fit(gaps)
    assert not with_gaps.components_[-2:].any()
    assert with_gaps.components_[:-2].all()


def test_js_ablation_is_symmetric_in_what_it_orders(world):
    embedding = GaussianLabelEmbedding(8, divergence="js", n_steps=30, random_state=0).fit(world.Y)
    assert embedding.losses_[-1] < embedding.losses_[0]


def test_vector_ablation_reproduces_the_transfer_matrix_better_than_chance(world):
    embedding = VectorLabelEmbedding(32, n_steps=200, random_state=0).fit(world.Y)
    assert embedding.losses_[-1] < 0.5 * embedding.losses_[0]


def test_asking_for_convergence_and_not_getting_it_warns(world):
    with pytest.warns(ConvergenceWarning, match="n_steps=20"):
        embedding = GaussianLabelEmbedding(8, n_steps=20, tol=1e-3, random_state=0).fit(world.Y)
    assert embedding.converged_ is False
    assert GaussianLabelEmbedding(8, n_steps=20, random_state=0).fit(world.Y).converged_ is None


def test_a_path_needs_ascending_steps_and_no_tolerance(world):
    with pytest.raises(DataError, match="ascending"):
        GaussianLabelEmbedding(8).fit_path(world.Y, (300, 100))
    with pytest.raises(DataError, match="tol=None"):
        GaussianLabelEmbedding(8, tol=0.01).fit_path(world.Y, (1, 2))


def test_vectors_with_a_source_and_a_target_fit_the_directed_walk_better(world):
    directed, symmetric = (
        VectorLabelEmbedding(32, directed=directed, n_steps=300, random_state=0).fit(world.Y)
        for directed in (True, False)
    )
    assert directed.losses_[-1] < symmetric.losses_[-1]


def test_the_authors_objective_descends():
    Y = (np.random.default_rng(1).random((80, 12)) < 0.3).astype(float)
    embedding = GaussianLabelEmbedding(4, objective="official", n_steps=30, tol=None, random_state=0).fit(Y)
    assert embedding.losses_[-1] < 0.8 * embedding.losses_[0]
