"""The peak of resident memory."""

import numpy as np

from pysldl.experiments.run.memory_usage import peak_mb, reset_peak_memory


def test_the_peak_shows_what_was_allocated_and_freed():
    reset_peak_memory()
    before = peak_mb()
    np.ones(64 << 20, dtype=np.uint8).sum()
    assert before > 10
    assert peak_mb() - before > 40
