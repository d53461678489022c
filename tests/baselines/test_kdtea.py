"""KD-TEA: the losses from their definitions, and what the student takes from the teacher."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from pysldl.baselines.kdtea import KDTEA, autoencoder_logits  # noqa: E402
from pysldl.baselines.torch_training.dense_batches import DenseBatches  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402

TRAIN = DenseBatches(np.zeros((4, 3)), sparse.csr_array(np.eye(4)), lambda x: x, torch.device("cpu"))


@pytest.fixture
def batch():
    rng = np.random.default_rng(0)
    return torch.tensor(rng.random((4, 3))).double(), torch.tensor(np.eye(4)[[0, 1, 2, 2]]).double()


@pytest.fixture
def model():
    return KDTEA(alpha=0.3, reconstruction_weight=0.7, alignment_weight=0.2, teacher_dim=6, student_dim=5, dropout=0.0)


@pytest.fixture
def network(model):
    torch.manual_seed(0)
    return model._build(3, 4).double()


def _relu_net(layers, v):
    """An MLP by hand, in NumPy."""
    linears = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    for i, linear in enumerate(linears):
        v = v @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        v = np.maximum(v, 0) if i < len(linears) - 1 else v
    return v


def _cross_entropy(z, y):
    p = 1 / (1 + np.exp(-z))
    return -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()


def _by_hand(part, x, y):
    """Loss and logits of one autoencoder."""
    x, y = x.numpy(), y.numpy()
    code, target = _relu_net(part["features"], x), _relu_net(part["labels"], y)
    logits = _relu_net(part["decoder"], code)
    loss = _cross_entropy(logits, y) + 0.7 * _cross_entropy(_relu_net(part["decoder"], target), y)
    distances = ((code - target) ** 2).sum(axis=1) / code.shape[1]
    return loss + 0.2 * distances.mean(), logits


def test_shapes_of_teacher_and_student(network):
    widths = {
        part: [layer.out_features for layer in network[part]["features"] if hasattr(layer, "out_features")]
        for part in ("teacher", "student")
    }
    assert widths == {"teacher": [1024, 512, 6], "student": [256, 5]}


def test_autoencoder_loss(model, network, batch):
    for part in ("teacher", "student"):
        loss, logits = model._autoencoder_loss(network[part], *batch)
        expected, scores = _by_hand(network[part], *batch)
        assert loss.item() == pytest.approx(expected)
        np.testing.assert_allclose(logits.detach().numpy(), scores, atol=1e-12)


def test_student_objective(model, network, batch):
    own, scores = _by_hand(network["student"], *batch)
    _, taught = _by_hand(network["teacher"], *batch)
    expected = 0.3 * own + 0.7 * ((scores - taught) ** 2).mean()
    assert model._objective(network, TRAIN)(*batch).item() == pytest.approx(expected)


def test_the_teacher_is_not_taught_by_the_student(model, network, batch):
    model._objective(network, TRAIN)(*batch).backward()
    assert all(p.grad is None for p in network["teacher"].parameters())
    assert any(p.grad is not None for p in network["student"].parameters())


@pytest.fixture(scope="module")
def separable():
    rng = np.random.default_rng(0)
    Y = np.eye(5)[rng.integers(5, size=200)]
    Y[::4, 0] = 1
    X = Y @ rng.normal(size=(5, 20)) + 0.05 * rng.normal(size=(200, 20))
    return X, sparse.csr_array(Y)


def test_both_learn_and_stages_are_reported_by_name(separable):
    X, Y = separable
    stages = []
    model = KDTEA(epochs=15, batch_size=32, progress=lambda r: stages.append(r.stage), random_state=0)
    model.fit(X[:150], Y[:150])
    assert list(dict.fromkeys(stages)) == ["teacher", "student"]
    ranked = {}
    for who in ("student", "teacher"):
        best = model.set_params(predict_with=who).predict_topk(X[150:], 1)[0].ravel()
        assert Y[150:].toarray()[np.arange(50), best].mean() >= 0.95
        ranked[who] = model.decision_function(X[150:])
    assert not np.array_equal(ranked["student"], ranked["teacher"])


def test_distillation_pulls_the_student_to_the_teacher(separable):
    X, Y = separable

    def gap(alpha):
        settings = {"epochs": 8, "dropout": 0.0, "validation_fraction": 0}
        model = KDTEA(alpha=alpha, device="cpu", random_state=0, **settings)
        model.fit(X, Y)
        network = model._network()
        x = model._scale(torch.tensor(X, dtype=torch.float32))
        with torch.no_grad():
            return float(
                (autoencoder_logits(network["student"], x) - autoencoder_logits(network["teacher"], x)).square().mean()
            )

    assert gap(0.1) < 0.5 * gap(1.0)


def test_unknown_predictor(separable):
    X, Y = separable
    with pytest.raises(DataError, match="predict_with"):
        KDTEA(predict_with="both", epochs=1).fit(X, Y)
