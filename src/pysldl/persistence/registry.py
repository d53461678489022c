"""The classes a model folder may be built from. A file never decides what is imported."""

import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from pysldl.exceptions import DataError, MissingDependencyError

__all__ = ["find_class", "is_estimator", "name_of", "register_saveable"]

# In the order they are searched: what is heavy to import comes last, and is imported only when nothing before it fits.
HOMES = (
    "pysldl.estimator.classifier",
    "pysldl.estimator.size_dispatch",
    "pysldl.embedding",
    "pysldl.mapping",
    "pysldl.decoding",
    "pysldl.neighbors",
    "pysldl.ranking",
    "pysldl.estimator.calibration",
    "pysldl.baselines",
)

Class = TypeVar("Class", bound=type)

_registered: dict[str, type] = {}


def register_saveable(cls: Class) -> Class:
    """Let models hold stages of your own class; usable as a decorator.

    The class must be a scikit-learn estimator with ``_saved_state``, the names of its fitted attributes. It must
    be registered before a model that holds it is saved, and again in the program that loads the model.
    """
    if not _is_saveable(cls):
        raise DataError(f"{cls.__name__} cannot be registered: it must be an estimator with a _saved_state.")
    if find_class(cls.__name__) not in (None, cls):
        raise DataError(f"{cls.__name__} cannot be registered: another class has that name.")
    _registered[cls.__name__] = cls
    return cls


def find_class(name: str, homes: Sequence[str] = HOMES) -> type | None:
    """The class of that name in those parts of the library, or None where no saveable class has it."""
    if name in _registered:
        return _registered[name]
    for module in _modules(homes):
        cls = vars(module).get(name)
        if _is_saveable(cls) and cls.__module__ == module.__name__:
            return cls
    return None


def is_estimator(cls: Any) -> bool:
    """Whether a class has parameters as scikit-learn's estimators have them."""
    return isinstance(cls, type) and hasattr(cls, "get_params")


def name_of(cls: type) -> str:
    """The name under which ``cls`` is saved; an error where loading could not find it again."""
    if find_class(cls.__name__) is not cls:
        raise DataError(
            f"{cls.__module__}.{cls.__qualname__} cannot be saved: it is not a class of the library. "
            "Register your own classes with pysldl.persistence.register_saveable."
        )
    return cls.__name__


def _is_saveable(cls: Any) -> bool:
    return is_estimator(cls) and hasattr(cls, "_saved_state")


def _modules(homes: Sequence[str]) -> Iterator[ModuleType]:
    for home in homes:
        module = _import(home)
        if module is None:
            continue
        yield module
        for part in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{home}."):
            if (inner := _import(part.name)) is not None:
                yield inner


def _import(name: str) -> ModuleType | None:
    """A module of the library, or None where it needs an extra that is not installed."""
    try:
        return import_module(name)
    except (ModuleNotFoundError, MissingDependencyError):
        return None
