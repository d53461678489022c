"""The three reweighted losses against plain loops, and the classifier that minimizes them."""

import math

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from pysldl.baselines.reweighted import (  # noqa: E402
    ClassBalancedLossClassifier,
    DistributionBalancedLossClassifier,
    FocalLossClassifier,
    balanced_focal,
    effective_number_weights,
    negative_tolerant,
    rebalanced_weights,
    tolerance_bias,
)
from pysldl.baselines.torch_training.dense_batches import DenseBatches  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402

CLASSIFIERS = [FocalLossClassifier, ClassBalancedLossClassifier, DistributionBalancedLossClassifier]


@pytest.fixture
def batch():
    """Logits and labels of five rows; the last row has no label, label 3 no row, label 0 all but one."""
    rng = np.random.default_rng(1)
    y = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]], dtype=float)
    return rng.normal(scale=2, size=y.shape), y


def _tensor(values):
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def _sigmoid(t):
    return 1 / (1 + math.exp(-t))


def _slow_focal(z, y, weight, balance, gamma):
    """Mean of the focal terms, from the probabilities themselves."""
    total = 0.0
    for i in range(z.shape[0]):
        for k in range(z.shape[1]):
            truth = _sigmoid(z[i, k]) if y[i, k] else 1 - _sigmoid(z[i, k])
            total += balance * (1 - truth) ** gamma * weight[i, k] * -math.log(truth)
    return total / z.size


def test_focal_loss(batch):
    z, y = batch
    weight = np.random.default_rng(2).random(z.shape)
    got = balanced_focal(_tensor(z), _tensor(y), _tensor(weight), balance=2.0, gamma=2.0)
    assert got.item() == pytest.approx(_slow_focal(z, y, weight, 2.0, 2.0))


def test_gradient_flows_through_the_focus(batch):
    z, y = batch
    logits = _tensor(z).requires_grad_()
    balanced_focal(logits, _tensor(y), 1.0, balance=2.0, gamma=2.0).backward()
    ones = np.ones_like(z)
    for i, k in ((0, 0), (1, 2), (4, 3)):
        step = np.zeros_like(z)
        step[i, k] = 1e-5
        slope = (_slow_focal(z + step, y, ones, 2.0, 2.0) - _slow_focal(z - step, y, ones, 2.0, 2.0)) / 2e-5
        assert logits.grad[i, k].item() == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_focal_loss_stays_finite_where_the_network_is_certain():
    z = torch.tensor([[90.0, -90.0, 90.0, -90.0]], requires_grad=True)
    loss = balanced_focal(z, torch.tensor([[1.0, 0.0, 0.0, 1.0]]), 1.0, balance=2.0, gamma=2.0)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(z.grad).all()


def test_effective_numbers():
    counts = np.array([1, 2, 3, 1000, 0])
    got = effective_number_weights(counts, 0.9)
    expected = [1 / sum(0.9**j for j in range(max(n, 1))) for n in counts]  # E_n is a geometric sum
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_rebalanced_weights(batch):
    _, y = batch
    counts = np.maximum(y.sum(axis=0), 1)
    got = rebalanced_weights(_tensor(y), _tensor(1 / counts), alpha=0.1, beta=10.0, mu=0.2).numpy()
    for i in range(4):
        repeated = sum(1 / counts[j] for j in range(4) if y[i, j])
        for k in range(4):
            assert got[i, k] == pytest.approx(0.1 + _sigmoid(10 * ((1 / counts[k]) / repeated - 0.2)))
    np.testing.assert_allclose(got[4], 1.1)


def test_tolerance_bias_is_finite_for_labels_on_no_row_and_on_all():
    got = tolerance_bias(np.array([0, 1, 4, 5]), 5, 0.05)
    np.testing.assert_allclose(got, [0.05 * math.log(4), 0.05 * math.log(4), 0.05 * math.log(0.25), got[2]])
    assert np.isfinite(tolerance_bias(np.array([0, 1]), 1, 0.05)).all()


def test_negative_tolerant_logits(batch):
    z, y = batch
    bias = np.array([0.3, -0.2, 0.1, 0.0])
    logits, share = negative_tolerant(_tensor(z), _tensor(y), _tensor(bias), 2.0)
    for i in range(5):
        for k in range(4):
            shifted = z[i, k] - bias[k]
            assert logits[i, k].item() == pytest.approx(shifted if y[i, k] else 2 * shifted)
            assert share[i, k].item() == pytest.approx(1.0 if y[i, k] else 0.5)


