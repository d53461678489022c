"""Base class of the neural baselines: it scales and feeds rows, trains a network, keeps its best epoch, and scores."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from pysldl._utils.constraints import Count, NotNegative, Positive, Share, whole
from pysldl._utils.light_estimator import inherit_parameters
from pysldl._utils.memory import require_memory
from pysldl.backend.dispatch import find_device
from pysldl.backend.threads import single_threaded_torch
from pysldl.backend.topk import top_k
from pysldl.baselines.base import CALIBRATION_ROWS, BaselineClassifier
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import AdaptiveClipping, Clipping, Objective, TrainingLoop, TrainingResult
from pysldl.baselines.torch_training.scoring import SCORERS, score_in_blocks
from pysldl.estimator.calibration import LABELS_PER_ROW, ScoreCalibration

OptimizerName = Literal["adam", "adamw", "amsgrad", "sgd"]
Clip = Positive | Literal["adaptive"] | None
BatchSize = Annotated[int, whole(2)]
Scoring = Literal["AP", "P@1", "hamming"]


@inherit_parameters
@dataclass(eq=False, repr=False, kw_only=True)
class TorchClassifier(BaselineClassifier):
    """Base of the neural baselines.

    A subclass says what its network is (``_build``) and what it minimizes (``_objective``). Rows reach the network in
    dense batches, so that sparse features stay sparse in memory.

    Parameters
    ----------
    calibrate : bool, default=True
        Learn the threshold of ``predict`` and the probabilities of ``predict_proba`` on the validation rows.
    random_state : int, RandomState instance or None, default=None
        Seed of everything random. On a CPU the same seed gives the same model, bit for bit, on one machine, whatever
        the number of threads: torch computes on one.
    normalize : bool, default=True
        Scale every row of X to length 1.
    minmax : bool, default=False
        Before that, scale every column to [0, 1], with the ranges of the training rows.
    epochs : int, default=100
        Cap on the passes over the training rows.
    batch_size : int, default=128
        Rows per step; at least 2. A last batch of one row joins the batch before it, since batch norm needs two.
    learning_rate : float, default=1e-3
        Step size of the optimizer.
    weight_decay : float, default=0.0
        How strongly the optimizer pulls the weights to zero.
    optimizer : {"adam", "adamw", "amsgrad", "sgd"}, default="adam"
        ``"amsgrad"`` is AdamW in its AMSGrad form; ``"sgd"`` has momentum 0.9.
    clip : float, "adaptive" or None, default=None
        Largest norm of a gradient; ``"adaptive"`` takes it from the norms of the last steps.
    validation_fraction : float, default=0.1
        Share of the training rows held out to choose the epoch that is kept and to calibrate ``predict``. With 0,
        or fewer than ten rows, the last epoch is kept and the training rows themselves calibrate, which makes
        ``predict`` and ``predict_proba`` overconfident; rankings are not affected.
    patience : int or None, default=10
        Stop when the quality on the validation rows has not risen for so many epochs.
    scoring : {"P@1", "AP", "hamming"}, default="P@1"
        What decides on the validation rows which epoch is kept: precision at 1, average precision, or 1 - Hamming loss.
    device : str, default="cpu"
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``, as for :class:`~pysldl.SLDLClassifier`.

    Attributes
    ----------
    weights_ : dict of str to ndarray
        Everything the network learned.
    n_epochs_, best_epoch_ : int
        Epochs run, and the one whose weights were kept.
    stopped_ : {"epochs", "patience", "interrupt"}
        Why training ended. Ctrl-C ends training, not the program: the best model so far stays usable.
    """

    normalize: bool = True
    minmax: bool = False
    epochs: Count = 100
    batch_size: BatchSize = 128
    learning_rate: Positive = 1e-3
    weight_decay: NotNegative = 0.0
    optimizer: OptimizerName = "adam"
    clip: Clip = None
    validation_fraction: Share = 0.1
    patience: Count | None = 10
    scoring: Scoring = "P@1"
    device: Annotated[str, str] = "cpu"

    _saved_state = (
        *BaselineClassifier._saved_state,
        "weights_",
        "feature_low_",
        "feature_range_",
        "n_epochs_",
        "best_epoch_",
        "stopped_",
    )

    patience_after = 0
    """Steps before patience begins to count."""

    # What a subclass provides

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        """The network with fresh weights.

        It depends on nothing but the parameters and the two sizes, since a saved model is rebuilt by this; what is
        learned from data must be a parameter or a buffer. It is also called under torch's "meta" device to count
        the parameters, so it only creates tensors and never reads one.
        """
        raise NotImplementedError

    def _objective(self, network: Any, train: DenseBatches) -> Objective:
        """The loss of a batch, x of shape (batch, n_features) and y of shape (batch, n_labels), both float32.

        Called once before training: the place for statistics of the training labels (``train.Y``).
        """
        raise NotImplementedError

    def _logits(self, network: Any, x: Tensor) -> Tensor:
        """Scores of a batch of scaled features, of shape (batch, n_labels)."""
        return network(x)

    def _parameter_groups(self, network: Any) -> list[dict[str, Any]]:
        """Parameters for the optimizer, in groups that may have their own ``lr`` and ``weight_decay``."""
        return [{"params": [p for p in network.parameters() if p.requires_grad]}]

    def _schedule(self, optimizer: Any) -> Any:
        """A learning-rate schedule that is stepped once an epoch, or None."""
        return None

    def _scorer(self, network: Any, train: DenseBatches) -> Callable[[Tensor], Tensor]:
        """What scores a batch of validation rows, -inf for what cannot be chosen; made anew for every validation."""
        return lambda x: self._logits(network, x).float()

    def _fit_network(self, train: DenseBatches, held: DenseBatches | None) -> nn.Module:
        """Build and train. Seeds are set when this is called."""
        network = self._new_network(train)
        self._record(self._train(network, self._objective(network, train), train, held))
        return network

    # Fitting

    @single_threaded_torch
    def _fit_rows(self, X: Any, Y: sparse.csr_array) -> None:
        where = self._where
        self.__dict__.pop("_cached", None)
        self._require_weights_fit(X.shape[1], Y.shape[1])
        rng = check_random_state(self.random_state)
        self._fit_scaling(X)
        order = rng.permutation(X.shape[0])
        n_held = int(self.validation_fraction * X.shape[0])
        train = self._rows(X[order[n_held:]], Y[order[n_held:]], where).kept()
        held = self._rows(X[order[:n_held]], Y[order[:n_held]], where).kept() if n_held else None
        with seeded(int(rng.randint(2**31 - 1)), where), working_on(where):
            network = self._fit_network(train, held)
        self.weights_ = {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}
        self._cached = (network.eval(), where)
        if self._wants_calibration:
            self.calibration_ = self._calibrated(network, train, held if held is not None else train)

    def _train(
        self,
        network: nn.Module,
        objective: Objective,
        train: DenseBatches,
        held: DenseBatches | None,
        *,
        score: Callable[[Tensor], Tensor] | None = None,
        stage: str = "training",
    ) -> TrainingResult:
        """Train ``network`` in place; ``score`` replaces ``_scorer`` if only a part of the network is trained."""
        optimizer = new_optimizer(
            self.optimizer, self._parameter_groups(network), self.learning_rate, self.weight_decay, train.where
        )
        loop = TrainingLoop(
            epochs=self.epochs,
            patience=self.patience,
            patience_after=self.patience_after,
            learning_rate=self.learning_rate,
            clip=_clipping(self.clip),
            progress=self._on_progress,
            stage=stage,
        )
        shuffle = np.random.default_rng(int(torch.randint(2**31 - 1, ())))
        return loop.run(
            network,
            objective,
            lambda: train.shuffled(self._rows_a_step(len(train)), shuffle),
            optimizer,
            self._schedule(optimizer),
            None if held is None else (lambda: self._quality(score or self._scorer(network, train), held)),
        )

    def _rows_a_step(self, n_rows: int) -> int:
        """Rows of a training step if there are ``n_rows`` to train on."""
        return self.batch_size

    def _quality(self, score: Callable[[Tensor], Tensor], held: DenseBatches) -> tuple[float, ...]:
        measure = SCORERS[self.scoring]
        parts = [score_in_blocks(measure, score(x), y) for x, y in held.in_order()]
        return tuple(torch.cat(parts).mean(dim=0).tolist())

    def _record(self, result: TrainingResult) -> None:
        self.n_epochs_, self.best_epoch_, self.stopped_ = result.n_epochs, result.best_epoch, result.stopped

    def _calibrated(self, network: nn.Module, train: DenseBatches, held: DenseBatches) -> ScoreCalibration:
        held = held.head(CALIBRATION_ROWS)
        with torch.no_grad():
            score = self._scorer(network.eval(), train)
            n_best = min(LABELS_PER_ROW, held.Y.shape[1])
            best = [top_k(score(x).cpu().numpy(), n_best) for x in held.features()]
        parts = [self._as_sparse(labels, scores) for labels, scores in best]
        return ScoreCalibration().fit(sparse.vstack(parts, format="csr"), held.Y)

    # Scoring

    @single_threaded_torch
    def _score_rows(self, X: Any) -> Any:
        network = self._network()
        with torch.no_grad():
            rows = self._rows(X, None, self._where)
            return np.concatenate([self._logits(network, x).float().cpu().numpy() for x in rows.features()])

    def predict_proba(self, X: Any, top: int | None = None, *, dense: Any = None) -> Any:
        """Calibrated probability of every label, dense of shape (n_samples, n_labels), or CSR of the ``top`` best.

        With one class per row the softmax of the scores. ``dense`` as in :meth:`predict_topk`.
        """
        if top is None and getattr(self, "target_kind_", None) == "classes":
            return softmax(self._dense_scores(X, dense).astype(np.float64), axis=1)
        return super().predict_proba(X, top, dense=dense)

    # The network and its weights

    @property
    def _where(self) -> torch.device:
        return find_device(self.device) or torch.device("cpu")

    def _new_network(self, train: DenseBatches) -> nn.Module:
        return self._build(train.X.shape[1], train.Y.shape[1]).to(train.where)

    def _network(self) -> Any:
        """The trained network on the wanted device, rebuilt from ``weights_`` if there is none yet."""
        check_is_fitted(self, "weights_")
        where = self._where
        cached = self.__dict__.get("_cached")
        if cached is None or cached[1] != where:
            with seeded(0, where):  # fresh weights are overwritten, but drawing them must not disturb the caller
                network = self._build(self.n_features_in_, len(self.label_names_))
            network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self.weights_.items()})
            cached = (network.to(where).eval(), where)
            self._cached = cached
        return cached[0]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_cached"}

    def _require_weights_fit(self, n_features: int, n_labels: int) -> None:
        """Refuse before a network is made that cannot be trained here."""
        with torch.device("meta"):
            n_weights = sum(p.numel() for p in self._build(n_features, n_labels).parameters())
        require_memory(
            5 * 4 * n_weights,  # weights, gradient, two moments of the optimizer, the best epoch
            f"Training the {n_weights} weights of {type(self).__name__} for {n_labels} labels",
            "Use SLDLClassifier, of which nothing that is trained grows with the number of labels.",
            self.memory_limit,
        )

    # Rows and their scaling

    def _rows(self, X: Any, Y: sparse.csr_array | None, where: torch.device) -> DenseBatches:
        return DenseBatches(X, Y, self._scale, where)

    def _fit_scaling(self, X: Any) -> None:
        self.feature_low_ = self.feature_range_ = None
        if self.minmax:
            low, high = (_dense_row(extreme) for extreme in (X.min(axis=0), X.max(axis=0)))
            self.feature_low_ = low
            self.feature_range_ = np.where(high > low, high - low, 1.0).astype(np.float32)

    def _scale(self, x: Tensor) -> Tensor:
        """Scaled copy of a dense batch; the same sum for sparse and dense input, so that both give the same scores."""
        if self.feature_low_ is not None:
            low, extent = (torch.tensor(a, device=x.device) for a in (self.feature_low_, self.feature_range_))
            x = (x - low) / extent
        if self.normalize:
            norms = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float64)
            x = (x / norms.clamp_min(1e-30)).float()
        return x


def decay_weights_only(network: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups in which biases are not decayed."""
    named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    biases = [p for name, p in named if name.rpartition(".")[2] == "bias"]
    others = [p for name, p in named if name.rpartition(".")[2] != "bias"]
    return [{"params": others, "weight_decay": weight_decay}, {"params": biases, "weight_decay": 0.0}]


