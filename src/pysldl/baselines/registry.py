"""The one table of methods: presets of SLDL, its ablations, the baselines of the paper, and simple controls.

The command line, the experiments and :mod:`pysldl.baselines` read it. Nothing is imported before a method is made,
since some need PyTorch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from pysldl.estimator.settings import parse_settings, with_settings

Kind = Literal["preset", "ablation", "baseline", "reconstruction", "control"]
MAKE_SLDL = "pysldl.make_sldl"


@dataclass(frozen=True)
class MethodSpec:
    """A method by name, and how to make it. Called, it gives a new, unfitted estimator.

    Parameters
    ----------
    name : str
        What ``sldl reproduce --methods`` and ``sldl fit --preset`` call it.
    title : str
        What tables call it: the paper's name if it has one.
    path : str
        Module and name of its class, or of the function that makes it.
    kind : {"preset", "ablation", "baseline", "reconstruction", "control"}
        A reconstruction is a baseline of which only the abstract is public; tables have to say so.
    arguments : mapping of str to object
        What the class or function is called with.
    changes : tuple of str
        Parameters to set afterwards, as in ``sldl fit --set``.
    grid : tuple of str, optional
        The axes of the experiments' grid that are tried; by default those that the estimator has.

    Examples
    --------
    >>> from pysldl.baselines.registry import METHODS
    >>> METHODS["SLEEC"](n_neighbors=10)
    SLEEC(n_neighbors=10, random_state=0)
    >>> METHODS["svd"]().embedding
    SVDLabelEmbedding()
    """

    name: str
    title: str
    path: str
    kind: Kind
    arguments: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    grid: tuple[str, ...] | None = None

    def __call__(self, **overrides: Any) -> Any:
        """A new estimator; ``overrides`` change its parameters."""
        module, _, name = self.path.rpartition(".")
        make: Callable[..., Any] = getattr(import_module(module), name)
        made, where = make(**{**self.arguments, **overrides}), f"method {self.name}:"
        return with_settings(made, parse_settings(self.changes, where), where) if self.changes else made


def _preset(name: str, title: str, preset: str, grid: tuple[str, ...] | None = None) -> MethodSpec:
    return MethodSpec(name, title, MAKE_SLDL, "preset", {"preset": preset}, grid=grid)


def _ablation(name: str, title: str, *changes: str) -> MethodSpec:
    return MethodSpec(name, title, MAKE_SLDL, "ablation", {"preset": "paper"}, changes)


def _baseline(name: str, class_name: str, kind: Kind = "baseline") -> MethodSpec:
    return MethodSpec(name, name, f"pysldl.baselines.{class_name}", kind, {"random_state": 0})


METHODS: dict[str, MethodSpec] = {
    spec.name: spec
    for spec in (
        _preset("sldl", "SLDL", "paper"),
        _preset("official", "official", "official", grid=("c_hat", "k")),  # the authors' code takes fifty steps
        _preset("blend", "blend", "blend"),
        _preset("fast", "fast", "fast"),
        _preset("accurate", "accurate", "accurate"),
        _ablation("without-ge", "w/o GE", "embedding=VectorLabelEmbedding", "embedding.directed=true"),
        _ablation(
            "without-ge-symmetric", "w/o GE (symmetric)", "embedding=VectorLabelEmbedding", "embedding.directed=false"
        ),
        _ablation("without-ac", "w/o AC", "embedding.divergence=js"),
        _ablation("random", "random", "embedding=RandomLabelEmbedding"),
        _ablation("identity", "identity", "embedding=IdentityLabelEmbedding"),
        _ablation("svd", "svd", "embedding=SVDLabelEmbedding"),
        _baseline("SLEEC", "SLEEC"),
        _baseline("DXML", "DXML"),
        _baseline("FL", "FocalLossClassifier"),
        _baseline("CB", "ClassBalancedLossClassifier"),
        _baseline("DB", "DistributionBalancedLossClassifier"),
        _baseline("PACA", "PACA"),
        _baseline("FLEM", "FLEM"),
        _baseline("DELA", "DELA"),
        _baseline("CLIF", "CLIF"),
        _baseline("KD-TEA", "KDTEA", "reconstruction"),
        _baseline("AdaC2", "AdaBoostC2"),
        _baseline("prior", "LabelPrior", "control"),
        _baseline("knn", "FeatureNeighbors", "control"),
        _baseline("ovr", "OneVsRestLogistic", "control"),
        _baseline("ridge", "RidgeReadout", "control"),
    )
}
"""Every method of the library by name."""

BASELINES = {name: spec for name, spec in METHODS.items() if spec.kind in ("baseline", "reconstruction")}
"""The methods that the paper compares SLDL with, by its names for them.

Each has the defaults of its class: the SLDL paper's settings where it gives them; the docstring of the class says where
the others come from. The default learner of ``"AdaC2"`` is not that of its authors: kernel ridge regression in place of
a support vector machine with the same kernel, which ``learner="svc"`` brings back. Keyword arguments change any
setting: ``BASELINES["SLEEC"](n_neighbors=10)``.
"""

CONTROLS = {name: spec for name, spec in METHODS.items() if spec.kind == "control"}
"""Methods that know nothing of label distributions, by short names."""

PRESET_METHODS = {spec.arguments["preset"]: spec for spec in METHODS.values() if spec.kind == "preset"}
"""The presets of SLDL by the names that :func:`pysldl.make_sldl` knows."""
