"""Layers, each against a slow computation of its own."""

import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pysldl.baselines.torch_training.layers import LabelwiseLinear, mlp  # noqa: E402

N_LABELS = 7


def test_mlp_has_the_layers_in_order():
    layers = list(mlp([4, 8, 3], activation="leaky_relu", batch_norm=True, dropout=0.2))
    kinds = [nn.Linear, nn.BatchNorm1d, nn.LeakyReLU, nn.Dropout]
    assert [type(layer) for layer in layers] == 2 * kinds
    assert layers[2].negative_slope == 0.1


def test_mlp_with_linear_output_ends_with_a_linear_layer():
    assert [type(layer) for layer in mlp([4, 8, 3], dropout=0.2, linear_output=True)] == [
        nn.Linear,
        nn.ReLU,
        nn.Dropout,
        nn.Linear,
    ]


def test_dense_layers_start_within_their_bounds():
    layer = mlp([600, 400])[0]
    assert layer.bias.min() >= 0 and layer.bias.max() <= 0.1
    bound = math.sqrt(2) * math.sqrt(3 / 600)
    assert 0.99 * bound < layer.weight.abs().max() <= bound


def test_labelwise_linear_equals_a_loop():
    layer, h = LabelwiseLinear(N_LABELS, 5), torch.randn(3, 4, 5)
    scores, weight, bias = (tensor.detach().numpy() for tensor in (layer(h, slice(2, 5)), layer.weight, layer.bias))
    for i in range(4):
        for k in range(3):
            expected = sum(weight[2 + k, j] * float(h[k, i, j]) for j in range(5)) + bias[2 + k]
            assert scores[i, k] == pytest.approx(expected, abs=1e-5)


def test_labelwise_linear_on_the_same_features_for_all_labels():
    layer, h = LabelwiseLinear(N_LABELS, 5), torch.randn(4, 5)
    torch.testing.assert_close(layer.same_features(h), layer(h.expand(N_LABELS, 4, 5), slice(None)))
