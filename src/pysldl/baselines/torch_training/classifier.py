"""What the neural baselines share: rows in dense batches, scaling, validation, devices, weights as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pysldl._utils.memory import require_memory
from pysldl._utils.progress import ProgressCallback
from pysldl.backend.threads import single_threaded_torch
from pysldl.backend.topk import top_k
from pysldl.baselines.torch_training.dense_batches import DenseBatches
from pysldl.baselines.torch_training.loop import AdaptiveClipping, FixedClipping, Objective, Outcome, TrainingLoop
from pysldl.baselines.torch_training.validation import SELECTIONS, in_row_blocks
from pysldl.estimator.base import BaseLabelClassifier
from pysldl.estimator.calibration import LABELS_PER_ROW, ScoreCalibration
from pysldl.exceptions import DataError, MissingDependencyError

if TYPE_CHECKING:
    from torch import Tensor, device, nn

__all__ = ["TorchClassifier", "decay_weights_only", "label_slices"]

CALIBRATION_ROWS = 5000

OptimizerName = Literal["adam", "adamw", "amsgrad", "sgd"]
Scaling = Literal["l2", "minmax", "none"]
Clip = float | Literal["adaptive"] | None


class TorchClassifier(BaseLabelClassifier):
    """Base of the neural baselines.

    A subclass says what its network is (``_build``) and what it minimizes (``_objective``); this class feeds it,
    trains it, chooses the best epoch on held-out rows, and scores with it. Rows reach the network in dense batches,
    so sparse features stay sparse in memory.

    Parameters
    ----------
    epochs : int
        Cap on the passes over the training rows.
    batch_size : int
        Rows in a step; at least 2. A last batch of one row joins the batch before it, since batch norm needs two.
    learning_rate, weight_decay : float
    optimizer : {"adam", "adamw", "amsgrad", "sgd"}
        ``"amsgrad"`` is AdamW in its AMSGrad form; ``"sgd"`` has momentum 0.9.
    clip : float, "adaptive" or None
        Largest norm of a gradient; see :class:`~pysldl.baselines.torch_training.loop.AdaptiveClipping`.
    scaling : {"l2", "minmax", "none"}
        Rows to length 1, or columns to [0, 1] with the ranges of the training rows.
    validation_fraction : float
        Share of the training rows held out to choose the epoch that is kept and to calibrate ``predict``. With 0,
        or fewer than ten rows, the last epoch is kept and the training rows themselves calibrate, which makes
        ``predict`` and ``predict_proba`` overconfident; rankings are not affected.
    patience : int or None
        Stop when the held-out quality has not risen for so many epochs.
    device : {"auto", "cpu", "cuda"}
    vectorizer, memory_limit, progress, random_state
        As for :class:`~pysldl.SLDLClassifier`. On a CPU the same seed gives the same model, bit for bit, on one
        machine, whatever the number of threads: torch computes on one.

    Attributes
    ----------
    weights_ : dict of str to ndarray
        Everything the network learned.
    n_epochs_, best_epoch_ : int
        Epochs run, and the one whose weights were kept.
    stopped_ : {"epochs", "patience", "interrupt"}
        Why training ended. Ctrl-C ends training, not the program: the best model so far stays usable.
    """

    _saved_state = (
        *BaseLabelClassifier._saved_state,
        "weights_",
        "feature_low_",
        "feature_range_",
        "n_epochs_",
        "best_epoch_",
        "stopped_",
    )

    reconstruction: bool = False
    """Whether the method was rebuilt from its abstract, which tables have to say."""

    patience_after: int = 0
    """Steps before patience begins to count."""

    _optional: tuple[str, ...] = ("patience",)
    """Numbers that may be None."""

    selection: str = "P@1"
    """What decides which epoch is kept: a name in ``pysldl.baselines.torch_training.validation``."""

    def __init__(
        self,
        *,
        epochs: int = 100,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        optimizer: OptimizerName = "adam",
        clip: Clip = None,
        scaling: Scaling = "l2",
        validation_fraction: float = 0.1,
        patience: int | None = 10,
        device: str = "auto",
        vectorizer: Any = None,
        memory_limit: int | str | None = None,
        progress: ProgressCallback | bool | None = None,
        random_state: Any = None,
    ) -> None:
        require_torch(type(self).__name__)
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.clip = clip
        self.scaling = scaling
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.device = device
        self.vectorizer = vectorizer
        self.memory_limit = memory_limit
        self.progress = progress
        self.random_state = random_state

    # What a subclass provides

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        """The network with fresh weights.

        It depends on nothing but the parameters and the two sizes, since a saved model is rebuilt by this; what is
        learned from data must be a parameter or a buffer. It is also called under torch's "meta" device to count
        the parameters, so it only creates tensors and never reads one.
        """
        raise NotImplementedError

    def _objective(self, network: nn.Module, train: DenseBatches) -> Objective:
        """The loss of a batch, x of shape (batch, n_features) and y of shape (batch, n_labels), both float32.

        Called once before training: the place for statistics of the training labels (``train.Y``).
        """
        raise NotImplementedError

    def _logits(self, network: nn.Module, x: Tensor) -> Tensor:
        """Scores of a batch of scaled features, of shape (batch, n_labels)."""
        return network(x)

    def _parameter_groups(self, network: nn.Module) -> list[dict[str, Any]]:
        """Parameters for the optimizer, in groups that may have their own ``lr`` and ``weight_decay``."""
        return [{"params": [p for p in network.parameters() if p.requires_grad]}]

    def _schedule(self, optimizer: Any) -> Any:
        """A learning-rate schedule that is stepped once an epoch, or None."""
        return None

    def _scorer(self, network: nn.Module, train: DenseBatches) -> Callable[[Tensor], Tensor]:
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
        self._check_training()
        where = find_device(self.device)
        self._drop_network()
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
        if self.target_kind_ != "classes":
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
    ) -> Outcome:
        """Train ``network`` in place; ``score`` replaces ``_scorer`` where only a part of the network is trained."""
        import torch

        optimizer = _optimizer(
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
        """Rows of a training step where there are ``n_rows`` to train on."""
        return self.batch_size

    def _quality(self, score: Callable[[Tensor], Tensor], held: DenseBatches) -> tuple[float, ...]:
        import torch

        measure = SELECTIONS[self.selection]
        parts = [in_row_blocks(measure, score(x), y) for x, y in held.in_order()]
        return tuple(torch.cat(parts).mean(dim=0).tolist())

    def _record(self, outcome: Outcome) -> None:
        self.n_epochs_ = outcome.n_epochs
        self.best_epoch_ = outcome.best_epoch
        self.stopped_ = outcome.stopped

    def _calibrated(self, network: nn.Module, train: DenseBatches, held: DenseBatches) -> ScoreCalibration:
        import torch

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
        import torch

        network = self._network()
        with torch.no_grad():
            parts = [
                self._logits(network, x).float().cpu().numpy() for x in self._rows(X, None, self._where).features()
            ]
        return np.concatenate(parts)

    def predict_proba(self, X: Any, top: int | None = None) -> Any:
        """Calibrated probability of every label, dense of shape (n_samples, n_labels), or CSR of the ``top`` best.

        With one class per row the softmax of the scores.
        """
        if top is None and getattr(self, "target_kind_", None) == "classes":
            return softmax(self._dense_scores(X).astype(np.float64), axis=1)
        return super().predict_proba(X, top)

    # The network and its weights

    def _new_network(self, train: DenseBatches) -> nn.Module:
        return self._build(train.X.shape[1], train.Y.shape[1]).to(train.where)

    def _network(self) -> nn.Module:
        """The trained network on the wanted device, rebuilt from ``weights_`` where there is none yet."""
        import torch

        check_is_fitted(self, "weights_")
        where = find_device(self.device)
        cached = self.__dict__.get("_cached")
        if cached is None or cached[1] != where:
            with seeded(0, where):  # fresh weights are overwritten, but drawing them must not disturb the caller
                network = self._build(self.n_features_in_, len(self.label_names_))
            network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self.weights_.items()})
            cached = (network.to(where).eval(), where)
            self._cached = cached
        return cached[0]

    @property
    def _where(self) -> device:
        return find_device(self.device)

    def _drop_network(self) -> None:
        self.__dict__.pop("_cached", None)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_cached"}

    # Machinery

    def _rows(self, X: Any, Y: sparse.csr_array | None, where: device) -> DenseBatches:
        return DenseBatches(X, Y, self._scale, where)

    def _fit_scaling(self, X: Any) -> None:
        self.feature_low_ = self.feature_range_ = None
        if self.scaling == "minmax":
            low, high = (_dense_row(extreme) for extreme in (X.min(axis=0), X.max(axis=0)))
            self.feature_low_ = low
            self.feature_range_ = np.where(high > low, high - low, 1.0).astype(np.float32)

    def _scale(self, x: Tensor) -> Tensor:
        """Scaled copy of a dense batch; the same sum for sparse and dense input, so that both give the same scores."""
        import torch

        if self.scaling == "l2":
            norms = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float64)
            return (x / norms.clamp_min(1e-30)).float()
        if self.feature_low_ is not None:
            low, extent = (torch.tensor(a, device=x.device) for a in (self.feature_low_, self.feature_range_))
            return (x - low) / extent
        return x

    def _check_training(self) -> None:
        at_least = {"epochs": 1, "batch_size": 2, "patience": 1}
        for name, least in at_least.items():
            value = getattr(self, name)
            if not (name in self._optional and value is None) and not value >= least:
                raise DataError(f"{name} must be at least {least}, but is {value!r}.")
        if not self.learning_rate > 0:
            raise DataError(f"learning_rate must be positive, but is {self.learning_rate!r}.")
        if not 0 <= self.validation_fraction < 1:
            raise DataError(f"validation_fraction must be at least 0 and below 1, but is {self.validation_fraction!r}.")
        for name, known in (("scaling", ("l2", "minmax", "none")), ("selection", tuple(SELECTIONS))):
            if getattr(self, name) not in known:
                raise DataError(f"{name} must be one of {', '.join(known)}, but is {getattr(self, name)!r}.")

    def _require_weights_fit(self, n_features: int, n_labels: int) -> None:
        """Refuse before a network is made that cannot be trained here."""
        import torch

        with torch.device("meta"):
            n_weights = sum(p.numel() for p in self._build(n_features, n_labels).parameters())
        require_memory(
            5 * 4 * n_weights,  # weights, gradient, two moments of the optimizer, the best epoch
            f"Training the {n_weights} weights of {type(self).__name__} for {n_labels} labels",
            "Use SLDLClassifier, of which nothing that is trained grows with the number of labels.",
            self.memory_limit,
        )


# Pieces for the networks


def label_slices(n_labels: int, chunk: int) -> list[slice]:
    """Slices of at most ``chunk`` labels that cover all of them."""
    return [slice(start, min(start + chunk, n_labels)) for start in range(0, n_labels, chunk)]


def decay_weights_only(network: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups in which biases are not decayed."""
    named = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    biases = [p for name, p in named if name.rpartition(".")[2] == "bias"]
    others = [p for name, p in named if name.rpartition(".")[2] != "bias"]
    return [{"params": others, "weight_decay": weight_decay}, {"params": biases, "weight_decay": 0.0}]


