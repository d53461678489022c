"""KD-TEA: a small target-embedding autoencoder taught by a large one. A reconstruction from the abstract."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from pysldl._utils.constraints import Count, NotNegative, Share, Weight
from pysldl._utils.light_estimator import inherit_parameters
from pysldl.baselines.torch_training.classifier import Scoring, TorchClassifier
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.layers import mlp
from pysldl.baselines.torch_training.loop import Objective


@inherit_parameters
@dataclass(eq=False, repr=False)
class KDTEA(TorchClassifier):
    r"""KD-TEA (reconstruction): target-embedding autoencoder with knowledge distillation [1]_.

    Only the abstract of the method is public. It fixes that a large autoencoder teaches a small one, and that the
    distillation term is a mean squared error. **The networks, the other losses and the training are our own**, so
    numbers of this class say little about the published method; tables mark it as a reconstruction.

    An autoencoder has a label encoder e, a decoder d and a feature encoder u, and scores rows by d(u(x)). Its loss is

    .. math:: L_{TEA} = \mathrm{BCE}(d(u(x)), y) + \lambda_r \mathrm{BCE}(d(e(y)), y)
                      + \lambda_a \lVert u(x) - e(y) \rVert^2 / D .

    The teacher minimizes it alone; the student then minimizes
    :math:`\alpha L_{TEA} + (1 - \alpha)\,\mathrm{MSE}` between its logits and the teacher's.

    Parameters
    ----------
    alpha : float, default=0.5
        The SLDL paper's setting, at which it does not matter which of the two terms it multiplies.
    reconstruction_weight, alignment_weight : float
        :math:`\lambda_r` and :math:`\lambda_a`. Not public, like everything below. They, the dropouts, ``batch_size``,
        ``normalize`` and ``scoring`` were chosen from about fifty settings on held-out training rows;
        ``docs/baselines.md`` says of which data sets. At weights of 1 both outweigh the first term, a mean over labels
        most of which are easy.
    teacher_dim, student_dim : int
        Widths D of the latent space.
    dropout, student_dropout : float
        On the hidden layers of the teacher and of the student, which is small and has the teacher to hold on to.
    predict_with : {"student", "teacher"}, default="student"
        Which of the two scores new rows; may be changed after fitting.
    epochs : int, default=100
        Cap on the passes over the training rows. For the teacher, and again for the student.

    Attributes
    ----------
    n_epochs_, best_epoch_, stopped_
        Of the student.

    References
    ----------
    .. [1] Target embedding autoencoder framework based on knowledge distillation (KD-TEA). IEEE Transactions on
           Emerging Topics in Computational Intelligence, 2024.

    Examples
    --------
    >>> from pysldl.baselines import KDTEA
    >>> X, Y = [[1, 0], [0, 1], [1, 0], [0, 1]], [[1, 0], [0, 1], [1, 0], [0, 1]]
    >>> KDTEA(epochs=10, random_state=0).fit(X, Y).predict_topk(X, 1)[0].ravel()
    array([0, 1, 0, 1])
    """

    alpha: Weight = 0.5
    reconstruction_weight: NotNegative = 0.1
    alignment_weight: NotNegative = 0.01
    teacher_dim: Count = 256
    student_dim: Count = 64
    dropout: Share = 0.2
    student_dropout: Share = 0.0
    predict_with: Literal["student", "teacher"] = "student"
    _: KW_ONLY
    batch_size: int = 32
    weight_decay: float = 1e-5
    scoring: Scoring = "AP"

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        def autoencoder(feature_widths: list[int], hidden: int, latent: int, dropout: float) -> nn.Module:
            layers = partial(mlp, dropout=dropout, linear_output=True)
            return nn.ModuleDict(
                {
                    "features": layers([n_features, *feature_widths, latent]),
                    "labels": layers([n_labels, hidden, latent]),
                    "decoder": layers([latent, hidden, n_labels]),
                }
            )

        return nn.ModuleDict(
            {
                "teacher": autoencoder([1024, 512], 512, self.teacher_dim, self.dropout),
                "student": autoencoder([256], 256, self.student_dim, self.student_dropout),
            }
        )

    def _fit_network(self, train: DenseBatches, held: DenseBatches | None) -> nn.Module:
        network: Any = self._new_network(train)
        for part, objective in (("teacher", self._teaching(network)), ("student", self._objective(network, train))):
            score = partial(autoencoder_logits, network[part])
            self._record(self._train(network[part], objective, train, held, score=score, stage=part))
        return network

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        return autoencoder_logits(network[self.predict_with], x)

    def _teaching(self, network: Any) -> Objective:
        return lambda x, y: self._autoencoder_loss(network["teacher"], x, y)[0]

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        def loss(x: Tensor, y: Tensor) -> Tensor:
            with torch.no_grad():
                taught = autoencoder_logits(network["teacher"], x)
            own, logits = self._autoencoder_loss(network["student"], x, y)
            return self.alpha * own + (1.0 - self.alpha) * (logits - taught).square().mean()

        return loss

    def _autoencoder_loss(self, model: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of one autoencoder on a batch, and its logits."""
        code, target = model["features"](x), model["labels"](y)
        logits = model["decoder"](code)
        loss = (
            binary_cross_entropy_with_logits(logits, y)
            + self.reconstruction_weight * binary_cross_entropy_with_logits(model["decoder"](target), y)
            + self.alignment_weight * mse_loss(code, target)
        )
        return loss, logits


def autoencoder_logits(model: Any, x: Tensor) -> Tensor:
    """Logits d(u(x)), of shape (batch, n_labels)."""
    return model["decoder"](model["features"](x))
