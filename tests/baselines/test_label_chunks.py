"""Slices of labels: gradients of their own shape, and the label graph some rows at a time."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from pysldl.baselines.clif import graph_layer  # noqa: E402
from pysldl.baselines.clif.graph_layer import label_graph  # noqa: E402
from pysldl.baselines.torch_training.label_chunks import of_labels, sum_over_labels  # noqa: E402

N_LABELS = 7


@pytest.mark.parametrize("chunk", [1, 3, 6, N_LABELS])
@pytest.mark.parametrize("twice", [False, True])
def test_rows_of_labels_have_the_gradients_of_plain_slices(chunk, twice):
    own, gates = torch.randn(N_LABELS, 5, requires_grad=True), torch.randn(N_LABELS, 5, requires_grad=True)
    common = torch.randn(5, requires_grad=True)

    def gradients(rows):
        def term(labels, gates):
            value = (rows(own, labels) * rows(gates, labels) * common).exp().sum()
            if twice:  # also as a whole, and by rows that are not those of the slice
                value = value + (rows(own, labels) ** 3).sum() + own.square().sum() + rows(own, slice(1, 3)).sum()
            return value

        value = sum_over_labels(term, torch.tanh(gates), parameters=[own, common], n_labels=N_LABELS, chunk=chunk)
        return [value, *torch.autograd.grad(2.0 * value, [own, gates, common])]

    for found, expected in zip(gradients(of_labels), gradients(lambda t, labels: t[labels]), strict=True):
        torch.testing.assert_close(found, expected)


def test_the_gradient_of_rows_of_labels_has_their_shape():
    """None of the shape of the whole is made for a slice: there would be as many of them as there are slices."""
    own, shapes = torch.randn(N_LABELS, 5, requires_grad=True), []

    def term(labels, _):
        rows = of_labels(own, labels)
        rows.register_hook(lambda gradient: shapes.append(tuple(gradient.shape)))
        assert rows.is_leaf
        return rows.square().sum()

    parameters = [own, torch.ones(1, requires_grad=True)]
    total = sum_over_labels(term, own.new_ones(1), parameters=parameters, n_labels=N_LABELS, chunk=2)
    total.backward()
    assert sorted(shapes) == [(1, 5), (2, 5), (2, 5), (2, 5)]  # in any order: slices are computed at the same time
    torch.testing.assert_close(own.grad, 2 * own)
    assert parameters[1].grad is None  # no term has used it
    assert of_labels(own, slice(1, 3)).grad_fn is not None  # outside of a sum a plain slice


def test_label_graph_in_blocks(monkeypatch):
    labels = sparse.csr_array((np.random.default_rng(0).random((40, 11)) < 0.3).astype(np.float32))
    whole = label_graph(labels)
    monkeypatch.setattr(graph_layer, "BLOCK_LABELS", 4)
    np.testing.assert_array_equal(label_graph(labels), whole)
