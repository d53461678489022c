"""The training machinery of the neural baselines: batches, scaling, seeds, stopping, failing, devices."""

import copy
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import MinMaxScaler, normalize

torch = pytest.importorskip("torch")

from pysldl.baselines.reweighted import FocalLossClassifier  # noqa: E402
from pysldl.baselines.torch_training import dense_batches, loop  # noqa: E402
from pysldl.baselines.torch_training.classifier import (  # noqa: E402
    TorchClassifier,
    _clipping,
    decay_weights_only,
    seeded,
)
from pysldl.baselines.torch_training.dense_batches import DenseBatches, batch_bounds  # noqa: E402
from pysldl.baselines.torch_training.loop import AdaptiveClipping, TrainingLoop, TrainingStep  # noqa: E402
from pysldl.baselines.torch_training.scoring import SCORERS, score_in_blocks  # noqa: E402
from pysldl.exceptions import (  # noqa: E402
    DataError,
    MemoryLimitError,
    SLDLError,
    SLDLWarning,
)

CPU = torch.device("cpu")


class Linear(TorchClassifier):
    """The smallest network: one layer, plain cross-entropy."""

    def _build(self, n_features, n_labels):
        return torch.nn.Sequential(torch.nn.Linear(n_features, n_labels))

    def _objective(self, network, train):
        return lambda x, y: torch.nn.functional.binary_cross_entropy_with_logits(network(x), y)


@pytest.fixture(scope="module")
def toy():
    """Six labels, each with its own feature; some rows carry two."""
    rng = np.random.default_rng(0)
    Y = np.eye(6)[rng.integers(6, size=150)]
    Y[::3, 0] = 1
    X = Y @ rng.normal(size=(6, 12)) + 0.05 * rng.normal(size=(150, 12))
    X[np.abs(X) < 0.3] = 0
    return X.astype(np.float32), sparse.csr_array(Y)


def quick(**settings):
    return Linear(**{"epochs": 4, "batch_size": 16, "learning_rate": 0.05, "random_state": 0, **settings})


# Batches


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 8, 9, 12, 13])
def test_batches_cover_all_rows_and_none_has_a_single_row(n_rows):
    sizes = np.diff(batch_bounds(n_rows, 4))
    assert sizes.sum() == n_rows
    assert n_rows == 1 or sizes.min() >= 2
    assert sizes.max() <= 5


def test_an_epoch_shows_every_row_once():
    X, Y = np.arange(13.0)[:, None], sparse.csr_array(np.arange(13.0)[:, None] % 2)
    batches = list(DenseBatches(X, Y, lambda x: x, CPU).shuffled(4, np.random.default_rng(0)))
    seen = np.concatenate([x.numpy().ravel() for x, _ in batches])
    assert sorted(seen) == list(range(13)) and list(seen) != list(range(13))
    for x, y in batches:
        np.testing.assert_array_equal(x.numpy() % 2, y.numpy())


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_rows_kept_dense_are_the_rows_that_are_made_dense_anew(toy, container, monkeypatch):
    X, Y = toy
    kept = DenseBatches(container(X), Y, lambda x: 2 * x, CPU).kept()
    labels_anew = DenseBatches(container(X), Y, lambda x: 2 * x, CPU)
    monkeypatch.setattr(dense_batches, "LABELS_ON_CPU", 0)
    labels_anew.kept()
    monkeypatch.setattr(dense_batches, "FEATURES_ON_CPU", 0)
    anew = DenseBatches(container(X), Y, lambda x: 2 * x, CPU).kept()
    dense = [[part is not None for part in (r._dense_X, r._dense_Y)] for r in (kept, labels_anew, anew)]
    assert dense == [[True, True], [True, False], [False, False]]
    monkeypatch.setattr(dense_batches, "BLOCK_ROWS", 40)
    for read in (
        lambda r: r.in_order(),
        lambda r: r.shuffled(16, np.random.default_rng(0)),
        lambda r: [(x,) for x in r.features()],
        lambda r: [(r.labels(torch.tensor([3, 149, 3])),)],
    ):
        batches = list(read(kept))
        assert sum(len(b[0]) for b in batches) in (3, len(X))
        for others in (labels_anew, anew):
            for one, other in zip(batches, read(others), strict=True):
                for a, b in zip(one, other, strict=True):
                    assert torch.equal(a, b)


