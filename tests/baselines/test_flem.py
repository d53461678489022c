"""FLEM: its four losses against plain loops, and where gradients may and may not flow."""

import math

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from pysldl.baselines.flem import (  # noqa: E402
    FLEM,
    enhanced,
    focused_cross_entropy,
    row_similarity_loss,
    soft_cross_entropy,
    threshold_loss,
)
from pysldl.baselines.torch_training.dense_batches import DenseBatches  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    d, p = rng.normal(scale=2, size=(2, 4, 5))
    y = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]], dtype=float)
    return torch.tensor(d), torch.tensor(p), torch.tensor(y), torch.tensor(rng.normal(size=(4, 3)))


def _sigmoid(t):
    return 1 / (1 + math.exp(-t))


def test_soft_cross_entropy(batch):
    d, p, _, _ = batch
    total = 0.0
    for i in range(4):
        target = np.exp(d[i].numpy()) / np.exp(d[i].numpy()).sum()
        guess = np.exp(p[i].numpy()) / np.exp(p[i].numpy()).sum()
        total -= sum(t * math.log(g) for t, g in zip(target, guess, strict=True))
    assert soft_cross_entropy(p, d).item() == pytest.approx(total / 4)


def test_focused_cross_entropy(batch):
    d, p, y, _ = batch
    total = 0.0
    for i in range(4):
        for k in range(5):
            if y[i, k]:
                total -= math.log(_sigmoid(d[i, k]))
            else:
                total -= _sigmoid(p[i, k]) * math.log(1 - _sigmoid(d[i, k]))
    assert focused_cross_entropy(d, p, y).item() == pytest.approx(total / 20)


def test_threshold_loss_skips_rows_with_only_positives_or_only_negatives(batch):
    d, _, y, _ = batch
    total = 0.0
    for i in (0, 3):
        positives = [d[i, k].item() for k in range(5) if y[i, k]]
        negatives = [d[i, k].item() for k in range(5) if not y[i, k]]
        total += max(0.0, max(negatives) - min(positives))
    assert total > 0
    assert threshold_loss(d, y).item() == pytest.approx(total)
    d.requires_grad_()
    threshold_loss(d, y).backward()
    assert torch.isfinite(d.grad).all()


def test_row_similarity_loss(batch):
    d, _, _, x = batch

    def cosine(a, b):
        return float(a @ b / (a.norm() * b.norm()))

    gaps = [(cosine(d[i], d[j]) - cosine(x[i], x[j])) ** 2 for i in range(4) for j in range(4)]
    assert row_similarity_loss(d, x).item() == pytest.approx(np.mean(gaps))


def test_enhancement_network_by_hand():
    model = FLEM()
    torch.manual_seed(0)
    network = model._build(3, 5).double().eval()
    x, y = torch.randn(2, 3).double(), torch.tensor([[1.0, 0, 0, 1, 0], [0, 1, 0, 0, 0]]).double()

    def by_hand(v, linear, more):
        t = v @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        t = np.where(t > 0, t, 0.01 * t) / math.sqrt(1 + 1e-5)  # fresh batch norm in evaluation mode
        return t + t @ more.weight.detach().numpy().T + more.bias.detach().numpy()

    h_x = by_hand(x.numpy(), network["features"][0], network["features_more"])
    h_y = by_hand(y.numpy(), network["labels"][0], network["labels_more"])
    expected = by_hand(np.hstack([h_x, h_y]), network["joint"][0], network["joint_more"])
    np.testing.assert_allclose(enhanced(network, x, y).detach().numpy(), expected, atol=1e-10)


def _losses(alpha, beta, variant="ld"):
    """Gradient norms of classifier and enhancement network under extreme mixes of the losses."""
    model = FLEM(alpha=alpha, beta=beta, variant=variant)
    torch.manual_seed(0)
    network = model._build(3, 4)
    train = DenseBatches(np.zeros((8, 3)), sparse.csr_array(np.eye(8, 4)), lambda x: x, torch.device("cpu"))
    y = torch.tensor(np.eye(4)[[0, 1, 2, 3, 0, 1, 2, 3]]).float()
    model._objective(network, train)(torch.randn(8, 3), y).backward()
    parts = {"classifier": network["classifier"], "enhancement": network["joint_more"]}
    return {name: part.weight.grad for name, part in parts.items()}


def test_neither_network_is_trained_through_the_other():
    reference = _losses(0.3, 0.3)
    torch.testing.assert_close(_losses(0.3, 0.9)["classifier"], reference["classifier"])
    torch.testing.assert_close(_losses(0.9, 0.3)["enhancement"], reference["enhancement"])
    assert not torch.allclose(_losses(0.9, 0.3)["classifier"], reference["classifier"])


@pytest.mark.parametrize("variant", ["ld", "threshold", "sim"])
def test_separable_labels_are_learned(variant):
    rng = np.random.default_rng(0)
    Y = np.eye(5)[rng.integers(5, size=200)]
    Y[::4, 0] = 1
    X = Y @ rng.normal(size=(5, 20)) + 0.05 * rng.normal(size=(200, 20))
    model = FLEM(variant=variant, epochs=20, learning_rate=0.02, random_state=0).fit(X[:150], sparse.csr_array(Y[:150]))
    best = model.predict_topk(X[150:], 1)[0].ravel()
    assert Y[150:][np.arange(50), best].mean() >= 0.95


def test_authors_way_to_choose_the_epoch():
    X = np.eye(20)[:, :6]
    assert FLEM(scoring="hamming", epochs=2, random_state=0).fit(X, np.eye(20)[:, :6] > 0).best_epoch_ in (1, 2)


def test_unknown_variant_and_scoring():
    X = np.eye(4)
    with pytest.raises(DataError, match="The 'variant' parameter of FLEM must be a str among"):
        FLEM(variant="x").fit(X, X)
    with pytest.raises(DataError, match="The 'scoring' parameter of FLEM"):
        FLEM(scoring="x").fit(X, X)
