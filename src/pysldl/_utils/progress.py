"""How long work tells how far it is."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pysldl.exceptions import DataError

__all__ = ["Progress", "ProgressCallback", "progress_callback"]

LINES_A_STAGE = 10


@dataclass(frozen=True)
class Progress:
    """One report: ``step`` of at most ``total`` steps of ``stage`` are done."""

    stage: str
    step: int
    total: int
    loss: float | None = None


ProgressCallback = Callable[[Progress], None]


def progress_callback(progress: Any) -> ProgressCallback | None:
    """The callback that a parameter ``progress`` stands for.

    Parameters
    ----------
    progress : callable, bool or None
        True: lines on standard error, about ten for each stage. False and None: none.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        return _lines_on_stderr()
    if not callable(progress):
        raise DataError(
            f"progress must be True, or a function that takes a pysldl._utils.progress.Progress, but is {progress!r}."
        )
    callback: ProgressCallback = progress
    return callback


def _lines_on_stderr() -> ProgressCallback:
    printed: dict[str, int] = {}

    def show(report: Progress) -> None:
        tenth = LINES_A_STAGE * report.step // max(report.total, 1)
        if printed.get(report.stage) == tenth:
            return
        printed[report.stage] = tenth
        loss = "" if report.loss is None else f", loss {report.loss:.4g}"
        print(f"{report.stage}: step {report.step} of at most {report.total}{loss}", file=sys.stderr)

    return show
