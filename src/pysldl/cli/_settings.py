"""``KEY=VALUE`` words of the command line."""

import ast
from collections.abc import Sequence
from typing import Any

from pysldl.exceptions import DataError

__all__ = ["check_overrides", "parse_assignments", "parse_cutoffs", "parse_overrides", "parse_ranges"]

PLAIN_WORDS = {"true": True, "false": False, "none": None}
STAGES = ("embedding", "mapping", "decoder")


def parse_assignments(words: Sequence[str], option: str) -> dict[str, Any]:
    """``["alpha=0.5", "name=x"]`` as a dict; values are Python literals where they can be, else text.

    Examples
    --------
    >>> parse_assignments(["alpha=0.5", "solver=cg", "positive=true"], "--set")
    {'alpha': 0.5, 'solver': 'cg', 'positive': True}
    """
    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise DataError(f"{option} {word}: write it as key=value.")
        values[key.strip()] = _literal(value.strip())
    return values


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """Parameters of the classifier; ``embedding.margin=0.2`` and ``embedding__margin=0.2`` are the same.

    A whole stage is replaced by the name of its class: ``embedding=RandomLabelEmbedding``.
    """
    overrides = {key.replace(".", "__"): value for key, value in parse_assignments(words, "--set").items()}
    return {key: _stage(key, value) if key in STAGES else value for key, value in overrides.items()}


def check_overrides(overrides: dict[str, Any], present: dict[str, Any]) -> None:
    """Refuse a value of another kind than the one it replaces, such as text for a number."""
    for key, value in overrides.items():
        default = present.get(key)
        kinds = next((kinds for kind, kinds in _ACCEPTED if isinstance(default, kind)), None)
        if kinds is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool)):
            raise DataError(f"--set {key}={value}: expected a value like {default!r}.")


# bool comes first because it is an int to Python
_ACCEPTED: tuple[tuple[type, Any], ...] = ((bool, bool), (int, int), (float, (int, float)), (str, str))


def parse_cutoffs(text: str) -> tuple[int, ...]:
    """``"1,3,5"`` as numbers."""
    try:
        cutoffs = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        cutoffs = ()
    if not cutoffs or min(cutoffs) < 1:
        raise DataError(f"--ks {text}: expected whole numbers of at least 1, such as 1,3,5.")
    return cutoffs


def parse_ranges(text: str, option: str, n: int, thing: str) -> list[int]:
    """``"17,100-120"`` as numbers of ``n`` things that are counted from 0, both ends included.

    Examples
    --------
    >>> parse_ranges("4,7-9", "--forget", 20, "training row")
    [4, 7, 8, 9]
    """
    numbers: list[int] = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise DataError(f"{option} {text}: expected {thing} numbers and ranges of them, such as 3,5-7.")
        if int(last or first) >= n:
            raise DataError(f"{option} {text}: there is no {thing} {last or first}; the last is {n - 1}.")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def _literal(text: str) -> Any:
    if text.lower() in PLAIN_WORDS:
        return PLAIN_WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _stage(stage: str, name: Any) -> Any:
    from pysldl import decoding, embedding, mapping

    home = {"embedding": embedding, "mapping": mapping, "decoder": decoding}[stage]
    if name not in home.__all__:
        raise DataError(f"--set {stage}={name}: choose one of {', '.join(sorted(home.__all__))}.")
    return getattr(home, name)()
