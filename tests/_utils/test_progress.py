"""Reports of long-running work."""

import pytest

from pysldl._utils.progress import Progress, progress_callback


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_reported_unless_asked(progress):
    assert progress_callback(progress) is None


def test_a_function_is_called_itself():
    assert progress_callback(print) is print


def test_true_prints_about_ten_lines_a_stage(capsys):
    show = progress_callback(True)
    for step in range(1, 101):
        show(Progress("embedding", step, 100, loss=1 / step))
    show(Progress("mapping", 1, 0))
    lines = capsys.readouterr().err.splitlines()
    assert 10 <= len(lines) <= 13
    assert lines[0] == "embedding: step 1 of at most 100, loss 1" and lines[-1] == "mapping: step 1 of at most 0"
