"""Which stage of a classifier takes the time and the memory."""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from measuring import Clock
from pysldl.estimator.size_dispatch import SizeDispatch

__all__ = ["stages_watched"]


@contextmanager
def stages_watched(clock: Clock, classifier: Any) -> Iterator[None]:
    """Within the block, charge the methods of each stage of ``classifier`` to the stage's parameter name.

    The stages are the parameters that can be fitted. ``fit`` works on copies of them, so it is their classes that
    are watched.
    """
    with ExitStack() as watched:
        for name, given in classifier.get_params(deep=False).items():
            # Of a stage that depends on the size, both forms: they may be of one class.
            forms = (given.small, given.large) if isinstance(given, SizeDispatch) else (given,)
            for stage in {type(form) for form in forms if hasattr(form, "fit")}:
                for method, function in _methods(stage):
                    watched.enter_context(patch.object(stage, method, _charged(clock, name, function)))
        yield


def _methods(stage: type) -> list[tuple[str, Callable[..., Any]]]:
    """Public methods that this library wrote."""
    return [
        (name, function)
        for name, function in inspect.getmembers(stage, inspect.isfunction)
        if not name.startswith("_") and function.__module__.startswith("pysldl")
    ]


def _charged(clock: Clock, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def charged(*args: Any, **kwargs: Any) -> Any:
        # One clock, one thread: what other threads do falls into the time of the stage that waits for them.
        if clock.innermost == stage or threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        with clock(stage):
            return function(*args, **kwargs)

    return charged
