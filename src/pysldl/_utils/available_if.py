"""Methods that only some models have, so that ``hasattr`` tells the truth."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any

from pysldl.exceptions import NotAvailableError


class available_if:  # noqa: N801
    """Decorate a method that a model has only if ``why_not(model)`` returns None and not a reason.

    Unlike the decorator of that name in scikit-learn, it needs no scikit-learn, and its error says what to do.
    """

    def __init__(self, why_not: Callable[[Any], str | None]) -> None:
        self.why_not = why_not

    def __call__(self, method: Callable[..., Any]) -> "available_if":
        self.method = method
        update_wrapper(self, method)
        return self

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.method
        reason = self.why_not(instance)
        if reason is not None:
            raise NotAvailableError(f"This {owner.__name__} has no {self.method.__name__}: {reason}")
        return MethodType(self.method, instance)