@contextmanager
def seeded(seed: int, where: torch.device) -> Iterator[None]:
    """Seed torch, and give the program its random state back afterwards."""
    devices = [torch.cuda.current_device()] if where.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


@contextmanager
def working_on(where: torch.device) -> Iterator[None]:
    """Settings for training on a device; the program gets its own back afterwards.

    On a GPU: products of matrices in TF32, and a stream of its own, without which steps cannot be recorded.
    """
    if where.type != "cuda":
        yield
        return
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    stream, outer = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(outer)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        outer.wait_stream(stream)
        torch.set_float32_matmul_precision(precision)


def new_optimizer(
    name: OptimizerName, groups: list[dict[str, Any]], learning_rate: float, weight_decay: float, where: torch.device
) -> Any:
    """The optimizer of that name over groups of parameters."""
    common: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay, "fused": True}
    if name == "sgd":
        return torch.optim.SGD(groups, **common, momentum=0.9)
    common["capturable"] = where.type == "cuda"  # the count of steps must lie on the GPU where steps are recorded
    if name == "adam":
        return torch.optim.Adam(groups, **common)
    return torch.optim.AdamW(groups, **common, amsgrad=name == "amsgrad")


def _clipping(clip: Clip) -> Clipping | None:
    if clip is None:
        return None
    return AdaptiveClipping() if clip == "adaptive" else partial(nn.utils.clip_grad_norm_, max_norm=float(clip))


def _dense_row(extreme: Any) -> NDArray[np.float32]:
    dense = extreme.toarray() if sparse.issparse(extreme) else extreme
    return np.asarray(dense, dtype=np.float32).ravel()
