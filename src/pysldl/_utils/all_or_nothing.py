"""Methods that either succeed or leave their object unchanged."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Self = TypeVar("Self")
Result = TypeVar("Result")


def all_or_nothing(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Restore the attributes of an object if the decorated method fails or is interrupted by Ctrl-C.

    A fit that was interrupted leaves an estimator that is not fitted, or that is fitted as it was before. Arrays that
    the method changes in place are not restored, and those of an earlier fit stay in memory until the new one is done.
    """

    @wraps(method)
    def whole(self: Self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            attributes: dict[str, Any] = vars(self)
            attributes.clear()
            attributes.update(before)
            if not isinstance(error, KeyboardInterrupt) and comes_from_interrupt(error):
                raise KeyboardInterrupt from error
            raise

    return whole


def comes_from_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C is what lies behind an error; compiled loops turn it into a ``SystemError``."""
    chain: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and seen not in chain:  # an error that is raised again can lie behind itself
        if isinstance(seen, KeyboardInterrupt):
            return True
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    return False