def test_batch_norm_survives_one_row_beyond_the_last_batch(toy):
    X, Y = toy
    model = FocalLossClassifier(backbone="mlp", epochs=1, batch_size=64, validation_fraction=0, random_state=0)
    assert np.isfinite(model.fit(X[:65], Y[:65]).decision_function(X)).all()


# Scaling

SCALINGS = [
    {"normalize": normalize_rows, "minmax": minmax}
    for normalize_rows, minmax in ((True, False), (False, True), (False, False), (True, True))
]


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_scaling_is_that_of_scikit_learn(toy, container):
    X, Y = toy
    X = np.column_stack([X, np.full(len(X), 7.0), np.zeros(len(X))]).astype(np.float32)
    ranged = MinMaxScaler().fit_transform(X)
    expected = [normalize(X), ranged, X, normalize(ranged)]
    for scaling, scaled in zip(SCALINGS, expected, strict=True):
        model = quick(**scaling, epochs=1).fit(container(X), Y)
        batch, *_ = model._rows(container(X), None, CPU).features()
        np.testing.assert_allclose(batch.numpy(), scaled, atol=1e-6)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_sparse_and_dense_features_give_the_same_scores_bit_for_bit(toy, scaling):
    X, Y = toy
    dense = quick(**scaling).fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(dense, quick(**scaling).fit(sparse.csr_array(X), Y).decision_function(X))


@pytest.mark.parametrize("scaling", SCALINGS)
def test_read_only_arrays_as_of_a_mapped_file(toy, scaling):
    X, Y = toy
    frozen = X.copy()
    frozen.flags.writeable = False
    model = quick(**scaling, epochs=1).fit(frozen, Y)
    expected = model.decision_function(X)
    for array in (model.feature_low_, model.feature_range_, *model.weights_.values()):
        if array is not None:
            array.flags.writeable = False
    # A copy has no network yet and makes it from the read-only weights.
    np.testing.assert_array_equal(copy.copy(model).decision_function(frozen), expected)


def test_an_empty_row_is_scaled_to_zero_not_nan(toy):
    X, Y = toy
    assert np.isfinite(quick().fit(X, Y).decision_function(np.zeros((1, X.shape[1])))).all()


# Seeds and state


def test_same_seed_same_scores_and_the_program_keeps_its_random_state(toy):
    X, Y = toy
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = quick().fit(X, Y).decision_function(X)
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(first, quick().fit(X, Y).decision_function(X))
    assert not np.array_equal(first, quick(random_state=1).fit(X, Y).decision_function(X))


def test_the_network_is_rebuilt_from_plain_arrays(toy):
    X, Y = toy
    model = quick().fit(X, Y)
    scores = model.decision_function(X)
    twin = copy.deepcopy(model)
    assert "_cached" not in vars(twin)
    np.testing.assert_array_equal(twin.decision_function(X), scores)
    assert all(type(array) is np.ndarray for array in model.weights_.values())


def test_refitting_forgets_the_old_network(toy):
    X, Y = toy
    model = quick().fit(X, Y)
    model.decision_function(X)
    model.fit(-X, Y)
    np.testing.assert_array_equal(model.decision_function(X), quick().fit(-X, Y).decision_function(X))


# Validation and stopping


class Recorded(torch.nn.Module):
    """One number that counts the epochs."""

    def __init__(self):
        super().__init__()
        self.count = torch.nn.Parameter(torch.zeros(()))


