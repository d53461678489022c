"""Memory of the methods with label-specific features follows the number of labels only where their weights do."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("resource")

from pysldl.baselines import BASELINES  # noqa: E402
from pysldl.baselines.torch_training.classifier import new_optimizer  # noqa: E402
from pysldl.baselines.torch_training.dense_batches import DenseBatches  # noqa: E402
from pysldl.baselines.torch_training.loop import new_step  # noqa: E402

CPU = torch.device("cpu")

SCRIPT = """
import resource
import numpy as np
from scipy import sparse
from pysldl.baselines.{module} import {method} as Method

def peak(n_labels):
    rng = np.random.default_rng(0)
    Y = rng.random((48, n_labels)) < 0.1
    Y[rng.integers(0, 48, n_labels), np.arange(n_labels)] = True
    model = Method(label_chunk=4, epochs=1, batch_size=48, validation_fraction=0.0, device="cpu", random_state=0)
    model.fit(rng.random((48, 20)), sparse.csr_array(Y))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

peak({n_labels} // 2)  # what torch itself allocates once
small = peak({n_labels})
print(peak(2 * {n_labels}) - small)
"""


@pytest.mark.parametrize(("method", "n_labels", "width"), [("PACA", 60, 2400), ("DELA", 240, 512), ("CLIF", 240, 512)])
def test_doubling_the_labels_does_not_raise_the_peak(method, n_labels, width):
    script = SCRIPT.format(module=method.lower(), method=method, n_labels=n_labels)
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    grown = int(answer.stdout) * (1 if sys.platform == "darwin" else 1024)
    one_intermediate = 4 * 48 * n_labels * width  # of the added labels, had they been computed at once
    assert grown < one_intermediate / 2


def held_by_a_step(method, n_labels):
    """Bytes that torch holds at the worst moment of a step beyond those it held before, and bytes of the weights."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((8, 20), dtype=np.float32), (rng.random((8, n_labels)) < 0.1).astype(np.float32)
    model = BASELINES[method](device="cpu", label_chunk=40)
    network = model._build(20, n_labels)
    objective = model._objective(network, DenseBatches(X, sparse.csr_array(Y), lambda x: x, CPU))
    step = new_step(objective, new_optimizer("adam", model._parameter_groups(network), 1e-3, 0.0, CPU), None)
    batch = torch.from_numpy(X), torch.from_numpy(Y)
    step(*batch)  # makes the moments of the optimizer
    step.optimizer.zero_grad(set_to_none=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(*batch)
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])
    return held.max(), sum(4 * p.numel() for p in network.parameters())


# The label encoder of CLIF works on all labels at once: some twenty results of 256 numbers for each of them.
@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # of some versions of torch
@pytest.mark.parametrize(("method", "encoded"), [("PACA", 0), ("DELA", 0), ("CLIF", 20 * 256)])
def test_a_step_holds_one_gradient_of_added_labels_and_no_more(method, encoded, monkeypatch):
    monkeypatch.setattr(
        "pysldl.baselines.torch_training.label_chunks.n_threads", lambda: 1
    )  # the profiler sees one thread
    n_labels = 300
    (small, fewer), (large, more) = (held_by_a_step(method, n) for n in (n_labels, 2 * n_labels))
    assert large - small < 1.25 * (more - fewer) + 4 * encoded * n_labels
