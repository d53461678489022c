"""Methods by name: SLDL, its ablations and controls, the baselines, and methods that users register."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sklearn.base import clone

from pysldl._utils.suggestions import did_you_mean
from pysldl.baselines.registry import METHODS
from pysldl.estimator.classifier import SLDLClassifier
from pysldl.estimator.settings import parse_settings, with_settings
from pysldl.estimator.size_dispatch import SizeDispatch
from pysldl.exceptions import DataError

REFERENCE = METHODS["sldl"].title
ABLATION = tuple(spec.title for spec in METHODS.values() if spec.kind == "ablation")
AXES = ("c_hat", "n_steps", "k")
GROUPS = {
    "all": ("preset", "ablation", "baseline", "reconstruction", "control"),
    "ablations": ("ablation",),
    "baselines": ("baseline", "reconstruction"),
    "controls": ("control",),
}
OF_THE_RUN = {"random_state": "--seed", "device": "--device"}
OF_THE_GRID = {
    "embedding__n_components": ("c_hat", "--c-hats"),
    "embedding__n_steps": ("n_steps", "--n-steps"),
    "decoder__n_neighbors": ("k", "--ks"),
    "decoder__neighbors__n_neighbors": ("k", "--ks"),
}


@dataclass(frozen=True)
class Method:
    """A method that experiments can run.

    ``make`` returns a new, unfitted estimator with ``fit(X, Y)`` and ``predict_topk(X, k)``. Several processes need it,
    so it must be a function of a module. An :class:`~pysldl.SLDLClassifier` is run over the grid of c_hat, n_steps and
    k, unless it chooses for itself; anything else has one configuration.
    """

    name: str  # what ``--methods`` calls it
    title: str  # what tables call it: the paper's name where it has one
    make: Callable[[], Any]
    reconstruction: bool = False  # rebuilt from its abstract
    grid: tuple[str, ...] | None = None  # the axes of the grid that are tried; by default those that the estimator has

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the grid over which the method is run; none if it has a single configuration."""
        if self.grid is not None:
            return self.grid
        estimator = self.make()
        return grid_axes(estimator) if has_grid(estimator) else ()

    @property
    def shown_as(self) -> str:
        """What tables of measured results call it."""
        return f"{self.title} (reconstruction)" if self.reconstruction else self.title

    def description(self) -> dict[str, Any]:
        """What a results folder keeps of the method, as JSON values; :func:`stored_method` reads it."""
        return {"title": self.title, "reconstruction": self.reconstruction, "grid": list(self.axes)}

    def estimator(self, seed: int, device: str | None = None) -> Any:
        """Make an estimator with the seed and device of the run, without calibration, which rankings do not need."""
        estimator = clone(self.make())
        known = estimator.get_params(deep=False)
        wanted = {"random_state": seed, "device": device, "calibrate": False}
        return estimator.set_params(**{key: v for key, v in wanted.items() if key in known and v is not None})

    def parameters(self) -> dict[str, Any]:
        """Every parameter but the seed, as JSON values: what results are tied to."""
        found = clone(self.make()).get_params(deep=True)
        left_out = ("random_state", "device", "calibrate", "progress", "memory_limit")
        return {key: _plain(found[key]) for key in sorted(found) if key.split("__")[-1] not in left_out}


def register_method(name: str, make: Callable[[], Any], title: str | None = None) -> Method:
    """Add a method to those that experiments know; a name that is taken is an error.

    Examples
    --------
    >>> from pysldl import make_sldl
    >>> def wide():
    ...     return make_sldl("paper", embedding__margin=0.5)
    >>> register_method("sldl-wide-margin", wide).title
    'sldl-wide-margin'
    """
    if ":" in name or "," in name:
        raise DataError(f"the name {name!r} has a colon or a comma, which end a name in --methods; choose another.")
    if name in _methods():
        raise DataError(f"there is already a method {name!r}; choose another name.")
    _REGISTERED[name] = Method(name, title or name, make)
    return _REGISTERED[name]


def has_grid(estimator: Any) -> bool:
    """Whether the experiment chooses c_hat, n_steps and k; some classifiers choose them on their own."""
    return isinstance(estimator, SLDLClassifier) and not isinstance(estimator.decoder, SizeDispatch)