def counting_run(qualities, *, patience=None, patience_after=0, epochs=6, progress=None):
    """A run whose weight is the epoch and whose validation quality is given."""
    network = Recorded()
    remaining = iter(qualities)
    loop = TrainingLoop(
        epochs=epochs, patience=patience, patience_after=patience_after, learning_rate=1.0, progress=progress
    )
    batch = (torch.zeros(2, 1), torch.zeros(2, 1))
    outcome = loop.run(
        network,
        lambda x, y: -network.count,
        lambda: iter([batch]),
        torch.optim.SGD(network.parameters(), lr=1.0),
        judge=None if qualities is None else lambda: (next(remaining),),
    )
    return network.count.item(), outcome


def test_the_best_epoch_is_kept():
    weight, outcome = counting_run([0.1, 0.5, 0.3, 0.5, 0.2, 0.4])
    assert (weight, outcome.best_epoch, outcome.n_epochs, outcome.stopped) == (2.0, 2, 6, "epochs")


def test_patience_counts_epochs_since_the_best():
    weight, outcome = counting_run([0.1, 0.5, 0.3, 0.4, 0.9, 0.9], patience=2)
    assert (weight, outcome.best_epoch, outcome.n_epochs, outcome.stopped) == (2.0, 2, 4, "patience")


def test_patience_does_not_count_before_so_many_steps():
    weight, outcome = counting_run([0.5, 0.4, 0.4, 0.4, 0.4, 0.4], patience=2, patience_after=3)  # a step an epoch
    assert (weight, outcome.n_epochs) == (1.0, 4)
    weight, outcome = counting_run([0.5, 0.4, 0.4, 0.6, 0.4, 0.4], patience=2, patience_after=3)
    assert (weight, outcome.n_epochs) == (4.0, 6)


def test_without_validation_the_last_epoch_is_kept():
    network = Recorded()
    loop = TrainingLoop(epochs=3, patience=1, learning_rate=1.0)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    outcome = loop.run(network, lambda x, y: -network.count, lambda: iter([(torch.zeros(2, 1),) * 2]), optimizer)
    assert (network.count.item(), outcome.best_epoch) == (3.0, 3)


def test_ctrl_c_leaves_the_best_model_so_far(toy):
    X, Y = toy

    def interrupt(report):
        if report.step == 3:
            raise KeyboardInterrupt

    model = quick(epochs=9, progress=interrupt)
    with pytest.warns(SLDLWarning, match="interrupted after 3 of 9 epochs"):
        model.fit(X, Y)
    assert model.stopped_ == "interrupt"
    two_epochs = quick(epochs=2).fit(X, Y)
    for name, array in two_epochs.weights_.items():
        np.testing.assert_array_equal(model.weights_[name], array)
    assert model.predict(X).shape == Y.shape


def test_ctrl_c_in_the_first_epoch_leaves_a_usable_model(toy):
    X, Y = toy

    class Interrupted(Linear):
        def _objective(self, network, train):
            raise_now = iter([False, True])

            def loss(x, y):
                if next(raise_now):
                    raise KeyboardInterrupt
                return network(x).square().mean()

            return loss

    with pytest.warns(SLDLWarning, match="after 0 of"):
        model = Interrupted(epochs=5, batch_size=16, random_state=0).fit(X, Y)
    assert model.best_epoch_ == 0 and np.isfinite(model.decision_function(X)).all()


def test_progress_reports_every_epoch_with_its_loss(toy):
    reports = []
    quick(progress=reports.append, patience=None).fit(*toy)
    assert [(r.stage, r.step, r.total) for r in reports] == [("training", i, 4) for i in (1, 2, 3, 4)]
    assert reports[-1].loss < reports[0].loss


