"""Time and memory are charged to whom they belong."""

import sys
import time

import numpy as np
import pytest

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding


def test_inner_work_is_charged_once():
    from measuring import Clock

    clock = Clock()
    with clock("train"):
        time.sleep(0.02)
        with clock("map"):
            time.sleep(0.05)
    assert set(clock.spent) == {"train", "train/map"}
    assert 0.05 <= clock.spent["train/map"].seconds < clock.seconds("train")
    assert 0.02 <= clock.spent["train"].seconds < 0.05
    assert clock.seconds("tra") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux measures a peak anew")
def test_memory_is_that_of_the_stage():
    from measuring import Clock

    clock = Clock()
    with clock("large"):
        np.ones(16 << 20).sum()
    with clock("small"):
        np.ones(8).sum()
    assert clock.peak_mb("large") > clock.peak_mb("small") + 100
    assert clock.peak_mb() == clock.peak_mb("large")


def test_a_worker_answers_or_names_its_failure(tmp_path, scripts):
    from measuring import WorkerError, measured_apart

    worker = tmp_path / "worker.py"
    worker.write_text(
        f"import sys; sys.path.insert(0, {str(scripts)!r})\n"
        "from measuring import answer\n"
        "print('noise')\n"
        "answer(lambda options: {'half': options['number'] / 2})\n"
    )
    assert measured_apart(worker, {"number": 3}) == {"half": 1.5}
    with pytest.raises(WorkerError, match="KeyError: 'number'"):
        measured_apart(worker, {})


def test_stages_are_watched_and_left_as_they_were():
    from measuring import Clock
    from stages import stages_watched

    world = make_asymmetric_multilabel(200, 60, 20)
    classifier = make_sldl("paper", embedding__n_components=4, embedding__n_steps=5)
    before = GaussianLabelEmbedding.fit
    clock = Clock()
    with stages_watched(clock, classifier), clock("fit"):
        classifier.fit(world.X, world.Y)
    assert {"fit", "fit/embedding", "fit/mapping", "fit/decoder"} <= set(clock.spent)
    assert all(path.count("/") <= 1 for path in clock.spent)
    assert GaussianLabelEmbedding.fit is before
