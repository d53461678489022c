"""Reports of long-running work: how many steps of a stage are done."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "ProgressCallback", "progress_callback"]

LINES_PER_STAGE = 10


@dataclass(frozen=True)
class Progress:
    """One report: ``step`` of at most ``total`` steps of ``stage`` are done."""

    stage: str
    step: int
    total: int
    loss: float | None = None


ProgressCallback = Callable[[Progress], None]


def progress_callback(progress: ProgressCallback | bool | None) -> ProgressCallback | None:
    """Return the callback that a parameter ``progress`` stands for.

    Parameters
    ----------
    progress : callable, bool or None
        True: lines on standard error, about ten for each stage. False and None: none.
    """
    if progress is None or progress is False:
        return None
    return _lines_on_stderr() if progress is True else progress


def _lines_on_stderr() -> ProgressCallback:
    printed: dict[str, int] = {}

    def show(report: Progress) -> None:
        tenth = LINES_PER_STAGE * report.step // max(report.total, 1)
        if printed.get(report.stage) == tenth:
            return
        printed[report.stage] = tenth
        loss = "" if report.loss is None else f", loss {report.loss:.4g}"
        print(f"{report.stage}: step {report.step} of at most {report.total}{loss}", file=sys.stderr)

    return show
