"""One classifier with three losses: focal (FL), class-balanced (CB) and distribution-balanced (DB)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pysldl._utils.progress import ProgressCallback
from pysldl.baselines.reweighted.losses import (
    balanced_focal,
    effective_number_weights,
    mean_of_own_labels,
    negative_tolerant,
    rebalanced_weights,
    tolerance_bias,
)
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, Scaling, TorchClassifier, decay_weights_only
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import Objective
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["ClassBalancedLossClassifier", "DistributionBalancedLossClassifier", "FocalLossClassifier"]


class FocalLossClassifier(TorchClassifier):
    """FL: a linear network trained with the focal loss of Lin et al. (2017).

    Minimizes ``balance (1 - p)^gamma BCE``, p being the probability given to the truth; one ``balance`` for
    positives and negatives, as in the code of the distribution-balanced loss.

    Parameters
    ----------
    balance, gamma : float
        The paper's settings, 2 and 2.
    backbone : {"linear", "mlp"}
        The paper gives none. ``"linear"`` is one layer from features to labels, as in the template of the paper's
        authors; ``"mlp"`` has 256 hidden units with batch norm, ReLU and dropout 0.5.
    epochs, batch_size, learning_rate, weight_decay, optimizer, clip
        Not given by the paper; the training recipe of FLEM but for the epochs: with its 30 the held-out rows of
        small data sets still improve in the last one. Biases are not decayed.
    scaling, validation_fraction, patience
        Not given by the paper.
    device, vectorizer, memory_limit, progress, random_state
        See :class:`~pysldl.baselines.torch_training.classifier.TorchClassifier`.
    """

    def __init__(
        self,
        *,
        balance: float = 2.0,
        gamma: float = 2.0,
        backbone: Literal["linear", "mlp"] = "linear",
        epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        optimizer: OptimizerName = "amsgrad",
        clip: Clip = "adaptive",
        scaling: Scaling = "l2",
        validation_fraction: float = 0.1,
        patience: int | None = 10,
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
        self.balance = balance
        self.gamma = gamma
        self.backbone = backbone

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        from torch import nn

        if self.backbone == "linear":
            network = nn.Sequential(nn.Linear(n_features, n_labels))
        elif self.backbone == "mlp":
            network = nn.Sequential(
                nn.Linear(n_features, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, n_labels)
            )
        else:
            raise DataError(f"backbone must be 'linear' or 'mlp', but is {self.backbone!r}.")
        for layer in network:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
                nn.init.zeros_(layer.bias)
        return network

    def _parameter_groups(self, network: nn.Module) -> list[dict[str, Any]]:
        return decay_weights_only(network, self.weight_decay)

    def _objective(self, network: nn.Module, train: DenseBatches) -> Objective:
        return lambda x, y: balanced_focal(network(x), y, 1.0, balance=self.balance, gamma=self.gamma)


class ClassBalancedLossClassifier(FocalLossClassifier):
    """CB: the focal loss weighted by the inverse effective number of rows of a label (Cui et al. 2019).

    The weight of label k is ``(1 - beta) / (1 - beta^n_k)``, n_k being its training rows. With the default it is all
    but constant from forty rows on, so that CB is close to FL on most labels.

    Parameters
    ----------
    beta : float
        Not given by the paper; 0.9 is what the code of the distribution-balanced loss uses.
    weighting : {"label", "row"}
        What has a weight: every label, as the formula says, or every row, the mean over its own labels, as that code
        does unless told otherwise (``average_w``). A row without labels then weighs as one of frequent labels.
    balance, gamma, backbone, epochs, batch_size, learning_rate, weight_decay, optimizer, clip, scaling, \
validation_fraction, patience, device, vectorizer, memory_limit, progress, random_state
        See :class:`FocalLossClassifier`.
    """

    def __init__(
        self,
        *,
        beta: float = 0.9,
        weighting: Literal["label", "row"] = "label",
        balance: float = 2.0,
        gamma: float = 2.0,
        backbone: Literal["linear", "mlp"] = "linear",
        epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        optimizer: OptimizerName = "amsgrad",
        clip: Clip = "adaptive",
        scaling: Scaling = "l2",
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        device: str = "auto",
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            balance=balance,
            gamma=gamma,
            backbone=backbone,
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
        self.beta = beta
        self.weighting = weighting

    def _objective(self, network: nn.Module, train: DenseBatches) -> Objective:
        import torch

        if not 0 < self.beta < 1:
            raise DataError(f"beta must lie between 0 and 1, but is {self.beta!r}.")
        if self.weighting not in ("label", "row"):
            raise DataError(f"weighting must be 'label' or 'row', but is {self.weighting!r}.")
        counts = np.bincount(train.Y.indices, minlength=train.Y.shape[1])
        weights = torch.from_numpy(effective_number_weights(counts, self.beta)).to(train.where)

        def loss(x: Tensor, y: Tensor) -> Tensor:
            weight = weights if self.weighting == "label" else mean_of_own_labels(y, weights, 1 - self.beta)
            return balanced_focal(network(x), y, weight, balance=self.balance, gamma=self.gamma)

        return loss


class DistributionBalancedLossClassifier(FocalLossClassifier):
    """DB: rebalanced weights and negative-tolerant logits under the focal loss (Wu et al. 2020).

    The weight of row i and label k is ``alpha + sigmoid(beta (rho_ik - mu))`` with
    ``rho_ik = (1/n_k) / sum_{j in y_i} 1/n_j``. Logits are lowered by ``kappa log(N/n_k - 1)``; those of negatives are
    then multiplied by ``tolerance``, and their weight divided by it. New rows are scored by the plain logits.

    Parameters
    ----------
    alpha, beta, mu : float
        Not given by the paper; the values of the authors' configuration for COCO.
    kappa, tolerance : float
        The same; ``tolerance`` is their lambda.
    divide_bias : bool
        Divide the bias by ``tolerance``, as the authors' code does but not their paper.
    balance, gamma, backbone, epochs, batch_size, learning_rate, weight_decay, optimizer, clip, scaling, \
validation_fraction, patience, device, vectorizer, memory_limit, progress, random_state
        See :class:`FocalLossClassifier`.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 10.0,
        mu: float = 0.2,
        kappa: float = 0.05,
        tolerance: float = 2.0,
        divide_bias: bool = False,
        balance: float = 2.0,
        gamma: float = 2.0,
        backbone: Literal["linear", "mlp"] = "linear",
        epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        optimizer: OptimizerName = "amsgrad",
        clip: Clip = "adaptive",
        scaling: Scaling = "l2",
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        device: str = "auto",
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            balance=balance,
            gamma=gamma,
            backbone=backbone,
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
        self.mu = mu
        self.kappa = kappa
        self.tolerance = tolerance
        self.divide_bias = divide_bias

    def _objective(self, network: nn.Module, train: DenseBatches) -> Objective:
        import torch

        if not self.tolerance > 0:
            raise DataError(f"tolerance must be positive, but is {self.tolerance!r}.")
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
