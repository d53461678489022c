"""What identifies a fitted model: digests of its arrays, the labels it predicts, its label relations and its metrics.

Two fingerprints of the same fit, made under two settings of the machine, are compared by :func:`compare`.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pysldl.exceptions import DataError
from pysldl.metrics import evaluate, inverse_propensity
from pysldl.persistence.encoding import TreeEncoder

__all__ = ["Agreement", "Fingerprint", "compare", "digests", "fingerprint", "read_fingerprint", "write_fingerprint"]

N_BEST = 5
SURE = 0.95  # a direction with this confidence is called sure


@dataclass(frozen=True)
class Fingerprint:
    """What a fit came to.

    Parameters
    ----------
    digests : mapping of str to str
        SHA-256 of every fitted array, and of everything else that a model folder would hold.
    top : list of list of int, optional
        The five best labels of every test row, best first.
    relations : list of str, optional
        Label relations whose direction is sure, as sentences.
    metrics : mapping of str to str
        Metrics of the test rows as tables print them.
    """

    digests: Mapping[str, str]
    top: list[list[int]] | None = None
    relations: list[str] | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreement:
    """How far two fingerprints of the same fit agree.

    Parameters
    ----------
    other_arrays : tuple of str
        Arrays that differ in any bit.
    same_five : float or None
        Share of the test rows with the same five best labels, in any order; None for a fit that ranks no labels.
    same_order : float or None
        Share of the test rows with the same five labels in the same order.
    other_relations : tuple of str or None
        Relations that only one of the two has; None where the model has none.
    other_metrics : tuple of str
        Metrics that are printed differently.
    """

    other_arrays: tuple[str, ...]
    same_five: float | None
    same_order: float | None
    other_relations: tuple[str, ...] | None
    other_metrics: tuple[str, ...]

    @property
    def same_bits(self) -> bool:
        return not self.other_arrays


def digests(model: Any) -> dict[str, str]:
    """SHA-256 of each array of a fitted estimator, and under "the rest" that of its numbers, names and parameters."""
    encoder = TreeEncoder()
    tree = encoder.estimator(model)
    found = {
        name: hashlib.sha256(
            f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
        ).hexdigest()
        for name, array in encoder.arrays.items()
    }
    rest = json.dumps([tree, encoder.strings], sort_keys=True)
    return found | {"the rest": hashlib.sha256(rest.encode()).hexdigest()}


def fingerprint(model: Any, X_test: Any, Y_test: Any, Y_train: Any) -> Fingerprint:
    """The fingerprint of a fitted classifier, with the metrics of its predictions for ``X_test``."""
    labels, scores = model.predict_topk(X_test, N_BEST)
    predicted = hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest()
    values = evaluate(Y_test, labels, inverse_propensity(Y_train))
    return Fingerprint(
        digests(model) | {"predicted scores": predicted},
        labels.tolist(),
        _sure_relations(model),
        {name: f"{100 * value:.2f}" for name, value in values.items()},
    )


def compare(first: Fingerprint, second: Fingerprint) -> Agreement:
    """How far the two agree; fingerprints of different fits are compared without a complaint."""
    arrays = {name: first.digests.get(name) for name in (*first.digests, *second.digests)}
    same_five = same_order = relations = None
    if first.top is not None and second.top is not None:
        a, b = np.array(first.top), np.array(second.top)
        same_order = float((a == b).all(axis=1).mean())
        same_five = float((np.sort(a, axis=1) == np.sort(b, axis=1)).all(axis=1).mean())
    if first.relations is not None and second.relations is not None:
        relations = tuple(sorted(set(first.relations) ^ set(second.relations)))
    return Agreement(
        tuple(name for name, digest in arrays.items() if second.digests.get(name) != digest),
        same_five,
        same_order,
        relations,
        tuple(name for name, value in first.metrics.items() if second.metrics.get(name) != value),
    )


def write_fingerprint(path: Path, found: Fingerprint) -> None:
    """Keep a fingerprint in a JSON file, which appears whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(asdict(found)), encoding="utf-8")
    unfinished.replace(path)


def read_fingerprint(path: Path) -> Fingerprint:
    return Fingerprint(**json.loads(path.read_text(encoding="utf-8")))


def _sure_relations(model: Any) -> list[str] | None:
    """Relations of a model as sentences, with what the Gaussians say of the direction; only those that are sure."""
    try:
        relations = model.label_relations(top=None)
    except (AttributeError, DataError):
        return None
    return sorted(_sentence(relation) for relation in relations if relation.confidence >= SURE)


def _sentence(relation: Any) -> str:
    sentence = f"{relation.source} {relation.verb} {relation.target}"
    if relation.kl is None:
        return sentence
    return f"{sentence}, KL {'below' if relation.kl < relation.kl_reverse else 'not below'} the reverse"
