"""CLIF: collaborative learning of label semantics and label-specific features (Hang and Zhang, TPAMI 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pysldl._utils.progress import ProgressCallback
from pysldl.baselines.torch_training.classifier import Clip, OptimizerName, Scaling
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.label_specific import LabelSpecificClassifier
from pysldl.baselines.torch_training.loop import Objective
from pysldl.exceptions import DataError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["CLIF"]


class CLIF(LabelSpecificClassifier):
    r"""CLIF: label embeddings, learned on the graph of labels that occur together, select the features of each label.

    Two graph isomorphism layers turn fixed random node features into embeddings :math:`E_k`, over the graph
    :math:`A = (P + P^\top)/2` with :math:`P_{kl} = P(l \mid k)`. Encoded features :math:`h_i` are multiplied by the
    gates :math:`\sigma(U E_k)`, go through one layer that all labels share, and a linear classifier a label. Training
    minimizes

    .. math::
        \mathrm{mean}_{i,k}\,\mathrm{BCE}_{ik}
        + \lambda\,\mathrm{mean}_{k,l}\,\big((A + I)_{kl} - \cos(E_k, E_l)\big)^2 .

    New rows are scored by their logits. The graph takes memory in proportion to the square of the number of labels.

    Parameters
    ----------
    semantics_weight : float
        :math:`\lambda`; the paper's setting, 0.01.
    label_dim : int
        Width of the label embeddings. Not given by the paper; the default of the authors' code, who choose between
        64 and 256 by data set.
    feature_layers : int
        Layers of the feature encoder; the same.
    epochs : int
        The paper's setting, 100.
    batch_size, learning_rate, weight_decay, optimizer
        Not given by the paper; those of the authors' code.
    decay_every, warmup
        Halve the learning rate after every so many epochs; let it rise linearly before. The authors do neither.
    selection : {"AP", "P@1", "hamming"}
        What decides on held-out rows which epoch is kept. Not given by the paper; the authors' code chooses the
        number of epochs on the test rows of the first fold, which this library does not offer.
    patience, validation_fraction, clip
        Our choice.
    scaling : {"l2", "minmax", "none"}
        To [0, 1] by the ranges of the training rows. Not given by the paper.
    label_chunk : int or None
        Labels at a time; None chooses by batch and device. Memory follows it; results do not, but for rounding.
    half_precision : bool or "auto"
        Products in bfloat16 while training: ``"auto"`` on a GPU, True also on a CPU with AMX.
    device, vectorizer, memory_limit, progress, random_state
        See :class:`~pysldl.baselines.torch_training.classifier.TorchClassifier`.
    """

    _widest = 512

    def __init__(
        self,
        *,
        semantics_weight: float = 0.01,
        label_dim: int = 256,
        feature_layers: int = 1,
        epochs: int = 100,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-5,
        optimizer: OptimizerName = "adam",
        decay_every: int | None = None,
        warmup: int = 0,
        selection: Literal["AP", "P@1", "hamming"] = "AP",
        patience: int | None = 15,
        validation_fraction: float = 0.1,
        clip: Clip = None,
        scaling: Scaling = "minmax",
        label_chunk: int | None = None,
        half_precision: bool | Literal["auto"] = "auto",
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
        self.semantics_weight = semantics_weight
        self.label_dim = label_dim
        self.feature_layers = feature_layers
        self.decay_every = decay_every
        self.warmup = warmup
        self.selection = selection
        self.label_chunk = label_chunk
        self.half_precision = half_precision

    def _check_training(self) -> None:
        super()._check_training()
        if self.feature_layers < 1:
            raise DataError(f"feature_layers must be at least 1, but is {self.feature_layers!r}.")

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        from pysldl.baselines.clif.network import CLIFNetwork

        if n_labels < 2:
            raise DataError("CLIF learns from a graph of labels, whose batch norm needs 2 of them, but Y has only 1.")
        return CLIFNetwork(n_features, n_labels, self.label_dim, self.feature_layers)

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        return network.scores(x, self._labels_at_once(x))

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        from pysldl.baselines.clif.graph_layer import label_graph, similarity_gap
        from pysldl.baselines.torch_training.label_chunks import narrow, sum_over_labels

        network.adjacency.copy_(torch.from_numpy(label_graph(train.Y)))
        reading = [*network.specific.parameters(), *network.classifier.parameters()]
        half = self._half

        def loss(x: Tensor, y: Tensor) -> Tensor:
            embeddings = network.embeddings()

            def misfit(labels: slice, h: Tensor, gates: Tensor) -> Tensor:
                logits = network.logits_of(labels, h, gates)
                return binary_cross_entropy_with_logits(logits, y[:, labels], reduction="sum") / y.numel()

            misfits = sum_over_labels(
                misfit,
                narrow(network.features(x), half),
                narrow(network.gates(embeddings), half),
                parameters=reading,
                n_labels=y.shape[1],
                chunk=self._labels_at_once(x),
                half=half,
            )
            return misfits + self.semantics_weight * similarity_gap(embeddings, network.adjacency)

        return loss
