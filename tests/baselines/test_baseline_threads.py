"""The same seed gives the same model bit for bit, whatever the number of threads."""

import threading
import warnings
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from pysldl.backend.dispatch import has_numba
from pysldl.baselines import BASELINES, CONTROLS
from pysldl.exceptions import MissingDependencyError, SLDLWarning
from pysldl.persistence import current_version, save_model

METHODS = {**BASELINES, **CONTROLS}
ONE_EPOCH = {"epochs": 1, "device": "cpu"}
SETTINGS = {
    "SLEEC": {"n_components": 20, "n_clusters": 2},
    "DXML": ONE_EPOCH | {"walk_epochs": 5},
    **dict.fromkeys(("FL", "CB", "DB", "FLEM", "KD-TEA"), ONE_EPOCH),
    # Several slices of labels, and for PACA enough rows a step, for several threads.
    **dict.fromkeys(("DELA", "CLIF"), ONE_EPOCH | {"label_chunk": 7}),
    "PACA": ONE_EPOCH | {"batch_size": 128, "latent_dim": 20, "label_chunk": 7},
    "AdaC2": {"n_rounds": 2},
}


@pytest.fixture(scope="module")
def data():
    """Products large enough for several threads, and equal rows with different labels, so that distances tie."""
    rng = np.random.default_rng(0)
    Y = (rng.random((400, 24)) < 0.1).astype(np.float32)
    X = np.maximum(Y @ rng.normal(size=(24, 150)) + rng.normal(size=(400, 150)), 0).astype(np.float32)
    X[200:250] = X[:50]
    return X, sparse.csr_array(Y)


@contextmanager
def threads(number):
    """So many threads for BLAS, compiled loops and torch, where the machine has them."""
    with ExitStack() as undo:
        if has_numba():
            import numba

            undo.callback(numba.set_num_threads, numba.get_num_threads())
            numba.set_num_threads(min(number, numba.config.NUMBA_NUM_THREADS))
        try:
            import torch
        except ImportError:
            pass
        else:
            undo.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(number)
        undo.enter_context(threadpool_limits(number))
        yield


def fitted(name, X, Y):
    try:
        model = METHODS[name](**SETTINGS.get(name, {}))
    except MissingDependencyError as missing:
        pytest.skip(str(missing))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SLDLWarning)
        return model.fit(X, Y)


def bits(model, X, folder):
    """Every file of the saved model but its manifest, which has the time in it, and what the model predicts."""
    save_model(model, folder)
    files = {path.name: path.read_bytes() for path in current_version(folder).iterdir() if path.name != "manifest.json"}
    labels, scores = model.predict_topk(X, 5)
    probabilities = model.predict_proba(X)
    return files | {"labels": labels.tobytes(), "scores": scores.tobytes(), "probabilities": probabilities.tobytes()}


@pytest.mark.parametrize("name", METHODS)
def test_the_model_does_not_depend_on_the_number_of_threads(name, data, tmp_path):
    X, Y = data
    found = []
    for number in (1, 2):
        with threads(number):
            found.append(bits(fitted(name, X, Y), X[::2], tmp_path / str(number)))
    assert len(found[0]) > 3
    different = [part for part in found[0] if found[0][part] != found[1][part]]
    assert not different


def test_predictions_of_several_threads_at_once_are_those_of_one(data):
    pytest.importorskip("torch")
    X, Y = data
    model = fitted("FLEM", X, Y)
    expected = model.decision_function(X)
    found = {}

    def predict(number):
        found[number] = [model.decision_function(X) for _ in range(5)]

    with threads(2):
        workers = [threading.Thread(target=predict, args=(number,)) for number in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    for scores in found.values():
        for one in scores:
            np.testing.assert_array_equal(one, expected)
