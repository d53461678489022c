"""The terms of the error bound (Theorem 1)."""

import numpy as np
import pytest
from small_world import small_dataset

from pysldl.embedding import IdentityLabelEmbedding, RandomLabelEmbedding
from pysldl.experiments.stats.error_bound import ErrorBoundTerms, error_bound_terms, mean_error_bound_terms


def terms(embedding, noise=0.0, scale=1.0):
    Y = small_dataset().Y
    train, test = Y[:60], Y[60:]
    embedding.fit(train)
    Z, Z_test = (scale * embedding.transform(part) for part in (train, test))
    dense = np.asarray(Z_test.toarray() if hasattr(Z_test, "toarray") else Z_test, dtype=np.float32)
    codes = dense + np.float32(noise * scale) * np.random.RandomState(0).normal(size=dense.shape).astype(np.float32)
    return error_bound_terms(Z, train, Z_test, test, codes)


def test_the_identity_embedding_loses_nothing_and_a_perfect_mapping_neither():
    found = terms(IdentityLabelEmbedding())
    assert found["embedding_error"] == pytest.approx(0, abs=1e-10)
    assert found["regression_error"] == 0


def test_the_mapping_loses_what_the_codes_are_off():
    found = terms(IdentityLabelEmbedding(), noise=0.5)
    assert found["regression_error"] == pytest.approx(0.25 * 30, rel=0.15)
    assert found["embedding_error"] == pytest.approx(0, abs=1e-10)
    assert found["b"] > 0


def test_the_terms_do_not_depend_on_the_scale_of_the_latent_space():
    small, large = (terms(RandomLabelEmbedding(8, random_state=0), 0.1, scale) for scale in (1.0, 50.0))
    assert small == pytest.approx(large, rel=1e-3)
    assert small["embedding_error"] > 0.01


def test_terms_of_folds_are_averaged_and_the_largest_constant_is_kept():
    folds = [{"embedding_error": e, "regression_error": 1.0, "b": b} for e, b in ((1.0, 3.0), (2.0, 2.0))]
    assert mean_error_bound_terms("birds", "SLDL", folds) == ErrorBoundTerms("birds", "SLDL", 1.5, 1.0, 3.0)
