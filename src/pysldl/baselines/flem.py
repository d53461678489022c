"""FLEM: a classifier and a label-enhancement network that teach each other (Zhao, An, Xu and Geng, IJCAI 2022)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from pysldl._utils.progress import ProgressCallback
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, Scaling, TorchClassifier, decay_weights_only
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import Objective
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["FLEM"]

HIDDEN = 128


class FLEM(TorchClassifier):
    r"""FLEM: fusion label enhancement.

    A linear classifier gives logits p; beside it an enhancement network turns features and labels of a training row
    into logits d of a label distribution. With sg for "no gradient",

    .. math::
        L = (1-\alpha)\,\mathrm{BCE}(p, y) + \alpha\,\mathrm{CE}(p, \mathrm{softmax}(\mathrm{sg}\,d))
          + (1-\beta)\,\mathrm{BCE}_\omega(d, y) + \beta\,\ell_4(d),

    where :math:`\omega` is 1 for positives and :math:`\sigma(\mathrm{sg}\,p)` for negatives. New rows are scored by
    the classifier alone. Training costs and the network grow with the square of the number of labels.

    Parameters
    ----------
    alpha, beta : float
        The paper's settings, 0.01 and 0.01.
    variant : {"ld", "threshold", "sim"}
        What :math:`\ell_4` asks of the distribution: to agree with the classifier (``"ld"``, FLEM-D, the default of
        the authors' code), to rank positives above negatives, or to keep the similarities between rows.
    selection : {"AP", "P@1", "hamming"}
        What decides on held-out rows which epoch is kept. The authors' code uses the Hamming loss, which favors
        models that predict nothing where labels are rare; not given by the paper.
    epochs : int
        The authors' code runs 30, at which the classifier still improves on every data set when rows have length 1.
    batch_size, learning_rate, weight_decay, optimizer, clip
        Those of the authors' code. Biases are not decayed.
    scaling, validation_fraction, patience
        Not given by the paper.
    device, vectorizer, memory_limit, progress, random_state
        See :class:`~pysldl.baselines.torch_training.classifier.TorchClassifier`.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.01,
        beta: float = 0.01,
        variant: Literal["ld", "threshold", "sim"] = "ld",
        selection: Literal["AP", "P@1", "hamming"] = "AP",
        epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        optimizer: OptimizerName = "amsgrad",
        clip: Clip = "adaptive",
        scaling: Scaling = "l2",
        validation_fraction: float = 0.1,
        patience: int | None = None,
        device: str = "auto",
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            optimizer=optimizer,
            clip=clip,
            scaling=scaling,
            validation_fraction=validation_fraction,
            patience=patience,
            device=device,
            vectorizer=vectorizer,
            memory_limit=memory_limit,
            progress=progress,
            random_state=random_state,
        )
        self.alpha = alpha
        self.beta = beta
        self.variant = variant
        self.selection = selection

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        from torch import nn

        network = nn.ModuleDict(
            {
                "classifier": nn.Linear(n_features, n_labels),
                "features": _transform(n_features, HIDDEN),
                "features_more": nn.Linear(HIDDEN, HIDDEN),
                "labels": _transform(n_labels, HIDDEN),
                "labels_more": nn.Linear(HIDDEN, HIDDEN),
                "joint": _transform(2 * HIDDEN, n_labels),
                "joint_more": nn.Linear(n_labels, n_labels),
            }
        )
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
        return network

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        return network["classifier"](x)

    def _parameter_groups(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_weights_only(network, self.weight_decay)

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        fourth = _fourth_loss(self.variant)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            from torch.nn.functional import binary_cross_entropy_with_logits

            p, d = network["classifier"](x), enhanced(network, x, y)
            prediction = soft_cross_entropy(p, d.detach()), binary_cross_entropy_with_logits(p, y)
            enhancement = fourth(d, p.detach(), x, y), focused_cross_entropy(d, p.detach(), y)
            return _mixed(self.alpha, *prediction) + _mixed(self.beta, *enhancement)

        return loss


def enhanced(network: Any, x: Tensor, y: Tensor) -> Tensor:
    """Logits of the label distribution of rows, of shape (batch, n_labels)."""
    import torch

    def step(name: str, v: Tensor) -> Tensor:
        transformed = network[name](v)
        return transformed + network[f"{name}_more"](transformed)

    return step("joint", torch.cat([step("features", x), step("labels", y)], dim=1))


def soft_cross_entropy(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Mean over rows of the cross-entropy between two softmax distributions over the labels."""
    return -(target_logits.softmax(dim=1) * logits.log_softmax(dim=1)).sum(dim=1).mean()


def focused_cross_entropy(d: Tensor, p: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropy of d in which a negative counts as much as the classifier believes in it."""
    import torch

    likelihood = torch.sigmoid(torch.where(y > 0, d, -d)).clamp_min(1e-7)
    return -(torch.where(y > 0, 1.0, torch.sigmoid(p)) * likelihood.log()).mean()


def ranking_hinge(d: Tensor, y: Tensor) -> Tensor:
    """Sum over rows of what the best negative lies above the worst positive; rows without either are skipped."""
    best_negative = d.masked_fill(y > 0, float("-inf")).amax(dim=1)
    worst_positive = d.masked_fill(y <= 0, float("inf")).amin(dim=1)
    return (best_negative - worst_positive).clamp_min(0.0).sum()


def similarity_gap(d: Tensor, x: Tensor) -> Tensor:
    """Mean squared difference between the cosine similarities of the rows of d and of x within a batch."""
    from torch.nn.functional import normalize

    d, x = normalize(d, dim=1), normalize(x, dim=1)
    return (d @ d.T - x @ x.T).square().mean()


def _fourth_loss(variant: str) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    losses: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
        "ld": lambda d, p, x, y: soft_cross_entropy(d, p),
        "threshold": lambda d, p, x, y: ranking_hinge(d, y),
        "sim": lambda d, p, x, y: similarity_gap(d, x),
    }
    if variant not in losses:
        raise DataError(f"variant must be one of {', '.join(losses)}, but is {variant!r}.")
    return losses[variant]


def _mixed(share: float, first: Tensor, second: Tensor) -> Tensor:
    return share * first + (1.0 - share) * second


def _transform(n_in: int, n_out: int) -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(n_in, n_out), nn.LeakyReLU(0.01), nn.BatchNorm1d(n_out))