@pytest.mark.parametrize("divide_bias", [False, True])
def test_distribution_balanced_objective_from_its_definition(batch, divide_bias):
    z, y = batch
    model = DistributionBalancedLossClassifier(divide_bias=divide_bias)
    train = DenseBatches(np.zeros((5, 1)), sparse.csr_array(y), lambda x: x, torch.device("cpu"))
    loss = model._objective(lambda x: x, train)(torch.tensor(z, dtype=torch.float32), torch.tensor(y).float())

    counts = np.clip(y.sum(axis=0), 1, None)
    total = 0.0
    for i in range(5):
        repeated = sum(1 / counts[j] for j in range(4) if y[i, j])
        for k in range(4):
            weight = 0.1 + (1.0 if repeated == 0 else _sigmoid(10 * (1 / counts[k] / repeated - 0.2)))
            bias = 0.05 * math.log(5 / min(counts[k], 4) - 1) / (2 if divide_bias else 1)
            logit = (z[i, k] - bias) * (1 if y[i, k] else 2)
            truth = _sigmoid(logit) if y[i, k] else 1 - _sigmoid(logit)
            total += 2 * (1 - truth) ** 2 * weight * (1 if y[i, k] else 0.5) * -math.log(truth)
    assert loss.item() == pytest.approx(total / 20, rel=1e-5)


def test_class_balanced_objective_from_its_definition(batch):
    z, y = batch
    train = DenseBatches(np.zeros((5, 1)), sparse.csr_array(y), lambda x: x, torch.device("cpu"))
    objective = ClassBalancedLossClassifier(beta=0.5)._objective(lambda x: x, train)
    weight = np.broadcast_to([1 / sum(0.5**j for j in range(max(int(n), 1))) for n in y.sum(axis=0)], z.shape)
    got = objective(torch.tensor(z, dtype=torch.float32), torch.tensor(y).float())
    assert got.item() == pytest.approx(_slow_focal(z, y, weight, 2.0, 2.0), rel=1e-5)


def test_class_balanced_weights_of_rows_from_their_definition(batch):
    z, y = batch
    assert not y.sum(axis=1).all(), "one row has no labels"
    train = DenseBatches(np.zeros((5, 1)), sparse.csr_array(y), lambda x: x, torch.device("cpu"))
    objective = ClassBalancedLossClassifier(beta=0.5, weighting="row")._objective(lambda x: x, train)
    of_label = [1 / sum(0.5**j for j in range(max(int(n), 1))) for n in y.sum(axis=0)]
    of_row = [np.mean([of_label[k] for k in range(4) if row[k]]) if row.any() else 0.5 for row in y]
    weight = np.broadcast_to(np.array(of_row)[:, None], z.shape)
    got = objective(torch.tensor(z, dtype=torch.float32), torch.tensor(y).float())
    assert got.item() == pytest.approx(_slow_focal(z, y, weight, 2.0, 2.0), rel=1e-5)


@pytest.mark.parametrize("backbone", ["linear", "mlp"])
@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_separable_labels_are_learned(classifier, backbone):
    rng = np.random.default_rng(0)
    Y = np.eye(5)[rng.integers(5, size=200)]
    Y[::4, 0] = 1
    X = Y @ rng.normal(size=(5, 20)) + 0.05 * rng.normal(size=(200, 20))
    X, Y = sparse.csr_array(X), sparse.csr_array(Y)
    model = classifier(backbone=backbone, epochs=20, learning_rate=0.02, random_state=0).fit(X[:150], Y[:150])
    best = model.predict_topk(X[150:], 1)[0].ravel()
    assert Y[150:].toarray()[np.arange(50), best].mean() >= 0.95


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ClassBalancedLossClassifier(weighting="rows"), "'weighting' parameter of ClassBalancedLossClassifier"),
        (FocalLossClassifier(backbone="tree"), "backbone"),
        (ClassBalancedLossClassifier(beta=1.0), "beta"),
        (DistributionBalancedLossClassifier(tolerance=0.0), "tolerance"),
    ],
)
def test_bad_settings_are_named(model, message):
    with pytest.raises(DataError, match=message):
        model.fit(np.eye(4), np.eye(4))