def grid_axes(classifier: SLDLClassifier) -> tuple[str, ...]:
    """The axes of the grid that a classifier has, in the order in which ties between configurations are decided."""
    known = classifier.with_default_stages().get_params(deep=True)
    # A parameter that is None is one that the classifier chooses for itself.
    has = {axis: known.get(parameter_of(axis, known) or "") is not None for axis in AXES}
    return tuple(axis for axis in AXES if has[axis] and _used(axis, classifier))


def parameter_of(axis: str, parameters: Mapping[str, Any]) -> str | None:
    """The parameter of an estimator that an axis of the grid sets, the innermost first; None if it has none."""
    names = (name for name, (of, _) in reversed(OF_THE_GRID.items()) if of == axis)
    return next((name for name in names if name in parameters), None)


def _used(axis: str, classifier: SLDLClassifier) -> bool:
    """Whether an axis changes anything.

    A decoder that works on the features needs no embedding, and none is fitted; a descent with a tolerance stops by
    its loss, not by a number of steps.
    """
    if axis == "n_steps" and getattr(classifier.embedding, "tol", None) is not None:
        return False
    return axis == "k" or getattr(classifier.decoder, "input_kind", "codes") != "features"


def stored_method(name: str, noted: Mapping[str, Any]) -> Method:
    """A method as a results folder describes it: enough to read its results, even if it is not registered here."""
    return Method(name, noted["title"], partial(_not_here, name), noted["reconstruction"], tuple(noted["grid"]))


def _not_here(name: str) -> Any:
    raise DataError(f"method {name!r} was read from stored results and cannot be run: register it first.")


def find_methods(names: Iterable[str]) -> list[Method]:
    """Find methods by name, each once; an unknown name is an error that suggests similar ones.

    Settings follow a name after colons: a variant with parameters of its own, which is a method beside the others. A
    group stands for its methods: ``all``, ``ablations``, ``baselines`` or ``controls``.

    Examples
    --------
    >>> [method.name for method in find_methods(["controls"])]
    ['prior', 'knn', 'ovr', 'ridge']
    >>> [method.title for method in find_methods(["sleec", "sleec:n_neighbors=10:n_clusters=4"])]
    ['SLEEC', 'SLEEC (n_neighbors=10, n_clusters=4)']
    """
    known = _methods()
    lower = {name.lower(): name for name in known} | {method.title.lower(): name for name, method in known.items()}
    all_names = ", ".join(known)
    found = {}
    for name in (one for given in names for one in _members(given)):
        plain, *words = (word.strip() for word in name.split(":"))
        actual = lower.get(plain.lower())
        if actual is None:
            raise DataError(f"unknown method {plain!r}: {did_you_mean(plain, lower) or f'choose from {all_names}.'}")
        method = _variant(known[actual], words) if words else known[actual]
        found[method.name] = method
    if not found:
        raise DataError(f"no method was named: choose from {all_names}.")
    return list(found.values())


def _members(name: str) -> list[str]:
    """The names of the methods of a group; a name that is no group stands for itself."""
    kinds = GROUPS.get(name.strip().lower())
    return [name] if kinds is None else [spec.name for spec in METHODS.values() if spec.kind in kinds]


_REGISTERED: dict[str, Method] = {}


def _methods() -> dict[str, Method]:
    """Every method by name: those of the library's registry, and those that users registered."""
    known = {
        spec.name: Method(spec.name, spec.title, spec, spec.kind == "reconstruction", spec.grid)
        for spec in METHODS.values()
    }
    return known | _REGISTERED


def _variant(method: Method, words: Sequence[str]) -> Method:
    """A method with other settings, named by them."""
    name = ":".join((method.name, *words))
    settings = parse_settings(words, f"method {name}:")
    variant = replace(
        method,
        name=name,
        title=f"{method.title} ({', '.join(words)})",
        make=partial(_with_settings, method.make, settings, name),
    )
    axes = variant.axes
    options = OF_THE_RUN | {name: option for name, (axis, option) in OF_THE_GRID.items() if axis in axes}
    for key in settings:
        if key in options:
            raise DataError(f"method {name}: {key} is set by the grid or by the run; use {options[key]}.")
    return variant


def _with_settings(make: Callable[[], Any], settings: dict[str, Any], name: str) -> Any:
    return with_settings(make(), settings, f"method {name}:")


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return type(value).__name__ if hasattr(value, "get_params") else repr(value)
