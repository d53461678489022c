"""Codes that are not formed give what formed ones give, up to the rounding of codes."""

import numpy as np
import pytest
from scipy import sparse

from pysldl import make_sldl
from pysldl.decoding import BlendDecoder, JointNeighborDecoder, LinearReadout
from pysldl.decoding.base import CodedRows, UnformedCodes, codes_times, formed
from pysldl.mapping import LandmarkRidge, RidgeMapping, linear_predictor

N_ROWS, N_FEATURES, N_LABELS = 400, 12, 70


@pytest.fixture(scope="module", params=["sparse", "dense"])
def rows(request):
    rng = np.random.default_rng(0)
    X = rng.random((N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.4) + 0.01
    Y = sparse.csr_array((X @ rng.normal(size=(N_FEATURES, N_LABELS)) > 0.7).astype(np.float32))
    Y = sparse.csr_array(Y + sparse.eye_array(N_ROWS, N_LABELS, dtype=np.float32) > 0, dtype=np.float32)
    return (sparse.csr_array(X) if request.param == "sparse" else X), Y


MAPPINGS = {
    "ridge": RidgeMapping(half_precision=True),
    "landmarks": LandmarkRidge(n_landmarks=20, use=True),
    "intercept": RidgeMapping(fit_intercept=True),
}


@pytest.fixture(params=MAPPINGS)
def mapping(request, rows):
    return MAPPINGS[request.param].fit(*rows)


def test_products(mapping, rows, monkeypatch):
    codes, B = UnformedCodes(mapping, rows[0]), np.random.default_rng(1).normal(size=(N_LABELS, 5)).astype(np.float32)
    assert codes.shape == (N_ROWS, N_LABELS) and len(codes[:7]) == 7
    expected = formed(codes) @ B.astype(np.float64)
    np.testing.assert_allclose(codes_times(codes, B), expected, atol=1e-4)
    np.testing.assert_array_equal(codes_times(codes[[3]], B), codes_times(codes, B)[[3]])
    monkeypatch.setattr(linear_predictor, "MOST_PRODUCTS", 1)
    np.testing.assert_allclose(codes_times(codes, B), expected, atol=1e-4)


def test_products_follow_the_weights(rows):
    mapping, B = RidgeMapping().fit(*rows), np.ones((N_LABELS, 2), dtype=np.float32)
    before = mapping.predict_times(rows[0], B)
    mapping.fit(rows[0], 2 * rows[1])
    np.testing.assert_allclose(mapping.predict_times(rows[0], B), 2 * before, rtol=1e-4, atol=1e-5)


def test_readout(mapping, rows, monkeypatch):
    X, Y = rows
    codes, numbers = UnformedCodes(mapping, X), np.arange(0, N_ROWS, 7)
    fitted, other = LinearReadout().fit(codes, Y), LinearReadout().fit(formed(codes), Y)
    np.testing.assert_allclose(fitted.B_, other.B_, atol=1e-3)
    np.testing.assert_allclose(fitted.scores(codes), other.scores(formed(codes)), atol=1e-3)
    labels = np.random.default_rng(0).integers(0, Y.shape[1], (N_ROWS, 4)).astype(np.int32)
    for readout, some in ((fitted, codes), (other, formed(codes))):
        listed = np.take_along_axis(readout.scores(some), labels, axis=1)
        np.testing.assert_allclose(readout.scores_of(some, labels), listed, rtol=1e-6, atol=1e-6)
    with monkeypatch.context() as patch:
        patch.setattr("pysldl.mapping.linear_predictor.MOST_PRODUCTS", 0)  # as if there were many labels
        np.testing.assert_allclose(fitted.scores_of(codes, labels), listed, atol=1e-3)
    monkeypatch.setattr("pysldl.decoding.readout.LEFT_OUT_AT_ONCE", 7)
    found = fitted.loo_scores(codes[numbers], numbers, codes, Y)
    np.testing.assert_allclose(found, other.loo_scores(formed(codes)[numbers], numbers, formed(codes), Y), atol=1e-3)


def test_moments_of_few_rows_come_from_formed_codes(rows):
    X, Y = rows
    mapping = RidgeMapping().fit(X, Y)
    assert mapping.code_moments(X[: N_FEATURES - 1], Y[: N_FEATURES - 1]) is None
    gram, products = mapping.code_moments(X, Y)
    codes = mapping.predict(X).astype(np.float64)
    np.testing.assert_allclose(gram, codes.T @ codes, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(products, Y.T @ codes, rtol=1e-4, atol=1e-3)


def test_blend_of_both(rows):
    X, Y = rows
    codes = UnformedCodes(RidgeMapping().fit(X, Y), X)
    decoder = BlendDecoder(JointNeighborDecoder(5, weight=0.5, temperature=0.1, n_axes=4, search="codes"))
    assert decoder.takes_unformed_codes and not BlendDecoder().takes_unformed_codes
    scores = [decoder.fit(Z, Y).scores(Z) for Z in (CodedRows(codes, X), CodedRows(formed(codes), X))]
    assert np.mean(np.abs(scores[0] - scores[1]) < 1e-3) > 0.99  # neighbors may change places where codes are rounded


def test_one_row_gets_what_it_gets_among_others(rows):
    X, Y = rows
    clf = make_sldl("accurate").fit(X, Y)
    assert isinstance(clf._rows_to_decode(X).codes, UnformedCodes)
    labels, scores = clf.predict_topk(X[:20], k=5)
    for row in range(20):
        alone = clf.predict_topk(X[[row]], k=5)
        np.testing.assert_array_equal(alone[0][0], labels[row])
        np.testing.assert_array_equal(alone[1][0], scores[row])
