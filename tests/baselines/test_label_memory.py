"""Memory of the methods with label-specific features does not follow the number of labels."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("resource")

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


@pytest.mark.parametrize(("method", "n_labels", "width"), [("PACA", 100, 2400), ("DELA", 400, 512), ("CLIF", 300, 512)])
def test_doubling_the_labels_does_not_raise_the_peak(method, n_labels, width):
    script = SCRIPT.format(module=method.lower(), method=method, n_labels=n_labels)
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    grown = int(answer.stdout) * (1 if sys.platform == "darwin" else 1024)
    one_intermediate = 4 * 48 * n_labels * width  # of the added labels, had they been computed at once
    assert grown < one_intermediate / 2
