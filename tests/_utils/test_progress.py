"""Reports of long-running work."""

import io
import sys

import pytest

from pysldl._utils.progress import Progress, announce, reporting


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_reported_unless_asked(progress):
    with reporting(progress) as report:
        assert report is None


def test_a_function_is_called_itself():
    with reporting(print) as report:
        assert report is print


def test_true_prints_about_ten_lines_a_stage(capsys):
    with reporting(True) as show:
        for step in range(1, 101):
            show(Progress("embedding", step, 100, loss=1 / step))
        show(Progress("mapping", 1, 0))
        show(Progress("decoder", 0, 1))
        show(Progress("decoder", 1, 1))
    lines = capsys.readouterr().err.splitlines()
    assert 11 <= len(lines) <= 14
    assert lines[0] == "embedding: step 1 of at most 100, loss 1"
    assert lines[-2:] == ["mapping: step 1 of at most 0", "decoder: ..."]


def test_true_draws_bars_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with reporting(True) as show:
        show(Progress("embedding", 3, 10))
        show(Progress("decoder", 0, 1))
    drawn = sys.stderr.getvalue()
    assert "embedding" in drawn and "3/3" in drawn and "decoder" in drawn  # a stage that stopped early is whole


def test_what_takes_a_while_is_announced_to_lines_and_not_to_functions(capsys):
    heard = []
    with reporting(heard.append):
        announce("compiling")
    with reporting(True):
        announce("compiling")
    announce("compiling")
    assert heard == [] and capsys.readouterr().err == "compiling: ...\n"


def test_the_first_use_of_a_compiled_loop_is_announced(capsys):
    pytest.importorskip("numba", reason="numba is not installed (extra fast)")
    from pysldl.backend import dispatch

    with reporting(True):
        dispatch._form.__wrapped__("numba.voting", "vote_top")
    assert capsys.readouterr().err == "compiling: ...\n"
