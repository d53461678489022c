"""What every label embedding must do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import (
    GaussianLabelEmbedding,
    IdentityLabelEmbedding,
    RandomLabelEmbedding,
    SVDLabelEmbedding,
    VectorLabelEmbedding,
)
from pysldl.exceptions import DataError

EMBEDDINGS = {
    "gaussian": GaussianLabelEmbedding(8, n_steps=40, random_state=0),
    "counted": GaussianLabelEmbedding(8, n_steps=40, cooccurrence="count", random_state=0),
    "without asymmetry": GaussianLabelEmbedding(8, n_steps=10, divergence="js", random_state=0),
    "official": GaussianLabelEmbedding(8, n_steps=40, objective="official", random_state=0),
    "without gaussians": VectorLabelEmbedding(8, n_steps=40, random_state=0),
    "random": RandomLabelEmbedding(8, random_state=0),
    "svd": SVDLabelEmbedding(8, random_state=0),
    "identity": IdentityLabelEmbedding(),
}


@pytest.fixture(params=EMBEDDINGS, ids=list(EMBEDDINGS))
def embedding(request):
    return clone(EMBEDDINGS[request.param])


@pytest.fixture(scope="module")
def Y():  # noqa: N802
    return make_asymmetric_multilabel(random_state=0).Y[:300]


def dense(Z):
    return Z.toarray() if sparse.issparse(Z) else Z


def test_target_is_the_sum_of_the_labels_vectors(embedding, Y):
    Z = dense(embedding.fit(Y).transform(Y))
    components = dense(embedding.components_)
    row = Y[[7]].indices
    np.testing.assert_allclose(Z[7], components[row].sum(axis=0), rtol=1e-5, atol=1e-6)
    assert Z.shape[0] == Y.shape[0]


def test_same_seed_same_places(embedding, Y):
    first = dense(embedding.fit(Y).components_)
    again = dense(clone(embedding).fit(Y).components_)
    assert (first == again).all()


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, lambda Y: Y.toarray(), sparse.csc_array])
def test_takes_dense_and_sparse_labels(embedding, Y, container):
    expected = dense(embedding.fit(Y).components_)
    assert (dense(clone(embedding).fit(container(Y)).components_) == expected).all()


def test_unseen_labels_cause_no_nan(embedding, Y):
    with_gaps = sparse.hstack([Y, sparse.csr_array((Y.shape[0], 3), dtype=np.float32)], format="csr")
    components = dense(embedding.fit(with_gaps).components_)
    assert np.isfinite(components).all()


def test_single_label_and_two_labels(embedding):
    for n_labels in (1, 2):
        Z = embedding.fit(np.eye(n_labels)[[0] * 4]).transform(np.eye(n_labels))
        assert np.isfinite(dense(Z)).all()


def test_refuses_another_number_of_labels(embedding, Y):
    with pytest.raises(DataError, match="fitted with"):
        embedding.fit(Y).transform(Y[:, :5])


def test_states_its_memory(embedding):
    assert embedding.memory(1000) > 0
