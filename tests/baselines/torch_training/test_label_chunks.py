"""Sums over slices of labels: their values and gradients, half precision, and the shapes of what is held."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pysldl.baselines import CLIF, DELA, PACA  # noqa: E402
from pysldl.baselines.torch_training import label_chunks  # noqa: E402
from pysldl.baselines.torch_training.label_chunks import (  # noqa: E402
    in_slices,
    label_slices,
    labels_at_once,
    narrow,
    of_labels,
    sum_over_labels,
)
from pysldl.baselines.torch_training.layers import LabelwiseLinear  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402

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


@pytest.mark.parametrize("chunk", [1, 3, 6])
def test_chunked_sums_have_the_value_and_the_gradients_of_the_whole(chunk):
    layer = LabelwiseLinear(N_LABELS, 5)
    trunk, unused = nn.Linear(4, 5), nn.Parameter(torch.ones(2))
    x, gates = torch.randn(6, 4), torch.rand(N_LABELS, 5)

    def results(chunk):
        def term(labels, h, gates):
            return layer(torch.tanh(h * gates[labels].unsqueeze(1)), labels).square().sum()

        parameters = [*layer.parameters(), unused]
        value = sum_over_labels(term, trunk(x), gates, parameters=parameters, n_labels=N_LABELS, chunk=chunk)
        # A factor outside, so that the gradient that comes in is not 1.
        gradients = torch.autograd.grad(3.0 * value, [*trunk.parameters(), *layer.parameters()])
        return [value, *gradients]

    for found, expected in zip(results(chunk), results(N_LABELS), strict=True):
        torch.testing.assert_close(found, expected)


def test_chunked_sums_without_gradients():
    with torch.no_grad():
        ones = torch.ones(N_LABELS)
        total = sum_over_labels(lambda labels, t: t[labels].sum(), ones, parameters=[], n_labels=N_LABELS, chunk=2)
    assert float(total) == N_LABELS


@pytest.mark.parametrize("half", [True, False])
def test_chunked_sums_multiply_in_half_precision_where_asked(half):
    seen = []

    def term(labels, t):
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), t.dtype))
        return t[labels].sum()

    shared = narrow(torch.ones(N_LABELS, requires_grad=True), half)
    sum_over_labels(term, shared, parameters=[], n_labels=N_LABELS, chunk=2, half=half)
    assert set(seen) == {(half, torch.bfloat16, torch.bfloat16 if half else torch.float32)}
    assert not torch.is_autocast_enabled("cpu")


def test_half_precision_on_a_cpu_is_tried_before_it_is_used(monkeypatch):
    rows = np.random.default_rng(0).random((20, 3)), np.eye(20)[:, :4]
    with pytest.raises(DataError, match="The 'half_precision' parameter of DELA must be"):
        DELA(half_precision="yes").fit(*rows)
    monkeypatch.setattr(label_chunks, "_cpu_multiplies_in_half", lambda: False)
    for method in (CLIF, DELA):
        with pytest.raises(DataError, match="half_precision=True on a CPU needs one with AMX"):
            method(half_precision=True, device="cpu").fit(*rows)
    PACA(half_precision=True, device="cpu", epochs=1).fit(*rows)  # has no use for it on a CPU
    assert not PACA(half_precision=True, device="cpu")._half
    assert not DELA(device="cpu")._half
    monkeypatch.setattr(label_chunks, "_cpu_multiplies_in_half", lambda: True)
    label_chunks.require_half_products()


@pytest.mark.parametrize("chunk", [1, 3, N_LABELS, 20])
def test_slices_lie_side_by_side(chunk):
    whole = torch.randn(4, N_LABELS)
    found = in_slices(lambda labels: whole[:, labels], 4, N_LABELS, chunk)
    assert torch.equal(found, whole)


def test_labels_at_once_is_at_least_one():
    assert labels_at_once(torch.empty(10_000, 1), 10_000) == 1
    assert labels_at_once(torch.empty(128, 1), 512) > 1


def test_slices_cover_the_labels():
    assert label_slices(7, 3) == [slice(0, 3), slice(3, 6), slice(6, 7)]
