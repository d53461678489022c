"""PACA: its flows, divergence, reconstruction, log odds, and the loss as its paper writes it."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from pysldl.baselines.paca import (  # noqa: E402
    PACA,
    AffineFlow,
    Conditioner,
    LabelFlow,
    PACANetwork,
    SigmoidalFlow,
    gaussian_divergence,
    reconstruction_error,
    sigmoidal_map,
)
from pysldl.baselines.torch_training.dense_batches import DenseBatches  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402

N_FEATURES, N_LABELS, DIM = 6, 5, 4


def test_divergence_against_torch_distributions():
    mean, log_variance, other_mean, other_log_variance = torch.randn(4, 3, DIM)
    one = torch.distributions.Normal(mean, torch.exp(0.5 * log_variance))
    other = torch.distributions.Normal(other_mean, torch.exp(0.5 * other_log_variance))
    expected = torch.distributions.kl_divergence(one, other).sum(dim=1).mean()
    torch.testing.assert_close(gaussian_divergence(mean, log_variance, other_mean, other_log_variance), expected)


def test_reconstruction_error_of_both_kinds():
    decoded, x = torch.tensor([[0.0, 2.0], [1.0, -1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    p = 1 / (1 + np.exp(-decoded.numpy()))
    cross_entropy = -np.log(np.where(x.numpy() > 0, p, 1 - p)).sum() / 2
    assert float(reconstruction_error(decoded, x, True)) == pytest.approx(cross_entropy, rel=1e-5)
    assert float(reconstruction_error(decoded, x, False)) == pytest.approx(((p - x.numpy()) ** 2).sum() / 2, rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 2, N_LABELS])
def test_scores_are_log_odds_at_the_mean_code(chunk):
    network, x = PACANetwork(N_FEATURES, N_LABELS, DIM, 0.1).eval(), torch.rand(3, N_FEATURES)
    with torch.no_grad():
        points = network.placement(torch.cat([x, network.feature_mean(network.features(x))], dim=1))
        expected = torch.stack(
            [
                (flow.log_density(points, slice(k, k + 1)))[:, 0] * sign
                for k in range(N_LABELS)
                for flow, sign in ((network.positive, 1), (network.negative, -1))
            ]
        )
        expected = expected.view(N_LABELS, 2, 3).sum(dim=1).T
        torch.testing.assert_close(network.scores(x, chunk), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("chunk", [1, 2, N_LABELS])
def test_loss_and_gradients_as_the_paper_writes_them(chunk, binary):
    model = PACA(label_chunk=chunk, alpha=0.7, gamma=0.3, latent_dim=DIM, dropout=0.0, device="cpu")
    network = model._build(N_FEATURES, N_LABELS)
    x = torch.rand(3, N_FEATURES)
    x = (x > 0.5).float() if binary else x
    y = (torch.rand(3, N_LABELS) > 0.5).float()
    train = DenseBatches(x.numpy(), sparse.csr_array(y.numpy()), lambda v: v, torch.device("cpu"))
    torch.manual_seed(3)
    found = model._objective(network, train)(x, y)
    gradients = torch.autograd.grad(found, list(network.parameters()))

    torch.manual_seed(3)
    (mean, log_variance), (label_mean, label_log_variance) = network.encode_features(x), network.encode_labels(y)
    points = network.place(x, mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean))
    code = label_mean + torch.exp(0.5 * label_log_variance) * torch.randn_like(label_mean)
    densities = torch.stack([flow.log_density(points, slice(None)) for flow in (network.negative, network.positive)], 2)
    chosen = densities.log_softmax(dim=2).gather(2, y.long().unsqueeze(2)).squeeze(2)
    decoded = binary_cross_entropy_with_logits(network.label_decoder(code), y, reduction="none").sum(dim=1).mean()
    agreement = gaussian_divergence(mean, log_variance, label_mean, label_log_variance) + decoded
    reconstruction = reconstruction_error(network.feature_decoder(points), x, binary)
    expected = reconstruction + 0.3 * agreement - 0.7 * chosen.sum(dim=1).mean()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for one, other in zip(gradients, torch.autograd.grad(expected, list(network.parameters())), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_latent_space_needs_a_dimension():
    with pytest.raises(DataError, match="latent_dim"):
        PACA(latent_dim=0).fit(np.eye(4), sparse.csr_array(np.eye(4)))


@pytest.mark.parametrize(
    ("batch_size", "n_rows", "expected"), [(None, 100, 16), (None, 3999, 16), (None, 4000, 128), (50, 100, 50)]
)
def test_rows_of_a_step_follow_the_rows_there_are(batch_size, n_rows, expected):
    assert PACA(batch_size=batch_size)._rows_a_step(n_rows) == expected


def test_a_batch_of_one_is_refused():
    with pytest.raises(DataError, match="batch_size"):
        PACA(batch_size=1, epochs=1).fit(np.eye(4), np.eye(4, dtype=int))


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
