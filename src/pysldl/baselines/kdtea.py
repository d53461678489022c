"""KD-TEA: a small target-embedding autoencoder taught by a large one. A reconstruction from the abstract."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pysldl._utils.progress import ProgressCallback
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, Scaling, TorchClassifier
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import Objective
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["KDTEA"]


class KDTEA(TorchClassifier):
    r"""KD-TEA (reconstruction): target-embedding autoencoder with knowledge distillation (IEEE TETCI 2024).

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
    alpha : float
        The paper's setting, 0.5, at which it does not matter which of the two terms it multiplies.
    reconstruction_weight, alignment_weight : float
        :math:`\lambda_r` and :math:`\lambda_a`. Not public, like everything below. They, the dropouts, ``batch_size``,
        ``scaling`` and ``selection`` were chosen from about fifty settings on held-out training rows;
        ``docs/baselines.md`` says of which data sets. At weights of 1 both outweigh the first term, a mean over labels
        most of which are easy.
    teacher_dim, student_dim : int
        Widths D of the latent space.
    dropout, student_dropout : float
        On the hidden layers of the teacher and of the student, which is small and has the teacher to hold on to.
    predict_with : {"student", "teacher"}
        Which of the two scores new rows; may be changed after fitting.
    selection : {"AP", "P@1", "hamming"}
        What decides on held-out rows which epoch is kept.
    epochs : int
        Cap for the teacher, and again for the student.
    batch_size, learning_rate, weight_decay, optimizer, clip, scaling, validation_fraction, patience, device, \
vectorizer, memory_limit, progress, random_state
        See :class:`~pysldl.baselines.torch_training.classifier.TorchClassifier`.

    Attributes
    ----------
    n_epochs_, best_epoch_, stopped_
        Of the student.
    """

    reconstruction = True

    def __init__(
        self,
        *,
        alpha: float = 0.5,
        reconstruction_weight: float = 0.1,
        alignment_weight: float = 0.01,
        teacher_dim: int = 256,
        student_dim: int = 64,
        dropout: float = 0.2,
        student_dropout: float = 0.0,
        predict_with: Literal["student", "teacher"] = "student",
        selection: Literal["AP", "P@1", "hamming"] = "AP",
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-5,
        optimizer: OptimizerName = "adam",
        clip: Clip = None,
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
        self.alpha = alpha
        self.reconstruction_weight = reconstruction_weight
        self.alignment_weight = alignment_weight
        self.teacher_dim = teacher_dim
        self.student_dim = student_dim
        self.dropout = dropout
        self.student_dropout = student_dropout
        self.predict_with = predict_with
        self.selection = selection

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        from torch import nn

        from pysldl.baselines.torch_training.layers import mlp

        def autoencoder(feature_widths: list[int], hidden: int, latent: int, dropout: float) -> nn.Module:
            def layers(widths: list[int]) -> nn.Module:
                return mlp(widths, dropout=dropout, linear_output=True)

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
            score = partial(read_out, network[part])
            self._record(self._train(network[part], objective, train, held, score=score, stage=part))
        return network

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        if self.predict_with not in ("student", "teacher"):
            raise DataError(f"predict_with must be 'student' or 'teacher', but is {self.predict_with!r}.")
        return read_out(network[self.predict_with], x)

    def _teaching(self, network: Any) -> Objective:
        return lambda x, y: self._autoencoder_loss(network["teacher"], x, y)[0]

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        import torch

        def loss(x: Tensor, y: Tensor) -> Tensor:
            with torch.no_grad():
                taught = read_out(network["teacher"], x)
            own, logits = self._autoencoder_loss(network["student"], x, y)
            return self.alpha * own + (1.0 - self.alpha) * (logits - taught).square().mean()

        return loss

    def _autoencoder_loss(self, model: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of one autoencoder on a batch, and its logits."""
        from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

        code, target = model["features"](x), model["labels"](y)
        logits = model["decoder"](code)
        loss = (
            binary_cross_entropy_with_logits(logits, y)
            + self.reconstruction_weight * binary_cross_entropy_with_logits(model["decoder"](target), y)
            + self.alignment_weight * mse_loss(code, target)
        )
        return loss, logits


def read_out(model: Any, x: Tensor) -> Tensor:
    """Logits d(u(x))."""
    return model["decoder"](model["features"](x))
