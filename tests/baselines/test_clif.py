"""CLIF: the label graph it learns on, the features it selects, and the loss as the paper writes it."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from pysldl.baselines.clif import CLIF, CLIFNetwork, GraphLayer, conditional_graph, graph_similarity_loss  # noqa: E402
from pysldl.baselines.torch_training import loop  # noqa: E402
from pysldl.baselines.torch_training.dense_batches import DenseBatches  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402

N_FEATURES, N_LABELS = 6, 5


def slow_logits(network, x, embeddings):
    h = network.features(x)
    logits = torch.empty(len(x), N_LABELS)
    for i in range(len(x)):
        for k in range(N_LABELS):
            u = network.specific((h[i] * torch.sigmoid(network.gate(embeddings[k])))[None])[0]
            logits[i, k] = u @ network.classifier.weight[k] + network.classifier.bias[k]
    return logits


@pytest.mark.parametrize("chunk", [1, 2, N_LABELS])
def test_scores_equal_a_loop(chunk):
    network, x = CLIFNetwork(N_FEATURES, N_LABELS, 8, 2).eval(), torch.rand(3, N_FEATURES)
    with torch.no_grad():
        expected = slow_logits(network, x, network.embeddings())
        torch.testing.assert_close(network.scores(x, chunk), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 2, N_LABELS])
def test_loss_and_gradients_as_the_paper_writes_them(chunk):
    Y = sparse.csr_array((np.random.default_rng(0).random((9, N_LABELS)) < 0.5).astype(np.float32))
    model = CLIF(label_chunk=chunk, semantics_weight=0.3, label_dim=8, device="cpu")
    network = model._build(N_FEATURES, N_LABELS)
    x, y = torch.rand(3, N_FEATURES), torch.from_numpy(Y[:3].toarray())
    found = model._objective(network, DenseBatches(np.zeros((9, N_FEATURES)), Y, lambda v: v, torch.device("cpu")))(
        x, y
    )
    gradients = torch.autograd.grad(found, list(network.parameters()))

    adjacency = torch.from_numpy(conditional_graph(Y))
    torch.testing.assert_close(network.adjacency, adjacency)
    embeddings = network.embeddings()
    misfit = binary_cross_entropy_with_logits(slow_logits(network, x, embeddings), y)
    expected = misfit + 0.3 * graph_similarity_loss(embeddings, adjacency)
    torch.testing.assert_close(found, expected)
    for one, other in zip(gradients, torch.autograd.grad(expected, list(network.parameters())), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_node_features_and_graph_are_not_learned_but_kept():
    network = CLIFNetwork(N_FEATURES, N_LABELS, 8, 1)
    learned = {name for name, _ in network.named_parameters()}
    assert not {"nodes", "adjacency"} & learned
    assert {"nodes", "adjacency"} <= set(network.state_dict())
    assert set(network.state_dict()) - set(loop.trained_state(network)) == {"nodes", "adjacency"}


def test_the_best_epoch_is_kept_without_a_copy_of_the_graph():
    rng = np.random.default_rng(0)
    X, Y = rng.random((40, N_FEATURES)), sparse.csr_array((rng.random((40, N_LABELS)) < 0.4).astype(np.float32))
    qualities, judged = iter([1.0, 0.5, 0.2]), []

    class Judged(CLIF):
        def _quality(self, score, held):
            judged.append(score(torch.zeros(1, N_FEATURES)).clone())
            return (next(qualities),)

    model = Judged(epochs=3, batch_size=10, device="cpu", random_state=0).fit(X, Y)
    assert model.best_epoch_ == 1 and np.abs(model.weights_["adjacency"]).sum() > 0
    with torch.no_grad():
        found = model._logits(model._network(), torch.zeros(1, N_FEATURES))
    torch.testing.assert_close(found, judged[0])
    assert not torch.allclose(found, judged[-1])


def test_one_label_has_no_graph():
    with pytest.raises(DataError, match="Y has only 1"):
        CLIF().fit(np.eye(4), sparse.csr_array(np.ones((4, 1))))


def test_feature_encoder_needs_a_layer():
    with pytest.raises(DataError, match="feature_layers"):
        CLIF(feature_layers=0).fit(np.eye(4), sparse.csr_array(np.eye(4)))


# The label graph

LABELS = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])


def test_label_graph_by_counting():
    n_labels = LABELS.shape[1]
    conditional = np.zeros((n_labels, n_labels))
    for k in range(n_labels):
        for other in range(n_labels):
            if k != other and LABELS[:, k].sum():
                conditional[k, other] = np.mean([row[other] for row in LABELS if row[k]])
    found = conditional_graph(sparse.csr_array(LABELS))
    np.testing.assert_allclose(found, (conditional + conditional.T) / 2, rtol=1e-6)
    assert not found[3].any()


@pytest.mark.parametrize("n_out", [5, 6])
def test_graph_layer_aggregates_like_a_loop(n_out):
    layer, nodes = GraphLayer(5, n_out), torch.randn(4, 5)
    layer.epsilon.data.fill_(0.3)
    adjacency = torch.from_numpy(conditional_graph(sparse.csr_array(LABELS)))
    gathered = torch.stack([1.3 * nodes[k] + sum(adjacency[k, j] * nodes[j] for j in range(4)) for k in range(4)])
    layer.eval()
    expected = layer.mlp(gathered) + (nodes if n_out == 5 else 0)
    torch.testing.assert_close(layer(nodes, adjacency), expected)


def test_graph_layer_has_half_its_width_inside():
    widths = [layer.out_features for layer in GraphLayer(9, 5).mlp if isinstance(layer, nn.Linear)]
    assert widths == [3, 5]


def test_similarity_loss_equals_a_loop():
    embeddings, adjacency = torch.randn(4, 3), torch.from_numpy(conditional_graph(sparse.csr_array(LABELS)))
    gaps = [
        (float(adjacency[k, j]) + (k == j) - float(torch.cosine_similarity(embeddings[k], embeddings[j], dim=0))) ** 2
        for k in range(4)
        for j in range(4)
    ]
    assert float(graph_similarity_loss(embeddings, adjacency)) == pytest.approx(np.mean(gaps), rel=1e-4)
