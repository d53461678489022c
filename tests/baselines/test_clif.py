"""CLIF: the label graph it learns on, the features it selects, and the loss as the paper writes it."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from pysldl.baselines.clif.classifier import CLIF  # noqa: E402
from pysldl.baselines.clif.graph_layer import label_graph, similarity_gap  # noqa: E402
from pysldl.baselines.clif.network import CLIFNetwork  # noqa: E402
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

    adjacency = torch.from_numpy(label_graph(Y))
    torch.testing.assert_close(network.adjacency, adjacency)
    embeddings = network.embeddings()
    misfit = binary_cross_entropy_with_logits(slow_logits(network, x, embeddings), y)
    expected = misfit + 0.3 * similarity_gap(embeddings, adjacency)
    torch.testing.assert_close(found, expected)
    for one, other in zip(gradients, torch.autograd.grad(expected, list(network.parameters())), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_node_features_and_graph_are_not_learned_but_kept():
    network = CLIFNetwork(N_FEATURES, N_LABELS, 8, 1)
    learned = {name for name, _ in network.named_parameters()}
    assert not {"nodes", "adjacency"} & learned
    assert {"nodes", "adjacency"} <= set(network.state_dict())
    assert set(network.state_dict()) - set(loop._copy_of(network)) == {"nodes", "adjacency"}


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
