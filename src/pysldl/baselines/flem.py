"""FLEM: a classifier and a label-enhancement network that teach each other."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from pysldl._utils.constraints import NotNegative
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.baselines.torch_training.classifier import (
    Clip,
    OptimizerName,
    Scoring,
    TorchClassifier,
    decay_weights_only,
)
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import Objective

HIDDEN = 128


@inherit_parameters
@dataclass(eq=False, repr=False)
class FLEM(TorchClassifier):
    r"""FLEM: fusion label enhancement for multi-label learning [1]_.

    A linear classifier gives logits p; beside it an enhancement network turns features and labels of a training row
    into logits d of a label distribution. With sg for "no gradient",

    .. math::
        L = (1-\alpha)\,\mathrm{BCE}(p, y) + \alpha\,\mathrm{CE}(p, \mathrm{softmax}(\mathrm{sg}\,d))
          + (1-\beta)\,\mathrm{BCE}_\omega(d, y) + \beta\,\ell_4(d),

    where :math:`\omega` is 1 for positives and :math:`\sigma(\mathrm{sg}\,p)` for negatives. New rows are scored by
    the classifier alone. Training costs and the network grow with the square of the number of labels.

    ``batch_size``, ``optimizer`` and ``clip`` are those of the authors' code. The SLDL paper gives no
    ``validation_fraction``, ``patience`` and ``scoring``; the authors' code scores by the Hamming loss, which favors
    models that predict nothing if labels are rare.

    Parameters
    ----------
    alpha, beta : float, default=0.01
        The SLDL paper's settings.
    variant : {"ld", "threshold", "sim"}, default="ld"
        What :math:`\ell_4` asks of the distribution: to agree with the classifier (``"ld"``, FLEM-D, the default of
        the authors' code), to rank positives above negatives, or to keep the similarities between rows.
    epochs : int, default=100
        Cap on the passes over the training rows. The authors' code runs 30, at which the classifier still improves on
        every data set when rows have length 1.
    learning_rate : float, default=1e-3
        Step size of the optimizer. That of the authors' code.
    weight_decay : float, default=1e-4
        How strongly the optimizer pulls the weights to zero. Biases are not decayed. That of the authors' code.

    References
    ----------
    .. [1] X. Zhao, Y. An, N. Xu, X. Geng. Fusion label enhancement for multi-label learning. IJCAI 2022.

    Examples
    --------
    >>> from pysldl.baselines import FLEM
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> FLEM(epochs=50, learning_rate=0.1, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    alpha: NotNegative = 0.01
    beta: NotNegative = 0.01
    variant: Literal["ld", "threshold", "sim"] = "ld"
    _: KW_ONLY
    batch_size: int = 64
    weight_decay: float = 1e-4
    optimizer: OptimizerName = "amsgrad"
    clip: Clip = "adaptive"
    patience: int | None = None
    scoring: Scoring = "AP"

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
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
        fourth = FOURTH_LOSS[self.variant]

        def loss(x: Tensor, y: Tensor) -> Tensor:
            p, d = network["classifier"](x), enhanced(network, x, y)
            prediction = soft_cross_entropy(p, d.detach()), binary_cross_entropy_with_logits(p, y)
            enhancement = fourth(d, p.detach(), x, y), focused_cross_entropy(d, p.detach(), y)
            return _mixed(self.alpha, *prediction) + _mixed(self.beta, *enhancement)

        return loss


def enhanced(network: Any, x: Tensor, y: Tensor) -> Tensor:
    """Logits of the label distribution of rows, of shape (batch, n_labels)."""

    def step(name: str, v: Tensor) -> Tensor:
        transformed = network[name](v)
        return transformed + network[f"{name}_more"](transformed)

    return step("joint", torch.cat([step("features", x), step("labels", y)], dim=1))


def soft_cross_entropy(logits: Tensor, target_logits: Tensor) -> Tensor:
    """Mean over rows of the cross-entropy between two softmax distributions over the labels."""
    return -(target_logits.softmax(dim=1) * logits.log_softmax(dim=1)).sum(dim=1).mean()


def focused_cross_entropy(d: Tensor, p: Tensor, y: Tensor) -> Tensor:
    """Binary cross-entropy of d in which a negative counts as much as the classifier believes in it."""
    likelihood = torch.sigmoid(torch.where(y > 0, d, -d)).clamp_min(1e-7)
    return -(torch.where(y > 0, 1.0, torch.sigmoid(p)) * likelihood.log()).mean()


def threshold_loss(d: Tensor, y: Tensor) -> Tensor:
    """Sum over rows of what the best negative lies above the worst positive; rows without either are skipped."""
    best_negative = d.masked_fill(y > 0, float("-inf")).amax(dim=1)
    worst_positive = d.masked_fill(y <= 0, float("inf")).amin(dim=1)
    return (best_negative - worst_positive).clamp_min(0.0).sum()


def row_similarity_loss(d: Tensor, x: Tensor) -> Tensor:
    """Mean squared difference between the cosine similarities of the rows of d and of x within a batch."""
    d, x = normalize(d, dim=1), normalize(x, dim=1)
    return (d @ d.T - x @ x.T).square().mean()


FOURTH_LOSS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "ld": lambda d, p, x, y: soft_cross_entropy(d, p),
    "threshold": lambda d, p, x, y: threshold_loss(d, y),
    "sim": lambda d, p, x, y: row_similarity_loss(d, x),
}


def _mixed(share: float, first: Tensor, second: Tensor) -> Tensor:
    return share * first + (1.0 - share) * second


def _transform(n_in: int, n_out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(n_in, n_out), nn.LeakyReLU(0.01), nn.BatchNorm1d(n_out))
