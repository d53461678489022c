r"""One classifier with three losses that reweight rare labels: focal (FL), class- (CB) and distribution-balanced (DB).

Let z be the logits and y the labels of a batch, each of shape (batch, n_labels), n_k the training rows of label k,
N all training rows, and ``BCE(z, y) = softplus(z) - y z``. Every loss is the mean over rows and labels of

.. math:: 2 (1 - p)^\gamma \; \omega \; \mathrm{BCE}(z', y), \qquad p = \exp(-\mathrm{BCE}(z', y)),

which differ in the weights :math:`\omega` and the logits :math:`z'`.
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from pysldl._utils.constraints import NotNegative, Positive, between
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, TorchClassifier, decay_weights_only
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import Objective

Number = Annotated[float, Real]


@inherit_parameters
@dataclass(eq=False, repr=False)
class FocalLossClassifier(TorchClassifier):
    """FL: a linear network trained with the focal loss [1]_.

    Minimizes ``balance (1 - p)^gamma BCE``, p being the probability given to the truth; one ``balance`` for
    positives and negatives, as in the code of the distribution-balanced loss.

    The SLDL paper gives neither ``batch_size`` nor ``optimizer`` nor ``clip``; they are as in
    :class:`~pysldl.baselines.FLEM`.

    Parameters
    ----------
    balance : float, default=2.0
        Factor of the whole loss; the SLDL paper's setting.
    gamma : float, default=2.0
        Exponent that lowers the loss of labels already predicted well; the SLDL paper's setting.
    backbone : {"linear", "mlp"}, default="linear"
        The SLDL paper gives none. ``"linear"`` is one layer from features to labels, as in the template of its
        authors; ``"mlp"`` has 256 hidden units with batch norm, ReLU and dropout 0.5.
    epochs : int, default=100
        Cap on the passes over the training rows. Not given by the SLDL paper; with the 30 of FLEM's authors the
        validation rows of small data sets still improve in the last one.
    learning_rate : float, default=1e-3
        Step size of the optimizer. Not given by the SLDL paper; as in FLEM.
    weight_decay : float, default=1e-4
        How strongly the optimizer pulls the weights to zero. Biases are not decayed. Not given by the SLDL paper; as in
        FLEM.

    References
    ----------
    .. [1] T.-Y. Lin, P. Goyal, R. Girshick, K. He, P. Dollár. Focal loss for dense object detection. ICCV 2017.

    Examples
    --------
    >>> from pysldl.baselines import FocalLossClassifier
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> FocalLossClassifier(epochs=50, learning_rate=0.1, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    balance: Positive = 2.0
    gamma: NotNegative = 2.0
    backbone: Literal["linear", "mlp"] = "linear"
    _: KW_ONLY
    batch_size: int = 64
    weight_decay: float = 1e-4
    optimizer: OptimizerName = "amsgrad"
    clip: Clip = "adaptive"

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        if self.backbone == "linear":
            network = nn.Sequential(nn.Linear(n_features, n_labels))
        else:
            network = nn.Sequential(
                nn.Linear(n_features, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, n_labels)
            )
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
        return network

    def _parameter_groups(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_weights_only(network, self.weight_decay)

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        return lambda x, y: balanced_focal(network(x), y, 1.0, balance=self.balance, gamma=self.gamma)


@inherit_parameters
@dataclass(eq=False, repr=False)
class ClassBalancedLossClassifier(FocalLossClassifier):
    """CB: the focal loss weighted by the inverse effective number of rows of a label [1]_.

    The weight of label k is ``(1 - beta) / (1 - beta^n_k)``, n_k being its training rows. With the default it is all
    but constant from forty rows on, so that CB is close to FL on most labels.

    Parameters
    ----------
    beta : float, default=0.9
        Not given by the SLDL paper; what the code of the distribution-balanced loss uses.
    weighting : {"label", "row"}, default="label"
        What has a weight: every label, as the formula says, or every row, the mean over its own labels, as that code
        does unless told otherwise (``average_w``). A row without labels then weighs as one of frequent labels.

    References
    ----------
    .. [1] Y. Cui, M. Jia, T.-Y. Lin, Y. Song, S. Belongie. Class-balanced loss based on effective number of samples.
           CVPR 2019.

    Examples
    --------
    >>> from pysldl.baselines import ClassBalancedLossClassifier
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> model = ClassBalancedLossClassifier(epochs=50, learning_rate=0.1, random_state=0).fit(X, Y)
    >>> model.predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    beta: Annotated[float, between(0, 1, "neither")] = 0.9
    weighting: Literal["label", "row"] = "label"

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        counts = np.bincount(train.Y.indices, minlength=train.Y.shape[1])
        weights = torch.from_numpy(effective_number_weights(counts, self.beta)).to(train.where)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            weight = weights if self.weighting == "label" else mean_of_own_labels(y, weights, 1 - self.beta)
            return balanced_focal(network(x), y, weight, balance=self.balance, gamma=self.gamma)

        return loss


@inherit_parameters
@dataclass(eq=False, repr=False)
class DistributionBalancedLossClassifier(FocalLossClassifier):
    """DB: rebalanced weights and negative-tolerant logits under the focal loss [1]_.

    The weight of row i and label k is ``alpha + sigmoid(beta (rho_ik - mu))`` with
    ``rho_ik = (1/n_k) / sum_{j in y_i} 1/n_j``. Logits are lowered by ``kappa log(N/n_k - 1)``; those of negatives are
    then multiplied by ``tolerance``, and their weight divided by it. New rows are scored by the plain logits.

    Parameters
    ----------
    alpha, beta, mu : float
        Not given by the SLDL paper; the values of the authors' configuration for COCO.
    kappa, tolerance : float
        The same; ``tolerance`` is their lambda.
    divide_bias : bool, default=False
        Divide the bias by ``tolerance``, as the authors' code does but not their paper.

    References
    ----------
    .. [1] T. Wu, Q. Huang, Z. Liu, Y. Wang, D. Lin. Distribution-balanced loss for multi-label classification in
           long-tailed datasets. ECCV 2020.

    Examples
    --------
    >>> from pysldl.baselines import DistributionBalancedLossClassifier
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> model = DistributionBalancedLossClassifier(epochs=50, learning_rate=0.1, random_state=0).fit(X, Y)
    >>> model.predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    alpha: Number = 0.1
    beta: Number = 10.0
    mu: Number = 0.2
    kappa: Number = 0.05
    tolerance: Positive = 2.0
    divide_bias: bool = False

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        counts = np.bincount(train.Y.indices, minlength=train.Y.shape[1])
        inverse_counts = torch.from_numpy((1.0 / np.maximum(counts, 1)).astype(np.float32)).to(train.where)
        bias = torch.from_numpy(tolerance_bias(counts, len(train), self.kappa)).to(train.where)
        if self.divide_bias:
            bias = bias / self.tolerance

        def loss(x: Tensor, y: Tensor) -> Tensor:
            weight = rebalanced_weights(y, inverse_counts, alpha=self.alpha, beta=self.beta, mu=self.mu)
            z, share = negative_tolerant(network(x), y, bias, self.tolerance)
            return balanced_focal(z, y, weight * share, balance=self.balance, gamma=self.gamma)

        return loss


def balanced_focal(z: Tensor, y: Tensor, weight: Tensor | float, *, balance: float, gamma: float) -> Tensor:
    """Mean of ``balance (1 - p)^gamma weight BCE(z, y)``, where p is the probability given to the truth.

    Logits z and labels y are of shape (batch, n_labels), to which ``weight`` broadcasts.
    """
    cross_entropy = binary_cross_entropy_with_logits(z, y, reduction="none")
    # 1 - exp(-BCE) loses all digits where the truth is all but certain; expm1 does not.
    wrong = -torch.expm1(-cross_entropy)
    return (balance * wrong.pow(gamma) * weight * cross_entropy).mean()


def effective_number_weights(counts: NDArray[np.integer], beta: float) -> NDArray[np.float32]:
    """Inverse effective numbers ``(1 - beta) / (1 - beta^n_k)`` of shape (n_labels,); an unseen label counts as one."""
    n = np.maximum(counts, 1).astype(np.float64)
    return np.asarray((1.0 - beta) / -np.expm1(n * np.log(beta)), dtype=np.float32)


def mean_of_own_labels(y: Tensor, weights: Tensor, without_labels: float) -> Tensor:
    """Weights of rows, of shape (batch, 1): the mean of ``weights`` of shape (n_labels,) over the labels of each."""
    n_labels = y.sum(dim=1, keepdim=True)
    return torch.where(n_labels > 0, (y @ weights)[:, None] / n_labels.clamp_min(1), without_labels)


def rebalanced_weights(y: Tensor, inverse_counts: Tensor, *, alpha: float, beta: float, mu: float) -> Tensor:
    """Weights ``alpha + sigmoid(beta (rho - mu))`` with ``rho_ik = (1/n_k) / sum_{j in y_i} 1/n_j``.

    They undo the oversampling of labels that come along with rarer ones. A row without labels has no such sum; its
    rho is taken as infinite, its weights as ``alpha + 1``. An unseen label counts as one row.
    """
    rho = inverse_counts / (y @ inverse_counts)[:, None]
    return alpha + torch.sigmoid(beta * (rho - mu))


def tolerance_bias(counts: NDArray[np.integer], n_rows: int, kappa: float) -> NDArray[np.float32]:
    """Class biases ``kappa log(N / n_k - 1)`` of shape (n_labels,), with n_k kept between 1 and N - 1."""
    n = np.clip(counts, 1, max(n_rows - 1, 1)).astype(np.float64)
    return np.asarray(kappa * np.log(np.maximum(n_rows / n - 1.0, 1e-12)), dtype=np.float32)


def negative_tolerant(z: Tensor, y: Tensor, bias: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Logits ``z - bias``, multiplied by ``scale`` where y is 0, and weights that divide by it there.

    A negative then counts for little as soon as its logit is somewhat below the bias.
    """
    shifted = z - bias
    return torch.where(y > 0, shifted, scale * shifted), torch.where(y > 0, 1.0, 1.0 / scale)
