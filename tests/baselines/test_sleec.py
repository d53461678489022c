"""SLEEC: its pieces against slow computations, and the whole against its options."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from pysldl.baselines import SLEEC
from pysldl.baselines.sleec import LocalEmbedding, factorize, label_neighbors, partition
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.exceptions import DataError, MemoryLimitError, SLDLWarning
from pysldl.metrics import evaluate


@pytest.fixture(scope="module")
def world():
    data = make_asymmetric_multilabel(random_state=0)
    return data.split("train"), data.split("test")


@pytest.fixture(scope="module")
def labels():
    rng = np.random.RandomState(0)
    return sparse.csr_array((rng.uniform(size=(40, 9)) < 0.25).astype(np.float32))


def precision(model, data, k=5):
    return evaluate(data.Y, model.predict_topk(data.X, k)[0], ks=(k,))[f"P@{k}"]


def test_label_neighbors_are_an_exhaustive_scan_with_ties_to_the_lower_row(labels):
    neighbors, similarities = label_neighbors(labels, 12)
    unit = normalize(labels.toarray())
    cosine = np.round(unit @ unit.T, 5)
    for row in range(40):
        expected = sorted(range(40), key=lambda other, row=row: (-cosine[row, other], other))[:12]
        assert neighbors[row].tolist() == expected
    np.testing.assert_allclose(similarities, np.take_along_axis(unit @ unit.T, neighbors, axis=1), atol=1e-6)


def test_label_neighbors_of_a_row_without_labels_are_the_first_rows():
    Y = sparse.csr_array(np.array([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=np.float32))
    neighbors, similarities = label_neighbors(Y, 3)
    assert neighbors[1].tolist() == [0, 1, 2]
    assert (similarities[1] == 0).all()


def observed_error(U, V, neighbors, wanted):
    """Root mean square over the pairs of the graph, one pair at a time."""
    squares = [
        (float(U[i] @ V[j]) - wanted[i, slot]) ** 2 for i, row in enumerate(neighbors) for slot, j in enumerate(row)
    ]
    return np.sqrt(np.mean(squares))


def test_factorization_is_the_authors_gradient_sweeps():
    rank, m = 6, 150
    Y = sparse.csr_array((np.random.RandomState(0).uniform(size=(m, 20)) < 0.1).astype(np.float32))
    neighbors, similarities = label_neighbors(Y, 15)
    wanted = np.zeros((m, m))
    mask = np.zeros((m, m))
    for i in range(m):
        for slot, j in enumerate(neighbors[i]):
            wanted[i, j], mask[i, j] = similarities[i, slot] + 1e-10, 1.0
    left, values, right = np.linalg.svd(wanted)
    U, V = left[:, :rank] * np.sqrt(values[:rank]), right[:rank].T * np.sqrt(values[:rank])
    step = 1.0 / (0.3 * np.linalg.norm(wanted))
    start = np.linalg.norm((U @ V.T - wanted) * mask)
    for _ in range(3):
        U = U - step * (((U @ V.T - wanted) * mask) @ V)
        V = V - step * (((U @ V.T - wanted) * mask).T @ U)
    assert np.linalg.norm((U @ V.T - wanted) * mask) < start
    found = factorize(neighbors, similarities, rank, 3, np.random.RandomState(0))
    np.testing.assert_allclose(found @ found.T, U @ U.T, atol=1e-4)  # columns may change sign


def test_more_sweeps_fit_the_graph_better(labels):
    neighbors, similarities = label_neighbors(labels, 8)
    errors = []
    for sweeps in (0, 200):
        U = factorize(neighbors, similarities, 6, sweeps, np.random.RandomState(0))
        V = np.stack(
            [np.linalg.lstsq(U[(neighbors == j).any(axis=1)], similarities[neighbors == j])[0] for j in range(40)]
        )
        errors.append(observed_error(U, V, neighbors, similarities))
    assert errors[1] < errors[0]


def test_dense_and_iterative_svd_agree(labels):
    Y = sparse.vstack([labels] * 3, format="csr")
    neighbors, similarities = label_neighbors(Y, 30)
    iterative = factorize(neighbors, similarities, 5, 0, np.random.RandomState(0))
    wanted = np.zeros((120, 120))
    np.put_along_axis(wanted, neighbors, similarities, axis=1)
    left, values, _ = np.linalg.svd(wanted)
    dense = left[:, :5] * np.sqrt(values[:5])
    np.testing.assert_allclose(iterative @ iterative.T, dense @ dense.T, atol=1e-4)


def test_regression_is_ridge_and_admm_hardly_differs(world):
    train, _ = world
    X, Y = normalize(train.X[:200]), train.Y[:200]
    plain = LocalEmbedding(10, 20, coef_sparsity=0.0, code_sparsity=0.0)
    fitted = plain.fit(X, Y, np.arange(200), np.random.RandomState(0))
    Z = factorize(*label_neighbors(Y, 20), 10, 200, np.random.RandomState(0))
    dense = X.toarray().astype(np.float64)
    ridge = np.linalg.solve(dense.T @ dense + 2.5 * np.eye(dense.shape[1]), dense.T @ Z)  # 1/(2 * 0.2) = 2.5
    np.testing.assert_allclose(fitted.coef_, ridge, atol=1e-5)
    admm = LocalEmbedding(10, 20, admm_sweeps=2, coef_sparsity=0.0, code_sparsity=0.0)
    admm.fit(X, Y, np.arange(200), np.random.RandomState(0))
    difference = np.linalg.norm(admm.codes_ - fitted.codes_) / np.linalg.norm(fitted.codes_)
    assert 0 < difference < 5e-3


def test_smallest_weights_and_codes_are_dropped(world):
    train, _ = world
    X, Y = normalize(train.X[:200]), train.Y[:200]
    kept = LocalEmbedding(10, 20, coef_sparsity=0.0, code_sparsity=0.0).fit(
        X, Y, np.arange(200), np.random.RandomState(0)
    )
    dropped = LocalEmbedding(10, 20, coef_sparsity=0.1, code_sparsity=0.05).fit(
        X, Y, np.arange(200), np.random.RandomState(0)
    )
    share = (dropped.coef_ == 0).mean()
    assert 0.1 <= share <= 0.11
    assert np.abs(kept.coef_[dropped.coef_ == 0]).max() <= np.abs(dropped.coef_[dropped.coef_ != 0]).min()
    assert ((dropped.codes_ == 0).sum(axis=0) == 10).all()  # 5 % of 200 rows in every dimension


def test_partition_finds_separate_groups_and_drops_empty_clusters():
    X = np.repeat(np.eye(3), 10, axis=0)
    clusters = partition(X, 30, np.random.RandomState(0))
    assert sorted(rows.tolist() for rows in clusters) == [list(range(s, s + 10)) for s in (0, 10, 20)]
    assert [rows.tolist() for rows in partition(X, 1, np.random.RandomState(0))] == [list(range(30))]


def test_scores_are_votes_and_ties_go_to_the_nearer_voters():
    model = SLEEC(2, 4, 3, coef_sparsity=0.0, code_sparsity=0.0)
    X = np.array([[1.0, 0.0], [0.9, 0.1], [0.5, 0.5], [0.0, 1.0]], dtype=np.float32)
    Y = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=np.float32)
    model.fit(X, Y)
    scores = model.decision_function(X[:1])[0]
    np.testing.assert_allclose(scores, [1 / 3, 1 / 3, 1 / 3], atol=0.01 / 3)  # one vote each of three neighbors
    embedding = model.embeddings_[0][0]
    code = embedding.transform(normalize(X[:1]))
    distances = np.linalg.norm(embedding.codes_ - code, axis=1)
    nearest = np.argsort(distances)[:3]
    carried = [int(Y[row].argmax()) for row in nearest]
    assert sorted(carried) == [0, 1, 2]
    assert np.argsort(-scores).tolist() == carried


def test_clusters_and_learners(world):
    train, test = world
    model = SLEEC(20, 30, 10, n_clusters=3, n_learners=3, calibrate=False, random_state=0).fit(train.X, train.Y)
    assert [len(centers) for centers in model.centers_] == [len(parts) for parts in model.embeddings_]
    for parts in model.embeddings_:
        assert sorted(np.concatenate([part.rows_ for part in parts]).tolist()) == list(range(train.X.shape[0]))
    assert not np.array_equal(model.centers_[0], model.centers_[1])
    assert precision(model, test) > 0.9 * precision(SLEEC(20, 30, 10, calibrate=False).fit(train.X, train.Y), test)


def test_reports_progress(world):
    train, _ = world
    seen = []
    SLEEC(5, 10, 5, n_learners=2, max_sweeps=1, calibrate=False, progress=seen.append).fit(train.X[:60], np.eye(60))
    assert [(report.step, report.total) for report in seen] == [(1, 2), (2, 2)]


def test_says_that_neighbors_were_reduced(world):
    train, _ = world
    with pytest.warns(SLDLWarning, match="n_neighbors=25 is more than the 12 training rows"):
        SLEEC(5, 10).fit(train.X[:12], np.eye(12))


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_components", 0), ("n_clusters", 0), ("cost", 0.0), ("coef_sparsity", 1.0), ("code_sparsity", -0.1)],
)
def test_bad_parameters(world, name, value):
    train, _ = world
    with pytest.raises(DataError, match=f"The '{name}' parameter of SLEEC must be"):
        SLEEC(**{name: value}).fit(train.X, train.Y)


def test_refuses_what_does_not_fit_into_memory(world):
    train, _ = world
    with pytest.raises(MemoryLimitError, match="neighbor graph"):
        SLEEC(memory_limit="1 kB").fit(train.X, train.Y)