def test_a_loss_that_turns_nan_names_epoch_rate_and_cure(toy):
    X, Y = toy

    class Diverging(Linear):
        def _objective(self, network, train):
            steps = iter(range(10**6))
            per_epoch = len(batch_bounds(len(train), self.batch_size)) - 1
            return lambda x, y: network(x).mean() * (math.nan if next(steps) >= per_epoch else 1.0)

    with pytest.raises(SLDLError, match=r"nan in epoch 2 at learning_rate=0\.05.*ten times smaller"):
        # On a card the step would be recorded once, and this one counts in Python.
        Diverging(epochs=5, batch_size=16, learning_rate=0.05, device="cpu", random_state=0).fit(X, Y)


def test_calibration_uses_held_out_rows_and_training_rows_where_there_are_none(toy):
    X, Y = toy
    for fraction in (0.1, 0.0):
        model = quick(epochs=30, validation_fraction=fraction).fit(X, Y)
        predicted = model.predict(X)
        assert (predicted.toarray() == Y.toarray()).mean() > 0.9
        probabilities = model.predict_proba(X)
        assert probabilities.min() >= 0 and probabilities.max() <= 1


def test_one_class_per_row_gives_probabilities_that_agree_with_predict(toy):
    X, Y = toy
    y = np.asarray(Y.argmax(axis=1)).ravel()
    model = quick(epochs=40).fit(X, y)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))


# Selection


def test_selection_measures_agree_with_plain_loops():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(7, 9))
    Y = (rng.random((7, 9)) < 0.3).astype(float)
    Y[2] = 0
    given = torch.from_numpy(scores), torch.from_numpy(Y)
    for i in range(7):
        order = sorted(range(9), key=lambda k, row=scores[i]: -row[k])
        hits = [Y[i, k] for k in order]
        found, precisions = 0, []
        for rank, hit in enumerate(hits, start=1):
            if hit:
                found += 1
                precisions.append(found / rank)
        expected = sum(precisions) / max(len(precisions), 1)
        assert SCORERS["AP"](*given)[i, 0].item() == pytest.approx(expected)
        gain = sum(hit / math.log2(rank + 1) for rank, hit in enumerate(hits[:5], start=1))
        np.testing.assert_allclose(SCORERS["P@1"](*given)[i], [hits[0], gain])
        right = sum((scores[i, k] > 0) == (Y[i, k] > 0) for k in range(9)) / 9
        assert SCORERS["hamming"](*given)[i, 0].item() == pytest.approx(right)


