"""Layers, flows, graph layers and label chunks, each against a slow computation of its own."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pysldl.baselines.clif.classifier import CLIF  # noqa: E402
from pysldl.baselines.clif.graph_layer import GraphLayer, label_graph, similarity_gap  # noqa: E402
from pysldl.baselines.dela.classifier import DELA  # noqa: E402
from pysldl.baselines.paca.classifier import PACA  # noqa: E402
from pysldl.baselines.paca.flows import AffineFlow, Conditioner, LabelFlow, SigmoidalFlow  # noqa: E402
from pysldl.baselines.paca.sigmoidal import packed_map, sigmoidal_map  # noqa: E402
from pysldl.baselines.torch_training import label_chunks  # noqa: E402
from pysldl.baselines.torch_training.label_chunks import in_slices, labels_at_once, narrow, sum_over_labels  # noqa: E402
from pysldl.baselines.torch_training.layers import LabelwiseLinear, mlp  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402

N_LABELS = 7


# Layers


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


# The monotone map


def plain_sigmoidal_map(u, slope, shift, weight):
    mixed = (weight.softmax(-1) * torch.sigmoid(nn.functional.softplus(slope) * u[..., None] + shift)).sum(-1)
    return torch.logit(mixed * (1 - 1e-6) + 5e-7)


def test_sigmoidal_map_and_its_slope():
    u, shape = torch.randn(20, dtype=torch.float64, requires_grad=True), 2 * torch.randn(3, 20, 4, dtype=torch.float64)
    expected = plain_sigmoidal_map(u, *shape)
    (rise,) = torch.autograd.grad(expected.sum(), u)
    mapped, log_slope = sigmoidal_map(u, *shape)
    torch.testing.assert_close(mapped, expected)
    torch.testing.assert_close(log_slope, rise.log())


def test_gradient_of_the_sigmoidal_map():
    u = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    shape = [(2 * torch.randn(3, 4, 5, dtype=torch.float64)).requires_grad_() for _ in range(3)]
    assert torch.autograd.gradcheck(sigmoidal_map, (u, *shape))


def test_packed_map_is_the_map_for_every_leading_index():
    u, shape = torch.randn(3, 4, requires_grad=True), torch.randn(5, 3, 4, 12, requires_grad=True)
    slope, shift, weight = shape.chunk(3, dim=-1)
    found, expected = packed_map(u, shape), sigmoidal_map(u.expand(5, 3, 4), slope, shift, weight)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    half = shape.detach().bfloat16().requires_grad_()
    (gradient,) = torch.autograd.grad(packed_map(u, half)[0].sum(), half)
    assert gradient.dtype == torch.bfloat16 and gradient.abs().sum() > 0


KERNELS = """
import torch
from pysldl.baselines.paca.sigmoidal import _KernelMap, sigmoidal_map

torch.manual_seed(0)
u, shape = torch.randn(3, 9, requires_grad=True), (3 * torch.randn(5, 3, 9, 48)).requires_grad_()
outer = torch.randn(5, 3, 9), torch.randn(5, 3, 9)
slope, shift, weight = shape.chunk(3, dim=-1)
ways = _KernelMap.apply(u, shape), sigmoidal_map(u.expand(5, 3, 9), slope, shift, weight)
for one, other in zip(*ways, strict=True):
    torch.testing.assert_close(one, other)
