"""Parameters written as ``KEY=VALUE``, on the command line or in the name of a method."""

import ast
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

from pysldl._utils.suggestions import MOST, did_you_mean
from pysldl.exceptions import DataError

PLAIN_WORDS = {"true": True, "false": False, "none": None}
# Parameters that are objects, with the modules and the names of the classes that they may be.
STAGES = {
    "embedding": ("pysldl.embedding", None),
    "mapping": ("pysldl.mapping", None),
    "decoder": ("pysldl.decoding", re.compile(r".*(Decoder|Readout)")),
    "ranker": ("pysldl.ranking", re.compile(r".*Ranker")),
    "reranker": ("pysldl.ranking", re.compile(r".*Reranker")),
    "neighbors": ("pysldl.decoding", re.compile(r"(Joint)?NeighborDecoder")),
    "readout": ("pysldl.decoding", re.compile(r".*Readout")),
    "index": ("pysldl.neighbors", re.compile(r".*Index")),
}
LEFT_TO_THE_ESTIMATOR = ("auto", "adaptive")  # words in place of a number or a yes or no

Estimator = TypeVar("Estimator")


def parse_assignments(words: Sequence[str], where: str) -> dict[str, Any]:
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
            raise DataError(f"{where} {word}: write it as key=value.")
        values[key.strip()] = _literal(value.strip())
    return values


def parse_settings(words: Sequence[str], where: str) -> dict[str, Any]:
    """Parameters of a classifier; ``embedding.margin=0.2`` and ``embedding__margin=0.2`` are the same.

    A whole stage is replaced by the name of its class: ``embedding=RandomLabelEmbedding``,
    ``decoder.index=FaissIndex``.
    """
    settings = {key.replace(".", "__"): value for key, value in parse_assignments(words, where).items()}
    return {
        key: _stage(key, value, where) if key.split("__")[-1] in STAGES else value for key, value in settings.items()
    }


def with_settings(estimator: Estimator, settings: Mapping[str, Any], where: str) -> Estimator:
    """The estimator with these parameters, in place; an unknown one, or a value of another kind, is refused.

    Nested parameters have a double underscore. An error begins with ``where``: the option that the settings came by.
    """
    given: Any = estimator
    stages = {key: value for key, value in settings.items() if hasattr(value, "get_params")}
    for key in sorted(stages, key=lambda key: key.count("__")):  # first, since other settings may be theirs
        _require_known(given, {key: stages[key]}, where)
        given.set_params(**{key: stages[key]})
    _require_known(given, settings, where)
    present = given.get_params()
    for key, value in settings.items():
        _require_same_kind(key, value, present[key], where)
    given.set_params(**{key: value for key, value in settings.items() if key not in stages})
    return estimator


def advice_on_parameter(key: str, present: Mapping[str, Any]) -> str:
    """What to write in place of a parameter that is not among those that an estimator has.

    Examples
    --------
    >>> advice_on_parameter("n_neighbors", {"decoder": ..., "decoder__n_neighbors": 30})
    "did you mean 'decoder__n_neighbors'?"
    """
    stage, last = key.split("__")[0], key.split("__")[-1]
    if stage != key and present.get(stage, ...) is None:
        return f"its {stage} is None, which has no parameters."
    same = [name for name in present if name.split("__")[-1] == last]
    meant = [name for name in same if name.split("__")[0] == stage] or same
    if meant:
        return f"did you mean {' or '.join(map(repr, meant[:MOST]))}?"
    called = {name.split("__")[-1]: name for name in present} | {name: name for name in present}
    # Of a classifier in three stages most parameters are the stages'; all of them are too many to read.
    own = ", ".join(name for name in present if "__" not in name)
    return did_you_mean(key, called) or did_you_mean(last, called) or f"its own are {own}."


def _require_known(estimator: Any, settings: Mapping[str, Any], where: str) -> None:
    present = estimator.get_params()
    for key in settings:
        if key not in present:
            told = advice_on_parameter(key, present).replace("__", ".")
            raise DataError(
                f"{where} {key.replace('__', '.')}: {type(estimator).__name__} has no such parameter; {told}"
            )


def _require_same_kind(key: str, value: Any, present: Any, where: str) -> None:
    if isinstance(present, str) and present in LEFT_TO_THE_ESTIMATOR:
        return
    kinds = next((kinds for kind, kinds in _ACCEPTED if isinstance(present, kind)), None)
    if kinds is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool)):
        raise DataError(f"{where} {key}={value}: expected a value like {present!r}.")


# bool comes first because it is an int to Python
_ACCEPTED: tuple[tuple[type, Any], ...] = ((bool, bool), (int, int), (float, (int, float)), (str, str))


def _literal(text: str) -> Any:
    if text.lower() in PLAIN_WORDS:
        return PLAIN_WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _stage(key: str, name: Any, where: str) -> Any:
    """An object by the name of its class; None, for no such stage or the usual one, stays None."""
    if name is None:
        return None
    module, pattern = STAGES[key.split("__")[-1]]
    home = import_module(module)
    choices = [known for known in sorted(home.__all__) if pattern is None or pattern.fullmatch(known)]
    if name not in choices:
        raise DataError(f"{where} {key.replace('__', '.')}={name}: choose one of {', '.join(choices)}.")
    return getattr(home, name)()