@pytest.mark.parametrize("scoring", SCORERS)
@pytest.mark.parametrize("block", [1, 30, 1000])
def test_measures_of_some_rows_at_a_time_are_those_of_all(scoring, block, monkeypatch):
    scores, y = torch.randn(7, 9), (torch.rand(7, 9) < 0.3).float()
    sizes = []

    def measure(scores, y):
        sizes.append(len(y))
        return SCORERS[scoring](scores, y)

    monkeypatch.setattr("pysldl.baselines.torch_training.scoring.BLOCK_ON_CPU", block)
    torch.testing.assert_close(score_in_blocks(measure, scores, y), SCORERS[scoring](scores, y))
    assert max(sizes) <= max(1, block // 9)


def test_first_hit_does_not_choose_what_cannot_be_chosen():
    never = -math.inf
    scores = torch.tensor([[never, 2.0, never], [never, never, never]])
    y = torch.tensor([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(SCORERS["P@1"](scores, y), [[1.0, 1.0], [0.0, 0.0]])


# Steps


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("optimizer", ["amsgrad", "sgd"])
def test_recorded_steps_are_the_steps(toy, optimizer, monkeypatch):
    X, Y = toy
    settings = {"device": "cuda", "optimizer": optimizer, "clip": "adaptive", "epochs": 6, "patience": None}
    recorded = quick(**settings).fit(X, Y).decision_function(X)
    monkeypatch.setattr(loop, "new_step", TrainingStep)
    np.testing.assert_allclose(quick(**settings).fit(X, Y).decision_function(X), recorded, rtol=1e-3, atol=1e-3)


# Gradients


def _gradient(values):
    parameter = torch.nn.Parameter(torch.zeros(len(values)))
    parameter.grad = torch.tensor(values, dtype=torch.float32)
    return parameter


def test_fixed_clipping_scales_to_the_bound():
    parameter = _gradient([3.0, 4.0])
    _clipping(1.0)([parameter])
    np.testing.assert_allclose(parameter.grad.numpy(), [0.6, 0.8], rtol=1e-5)


def test_adaptive_clipping_by_hand():
    clip = AdaptiveClipping()
    for norm in (0.1, 0.2, 0.1, 0.1, 50.0):  # the memory still holds infinity, so that none is clipped
        parameter = _gradient([norm])
        clip([parameter])
        assert parameter.grad.item() == pytest.approx(norm)
    assert clip.norms.tolist() == pytest.approx([0.1, 0.2, 0.1, 0.1, 1.0])  # 50 enters as 1
    parameter = _gradient([50.0])
    clip([parameter])
    assert parameter.grad.item() == pytest.approx(5.0, rel=1e-4)
    clip.norms.fill_(0.1)
    parameter = _gradient([0.7])
    clip([parameter])
    assert parameter.grad.item() == pytest.approx(0.5, rel=1e-4)
    assert clip.norms[-1].item() == pytest.approx(0.2)  # at most twice the largest


def test_biases_are_not_decayed():
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    decayed, free = decay_weights_only(network, 0.5)
    assert [len(decayed["params"]), len(free["params"])] == [2, 2]
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.5, 0.0)
    assert all(any(p is b for p in free["params"]) for b in (network[0].bias, network[1].bias))


# Bad input


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 1),
        ("epochs", 0),
        ("patience", 0),
        ("learning_rate", 0.0),
        ("validation_fraction", 1.0),
        ("minmax", "log"),
        ("optimizer", "lion"),
        ("clip", -1.0),
        ("calibrate", "no"),
        ("progress", 3),
        ("scoring", "x"),
    ],
)
def test_bad_settings_are_named(toy, name, value):
    with pytest.raises(ValueError, match=name):
        quick(**{name: value}).fit(*toy)


def test_devices_are_those_of_every_estimator(toy, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DataError, match="device='cuda' was asked for, but torch finds no such GPU"):
        quick(device="cuda").fit(*toy)
    with pytest.raises(DataError, match="device must be 'cpu', 'cuda'"):
        quick(device="tpu").fit(*toy)


def test_without_calibration_there_are_rankings(toy):
    X, Y = toy
    model = quick(calibrate=False).fit(X, Y)
    np.testing.assert_array_equal(model.decision_function(X), quick().fit(X, Y).decision_function(X))
    with pytest.raises(DataError, match="calibrate=True"):
        model.predict(X)


def test_weights_beyond_the_memory_limit_are_refused_before_they_are_made(toy):
    X, Y = toy
    with pytest.raises(MemoryLimitError, match="78 weights"):
        quick(memory_limit=1000).fit(X, Y)


def test_fewer_rows_than_a_batch(toy):
    X, Y = toy
    with pytest.warns(SLDLWarning, match="never be predicted"):
        model = quick(batch_size=500).fit(X[:3], sparse.csr_array(Y[:3]))
    assert model.predict_topk(X, 2)[0].shape == (len(X), 2)


def test_without_torch_importing_says_what_to_install():
    program = """
import sys

class NoTorch:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, NoTorch)
import pysldl.baselines
assert "FLEM" in dir(pysldl.baselines)
try:
    pysldl.baselines.FLEM
except ImportError as error:
    print(error)
assert "torch" not in sys.modules
"""
    said = subprocess.run([sys.executable, "-c", program], check=True, timeout=120, capture_output=True, text=True)
    assert 'FLEM needs PyTorch, which is not installed: pip install "pysldl[deep]"' in said.stdout


def test_seeded_is_repeatable():
    drawn = []
    for _ in range(2):
        with seeded(3, CPU):
            drawn.append(torch.rand(2))
    assert torch.equal(*drawn)