gradients = [torch.autograd.grad(values, (u, shape), outer, retain_graph=True) for values in ways]
for one, other in zip(*gradients, strict=True):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
"""


def test_the_kernels_of_a_gpu_in_their_interpreter():
    pytest.importorskip("triton")
    subprocess.run([sys.executable, "-c", KERNELS], check=True, env={**os.environ, "TRITON_INTERPRET": "1"})


def bending(n_rows, n_labels, dim, spread=1.0):
    """A flow, points and labels of which it is one function, with outer gradients."""
    flow = SigmoidalFlow(n_labels, dim)
    for parameter in flow.parameters():
        parameter.data *= spread
    return flow, torch.randn(n_rows, dim), [torch.randn(n_labels, n_rows, dim) for _ in range(2)]


def bent(flow, z, outer, way):
    """Mapped points, logarithms of slopes and all gradients."""
    z = z.clone().requires_grad_()
    mapped = getattr(flow, way)(z, slice(None))
    return [*(values.detach() for values in mapped), *torch.autograd.grad(mapped, (z, *flow.parameters()), outer)]


@pytest.mark.parametrize(("n_rows", "n_labels", "dim"), [(3, 5, 9), (1, 1, 1), (20, 7, 50), (2, 3, 300)])
def test_the_compiled_flow_is_the_flow(n_rows, n_labels, dim):
    pytest.importorskip("numba")
    flow, z, outer = bending(n_rows, n_labels, dim, spread=3.0)
    found = bent(flow, z, outer, "_in_one_function")
    expected = bent(flow.double(), z.double(), [o.double() for o in outer], "_in_two_products")
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2e-4, atol=2e-4 * float(other.abs().max()) + 1e-6)


def test_the_compiled_flow_does_not_depend_on_threads(monkeypatch):
    numba = pytest.importorskip("numba")
    monkeypatch.setattr("pysldl.baselines.paca.flow_cpu.ROWS_OF_A_THREAD", 1)
    flow, z, outer = bending(60, 8, 50)
    results = []
    for n_threads in (1, 2):
        before = numba.get_num_threads()
        numba.set_num_threads(min(n_threads, numba.config.NUMBA_NUM_THREADS))
        try:
            results.append(bent(flow, z, outer, "_in_one_function"))
        finally:
            numba.set_num_threads(before)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_few_rows_start_no_threads(monkeypatch):
    pytest.importorskip("numba")

    def refuse(*_):
        raise AssertionError("threads were started")

    monkeypatch.setattr("pysldl.backend.threads._pool", refuse)
    monkeypatch.setattr("pysldl.backend.threads.n_threads", lambda: 2)
    bent(*bending(16, 6, 50), "_in_one_function")
    with pytest.raises(AssertionError, match="threads were started"):
        bent(*bending(16, 100, 50), "_in_one_function")


@pytest.mark.parametrize("n_rows", [1, 10**6])
def test_compiled_loops_take_tiny_numbers_for_zero(n_rows, monkeypatch):
    """The slopes of flat maps are too small for full precision, which processors are slow at."""
    pytest.importorskip("numba")
    from pysldl.baselines.paca.flow_cpu import SEGMENTS, _in_threads

    def is_flushed():
        return bool(np.float32(1e-40) * np.float32(1.0) == 0)

    monkeypatch.setattr("pysldl.backend.threads.n_threads", lambda: 2)
    seen = {}
    _in_threads(lambda start, stop: seen.update(dict.fromkeys(range(start, stop), is_flushed())), n_rows)
    assert seen == dict.fromkeys(range(SEGMENTS), True)
    assert not is_flushed()  # elsewhere they are numbers as before


def test_the_compiled_flow_keeps_what_is_no_number_and_stays_finite_far_out():
    pytest.importorskip("numba")
    flow, _, outer = bending(1, 2, 4)
    z = torch.tensor([[-1e4, -50.0, 50.0, 1e4]])
    assert all(torch.isfinite(tensor).all() for tensor in bent(flow, z, outer, "_in_one_function"))
    z[0, 3] = torch.nan
    for tensor in flow._in_one_function(z, slice(None)):
        assert torch.isnan(tensor[..., 3]).all() and torch.isfinite(tensor[..., 0]).all()


@pytest.mark.parametrize("far", [-1e4, -50.0, 50.0, 1e4])
def test_sigmoidal_map_is_finite_far_out(far):
    u, shape = torch.full((5,), far, requires_grad=True), torch.randn(3, 5, 16, requires_grad=True)
    mapped, log_slope = sigmoidal_map(u, *shape)
    (mapped + log_slope).sum().backward()
    for tensor in (mapped, log_slope, u.grad, shape.grad):
        assert torch.isfinite(tensor).all()


# Flows


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_conditioner_sees_only_earlier_dimensions(dim):
    conditioner = Conditioner(N_LABELS, dim)
    jacobian = torch.autograd.functional.jacobian(
        lambda z: conditioner(z[None], slice(3, 4))[0, 0].sum(dim=1), torch.randn(dim)
    )
    assert torch.equal(jacobian.triu(), torch.zeros(dim, dim))
    assert (jacobian.tril(-1) != 0).sum() == dim * (dim - 1) // 2


def test_conditioner_of_more_dimensions_than_units():
    assert Conditioner(2, 300)(torch.randn(2, 300), slice(0, 2)).shape == (2, 2, 300, 12)


@pytest.mark.parametrize("flow", [SigmoidalFlow, LabelFlow])
@pytest.mark.parametrize("label", [0, 4])
def test_log_determinant_against_a_numerical_jacobian(flow, label):
    dim, step = 4, 1e-6
    model = flow(N_LABELS, dim).double()
    for parameter in model.parameters():  # away from the start, where the affine part is the identity
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    labels, z = slice(label, label + 1), torch.randn(1, dim, dtype=torch.float64)
    steps = step * torch.eye(dim, dtype=torch.float64)
    with torch.no_grad():
        columns = (model(z + steps, labels).points - model(z - steps, labels).points)[0] / (2 * step)
        log_det = model(z, labels).log_det
    assert float(log_det) == pytest.approx(float(torch.linalg.slogdet(columns.T).logabsdet), abs=1e-6)


def test_the_flow_of_a_gpu_is_that_of_a_cpu():
    flow, z = SigmoidalFlow(N_LABELS, 5).double(), torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    tracked = [z, *flow.parameters()]
    found = []
    for way in (flow._in_two_products, flow._in_one_product):
        mapped, log_slopes = way(z, slice(2, 6))
        gradients = torch.autograd.grad((mapped.square() + log_slopes.exp()).sum(), tracked, allow_unused=True)
        found.append([mapped, log_slopes, *gradients])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_affine_flow_starts_as_the_identity():
    u = torch.randn(N_LABELS, 3, 4)
    points, log_det = AffineFlow(N_LABELS, 4)(u, slice(None))
    torch.testing.assert_close(points, u, atol=0.02, rtol=0)
    torch.testing.assert_close(log_det, torch.zeros(N_LABELS, 1), atol=0.02, rtol=0)


def test_density_integrates_to_one():
    flow = LabelFlow(N_LABELS, 1)
    # The clipped logit ends at +-14.5, so that the map covers all but a negligible part of the normal density.
    grid = torch.linspace(-40, 40, 4001)[:, None]
    with torch.no_grad():
        mass = torch.trapezoid(flow.log_density(grid, slice(0, 3)).exp(), dx=float(grid[1] - grid[0]), dim=0)
    torch.testing.assert_close(mass, torch.ones(3), atol=5e-3, rtol=0)


def test_log_density_is_that_of_the_normal_base_and_the_map():
    flow, z = LabelFlow(N_LABELS, 4), torch.randn(3, 4)
    with torch.no_grad():
        u, log_det = flow(z, slice(1, 6))
        base = torch.distributions.Normal(0.0, 1.0).log_prob(u).sum(-1)
        torch.testing.assert_close(flow.log_density(z, slice(1, 6)), (base + log_det).T)


# The label graph

Y = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])


def test_label_graph_by_counting():
    n_labels = Y.shape[1]
    conditional = np.zeros((n_labels, n_labels))
    for k in range(n_labels):
        for other in range(n_labels):
            if k != other and Y[:, k].sum():
                conditional[k, other] = np.mean([row[other] for row in Y if row[k]])
    found = label_graph(sparse.csr_array(Y))
    np.testing.assert_allclose(found, (conditional + conditional.T) / 2, rtol=1e-6)
    assert not found[3].any()


@pytest.mark.parametrize("n_out", [5, 6])
def test_graph_layer_aggregates_like_a_loop(n_out):
    layer, nodes = GraphLayer(5, n_out), torch.randn(4, 5)
    layer.epsilon.data.fill_(0.3)
    adjacency = torch.from_numpy(label_graph(sparse.csr_array(Y)))
    gathered = torch.stack([1.3 * nodes[k] + sum(adjacency[k, j] * nodes[j] for j in range(4)) for k in range(4)])
    layer.eval()
    expected = layer.mlp(gathered) + (nodes if n_out == 5 else 0)
    torch.testing.assert_close(layer(nodes, adjacency), expected)


def test_graph_layer_has_half_its_width_inside():
    widths = [layer.out_features for layer in GraphLayer(9, 5).mlp if isinstance(layer, nn.Linear)]
    assert widths == [3, 5]


def test_similarity_gap_equals_a_loop():
    embeddings, adjacency = torch.randn(4, 3), torch.from_numpy(label_graph(sparse.csr_array(Y)))
    gaps = [
        (float(adjacency[k, j]) + (k == j) - float(torch.cosine_similarity(embeddings[k], embeddings[j], dim=0))) ** 2
        for k in range(4)
        for j in range(4)
    ]
    assert float(similarity_gap(embeddings, adjacency)) == pytest.approx(np.mean(gaps), rel=1e-4)


# Label chunks


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
    with pytest.raises(DataError, match="half_precision must be True, False or 'auto'"):
        DELA(half_precision="yes").fit(*rows)
    monkeypatch.setattr(label_chunks, "_cpu_multiplies_in_half", lambda: False)
    for method in (CLIF, DELA):
        with pytest.raises(DataError, match="half_precision=True on a CPU needs one with AMX"):
            method(half_precision=True, device="cpu").fit(*rows)
    PACA(half_precision=True, device="cpu", epochs=1).fit(*rows)  # has no use for it on a CPU
    assert not PACA(half_precision=True, device="cpu")._half
    assert not DELA(device="cpu")._half
    monkeypatch.setattr(label_chunks, "_cpu_multiplies_in_half", lambda: True)
    DELA(half_precision=True, device="cpu")._check_training()


@pytest.mark.parametrize("chunk", [1, 3, N_LABELS, 20])
def test_slices_lie_side_by_side(chunk):
    whole = torch.randn(4, N_LABELS)
    found = in_slices(lambda labels: whole[:, labels], 4, N_LABELS, chunk)
    assert torch.equal(found, whole)


def test_labels_at_once_is_at_least_one():
    assert labels_at_once(torch.empty(10_000, 1), 10_000) == 1
    assert labels_at_once(torch.empty(128, 1), 512) > 1
