"""The command ``sldl``: one module per subcommand, and one place that turns errors into exit codes."""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from cyclopts import App, CycloptsError, Parameter

from pysldl import __version__
from pysldl._utils.light_estimator import comes_from_interrupt
from pysldl.exceptions import SLDLError, SLDLWarning

__all__ = ["app", "main", "run"]

DEBUG_VARIABLE = "SLDL_DEBUG"
BAD_INPUT = 2

app = App(
    name="sldl",
    help="Scalable label distribution learning: many labels per row, out of thousands or a million.",
    help_epilogue=(
        "Every command has --help with an example. Errors print one line (exit code 2); use --debug, or "
        f"{DEBUG_VARIABLE}=1, for a traceback."
    ),
    help_format="markdown",
    default_parameter=Parameter(negative=()),
    version=__version__,
    version_flags=("--version",),
    suppress_keyboard_interrupt=False,
)

# Each is the function of that name in the module of that name, which imports what is heavy only when it runs.
COMMANDS = (
    "demo",
    "split",
    "fit",
    "update",
    "vocabulary",
    "predict",
    "explain",
    "evaluate",
    "inspect",
    "export",
    "serve",
    "datasets",
    "reproduce",
    "stats",
    "version",
)
for position, name in enumerate(COMMANDS):
    app.command(getattr(import_module(f"{__name__}.{name}"), name), name=name, sort_key=position)


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status.

    0: done; 2: bad usage or input, said in one line on standard error; 130: interrupted; 141: whoever read the output
    stopped reading.
    """
    debug = "--debug" in arguments or os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0")
    words = [word for word in arguments if word != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", SLDLWarning)
            warnings.showwarning = _show_warning
            code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()  # a full disk shows here, while it can still be reported
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return _interrupted(debug)
    except BrokenPipeError:
        _silence_stdout()
        return 128 + 13  # SIGPIPE, which not every system has a name for
    except Exception as error:
        if comes_from_interrupt(error):
            return _interrupted(debug)
        message = _message(error)
        if debug or message is None:
            raise
        if isinstance(error, OSError):
            _silence_stdout()
        return _failed(message, BAD_INPUT)


def _interrupted(debug: bool) -> int:
    if debug:
        traceback.print_exc()
    return _failed("interrupted", 128 + signal.SIGINT)


def _message(error: Exception) -> str | None:
    """The message of an error that the caller can do something about; None for a defect of the library."""
    match error:
        case CycloptsError():
            return f"{error} (see: sldl --help)"
        case SLDLError():
            return str(error)
        case OSError(strerror=str(reason), filename=filename):
            return f"{filename}: {reason}" if filename else reason
        case OSError() | ValueError():  # scikit-learn's way to refuse a parameter or a matrix
            return f"{error} ({DEBUG_VARIABLE}=1 shows where)"
        case MemoryError():
            return f"not enough memory: {error}"
    return None


def _failed(message: str, code: int) -> int:
    print("error:", " ".join(message.split()), file=sys.stderr)
    return code


def _silence_stdout() -> None:
    """Let the interpreter's own flush at exit go nowhere instead of failing a second time."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print("warning:", " ".join(str(message).split()), file=sys.stderr)
