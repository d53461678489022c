"""Docstrings of classes whose parameters come from several bases."""

import inspect
import re
from typing import Any, TypeVar

AnyClass = TypeVar("AnyClass", bound=type[Any])

SECTION = re.compile(r"(?<=\nParameters\n----------\n).*?(?=\n\n[A-Z][A-Za-z ]+\n-{3,}\n|\Z)", re.DOTALL)
DEFAULT = re.compile(r"default=.*")


def parameter_entries(docstring: str) -> dict[str, str]:
    """Return the entries of the Parameters section of a numpydoc docstring, by parameter name.

    An entry that documents several parameters is given for each of them.
    """
    section = SECTION.search(inspect.cleandoc(docstring))
    entries = re.split(r"\n(?=\S)", section.group().rstrip()) if section else []
    return {name: entry for entry in entries for name in entry.split(" :", 1)[0].split(", ")}


def inherit_parameters(cls: AnyClass) -> AnyClass:
    """Complete the Parameters section of a class by the entries of its bases (a class decorator).

    The class documents the parameters that it adds and those to which it gives another meaning. The rest is taken from
    the nearest base, with the default that the class itself has, in the order of the constructor.
    """
    if not cls.__doc__:  # python -OO removes docstrings
        return cls
    entries: dict[str, str] = {}
    for base in reversed(cls.__mro__[1:]):
        entries |= parameter_entries(base.__dict__.get("__doc__") or "")
    own = parameter_entries(cls.__doc__)
    complete = [
        own[name] if name in own else _with_default(entries[name], parameter.default)
        for name, parameter in inspect.signature(cls).parameters.items()
        if name in own or name in entries
    ]
    docstring = inspect.cleandoc(cls.__doc__)
    cls.__doc__ = SECTION.sub(lambda _: "\n".join(dict.fromkeys(complete)), docstring)
    return cls


def _with_default(entry: str, default: object) -> str:
    header, separator, body = entry.partition("\n")
    text = f'"{default}"' if isinstance(default, str) else repr(default)
    return DEFAULT.sub(lambda _: f"default={text}", header) + separator + body
