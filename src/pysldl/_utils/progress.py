"""Reports of long-running work: how many steps of a stage are done, as bars or as lines."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

LINES_PER_STAGE = 10


@dataclass(frozen=True)
class Progress:
    """One report: ``step`` of at most ``total`` steps of ``stage`` are done."""

    stage: str
    step: int
    total: int
    loss: float | None = None


ProgressCallback = Callable[[Progress], None]

# The bars or lines that ``progress=True`` shows now. A user's own function is called for stages only.
_shown: ContextVar[ProgressCallback | None] = ContextVar("_shown", default=None)


@contextmanager
def reporting(progress: ProgressCallback | bool | None) -> Iterator[ProgressCallback | None]:
    """Yield the callback that the parameter ``progress`` stands for, or None.

    True draws a bar for each stage in a terminal or a notebook (there with ipywidgets), and otherwise prints about ten
    lines for each stage on standard error.
    """
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        yield progress
    elif _shows_bars():
        with stage_bars() as bars, _showing(bars):
            yield bars
    else:
        with _showing(_lines_on_stderr()) as lines:
            yield lines


def announce(stage: str) -> None:
    """Show the name of a stage that has no steps to count, where bars or lines are shown."""
    show = _shown.get()
    if show is not None:
        show(Progress(stage, 0, 1))


@contextmanager
def stage_bars() -> Iterator[ProgressCallback]:
    """A callback that draws a bar for every stage of a fit; nothing if standard error is not a terminal."""
    from rich.console import Console  # not above: a service that shows no bars would wait for it
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    screen = Console(stderr=True)
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description:>11}"), BarColumn(), MofNCompleteColumn(), *times)
    tasks: dict[str, Any] = {}
    loss_column = TextColumn("{task.fields[loss]}")
    silent = not (screen.is_terminal or screen.is_jupyter)
    with Bars(*columns, loss_column, console=screen, transient=True, disable=silent) as bars:

        def show(report: Progress) -> None:
            if report.stage not in tasks:
                for earlier in tasks.values():  # it stopped because it was done, not at its cap
                    bars.update(earlier, total=bars.tasks[earlier].completed)
                tasks[report.stage] = bars.add_task(report.stage, loss="")
            loss = "" if report.loss is None else f"loss {report.loss:.4g}"
            bars.update(tasks[report.stage], completed=report.step, total=report.total, loss=loss)

        yield show


@contextmanager
def _showing(show: ProgressCallback) -> Iterator[ProgressCallback]:
    token = _shown.set(show)
    try:
        yield show
    finally:
        _shown.reset(token)


def _shows_bars() -> bool:
    from rich.console import Console

    screen = Console(stderr=True)
    return find_spec("ipywidgets") is not None if screen.is_jupyter else screen.is_terminal


def _lines_on_stderr() -> ProgressCallback:
    printed: dict[str, int] = {}

    def show(report: Progress) -> None:
        tenth = LINES_PER_STAGE * report.step // max(report.total, 1)
        if printed.get(report.stage) == tenth or (report.total == 1 and report.stage in printed):
            return
        printed[report.stage] = tenth
        loss = "" if report.loss is None else f", loss {report.loss:.4g}"
        steps = "..." if report.total == 1 else f"step {report.step} of at most {report.total}"
        print(f"{report.stage}: {steps}{loss}", file=sys.stderr)

    return show
