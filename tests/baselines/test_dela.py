"""DELA: gates, divergence, the split decoder, and the loss as the paper writes it."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")

from torch.nn.functional import binary_cross_entropy_with_logits  # noqa: E402

from pysldl.baselines.dela import DELA, DELANetwork, gate_sample, noise_divergence  # noqa: E402
from pysldl.exceptions import DataError  # noqa: E402

N_FEATURES, N_LABELS, DIM = 6, 5, 4


def test_gates_are_on_or_half_on_and_follow_their_logits():
    logits = torch.tensor([-1.0, 0.0, 2.0]).repeat(20_000, 1)
    gates = gate_sample(logits, 2 / 3, 0.5)
    assert set(gates.unique().tolist()) == {0.5, 1.0}
    # The sign of a logit plus logistic noise is positive with the sigmoid of the logit.
    torch.testing.assert_close((gates == 1).float().mean(0), torch.sigmoid(logits[0]), atol=0.02, rtol=0)


def test_gate_gradient_is_that_of_the_relaxed_sample():
    logits = torch.randn(6, requires_grad=True)
    torch.manual_seed(1)
    (found,) = torch.autograd.grad(gate_sample(logits, 2 / 3, 0.5).sum(), logits)
    torch.manual_seed(1)
    noise = torch.rand(6).logit()
    relaxed = torch.sigmoid((logits + noise) / (2 / 3))
    torch.testing.assert_close(found, (relaxed * (1 - relaxed) / (2 / 3)).detach())


def test_divergence_against_torch_distributions():
    z, log_variance = torch.randn(3, DIM), torch.randn(3, DIM)
    gates = torch.where(torch.rand(N_LABELS, DIM) > 0.5, 1.0, 0.5)
    each = [
        torch.distributions.kl_divergence(
            torch.distributions.Normal(z[i], torch.exp(0.5 * log_variance[i]) * gates[k]),
            torch.distributions.Normal(0.0, 1.0),
        ).sum()
        for i in range(3)
        for k in range(N_LABELS)
    ]
    torch.testing.assert_close(noise_divergence(z, log_variance, gates), torch.stack(each).mean(), rtol=1e-4, atol=1e-4)


def decoded(network, x, z, label):
    """Logits of one label from the undivided decoder."""
    hidden = torch.relu(network.decoder_input(torch.cat([x, z], dim=1)))
    return network.decoder_output(hidden) @ network.classifier.weight[label] + network.classifier.bias[label]


def test_noisy_logits_equal_the_undivided_decoder():
    network, x = DELANetwork(N_FEATURES, N_LABELS, DIM, 0.0), torch.rand(3, N_FEATURES)
    z, noise, gates = torch.randn(3, DIM), torch.randn(3, DIM), torch.rand(N_LABELS, DIM)
    found = network.noisy_logits(slice(1, 4), network.decoder_base(x, z), noise, gates)
    expected = torch.stack([decoded(network, x, z + gates[k] * noise, k) for k in (1, 2, 3)], dim=1)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_scoring_is_without_noise():
    network, x = DELANetwork(N_FEATURES, N_LABELS, DIM, 0.0), torch.rand(3, N_FEATURES)
    z, _ = network.encode(x)
    expected = torch.stack([decoded(network, x, z, k) for k in range(N_LABELS)], dim=1)
    torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 2, N_LABELS])
def test_loss_and_gradients_as_the_paper_writes_them(chunk):
    model = DELA(label_chunk=chunk, beta=0.7, latent_dim=DIM, device="cpu")
    network = model._build(N_FEATURES, N_LABELS)
    x, y = torch.rand(3, N_FEATURES), (torch.rand(3, N_LABELS) > 0.5).float()
    torch.manual_seed(3)
    found = model._objective(network, None)(x, y)
    gradients = torch.autograd.grad(found, list(network.parameters()))

    torch.manual_seed(3)
    z, log_variance = network.encode(x)
    gates = gate_sample(network.gate_logits(), 2 / 3, 0.5)
    noise = torch.exp(0.5 * log_variance) * torch.randn_like(z)
    logits = torch.stack([decoded(network, x, z + gates[k] * noise, k) for k in range(N_LABELS)], dim=1)
    misfit = binary_cross_entropy_with_logits(logits, y, reduction="none").sum(dim=1).mean()
    expected = misfit + 0.7 * noise_divergence(z, log_variance, gates)
    torch.testing.assert_close(found, expected)
    for one, other in zip(gradients, torch.autograd.grad(expected, list(network.parameters())), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_gates_may_learn_at_their_own_rate():
    model = DELA(gate_rate=10.0, latent_dim=DIM)
    network = model._build(N_FEATURES, N_LABELS)
    others, gates = model._parameter_groups(network)
    assert gates["lr"] == pytest.approx(1e-2)
    assert sum(p.numel() for p in gates["params"]) == N_LABELS * DIM + DIM * DIM + DIM
    assert len(others["params"]) + len(gates["params"]) == len(list(network.parameters()))


@pytest.mark.parametrize(
    ("name", "value"),
    [("off_noise", 0.0), ("temperature", 0.0), ("label_chunk", 0), ("decay_every", 0), ("warmup", -1)],
)
def test_bad_settings_are_named(name, value):
    X, Y = np.eye(8), sparse.csr_array(np.eye(8))
    with pytest.raises(DataError, match=name):
        DELA(**{name: value}).fit(X, Y)


def test_learning_rate_schedule_is_used():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([parameter], lr=1.0)
    schedule = DELA(decay_every=1, warmup=2)._schedule(optimizer)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == [0.5, 1.0, 1.0, 0.5, 0.25]
    assert DELA()._schedule(optimizer) is None