# Devices, seeds, optimizers


def require_torch(what: str) -> None:
    """Raise where torch is not installed."""
    if find_spec("torch") is None:
        raise MissingDependencyError(f'{what} needs PyTorch, which is not installed: pip install "pysldl[deep]".')


def find_device(name: str) -> device:
    """The device of that name; ``"auto"`` is the GPU where there is one."""
    import torch

    if name not in ("auto", "cpu", "cuda"):
        raise DataError(f"device must be 'auto', 'cpu' or 'cuda', but is {name!r}.")
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise DataError("device='cuda' was asked for, but torch finds no GPU here: use device='auto' or 'cpu'.")
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


@contextmanager
def seeded(seed: int, where: device) -> Iterator[None]:
    """Seed torch, and give the program its random state back afterwards."""
    import torch

    devices = [torch.cuda.current_device()] if where.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


@contextmanager
def working_on(where: device) -> Iterator[None]:
    """Settings for training on a device; the program gets its own back afterwards.

    On a GPU: products of matrices in TF32, and a stream of its own, without which steps cannot be recorded.
    """
    import torch

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


def _optimizer(
    name: str, groups: list[dict[str, Any]], learning_rate: float, weight_decay: float, where: device
) -> Any:
    from torch import optim

    common: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay, "fused": True}
    # Their count of steps must lie on the GPU where steps are recorded and replayed.
    adaptive = common | {"capturable": where.type == "cuda"}
    if name == "adam":
        return optim.Adam(groups, **adaptive)
    if name in ("adamw", "amsgrad"):
        return optim.AdamW(groups, **adaptive, amsgrad=name == "amsgrad")
    if name == "sgd":
        return optim.SGD(groups, **common, momentum=0.9)
    raise DataError(f"optimizer must be adam, adamw, amsgrad or sgd, but is {name!r}.")


def _clipping(clip: Any) -> Callable[[list[Any]], None] | None:
    if clip is None:
        return None
    if clip == "adaptive":
        return AdaptiveClipping()
    if isinstance(clip, (int, float)) and clip > 0:
        return FixedClipping(float(clip))
    raise DataError(f"clip must be a positive number, 'adaptive' or None, but is {clip!r}.")


def _dense_row(extreme: Any) -> NDArray[np.float32]:
    dense = extreme.toarray() if sparse.issparse(extreme) else extreme
    return np.asarray(dense, dtype=np.float32).ravel()
