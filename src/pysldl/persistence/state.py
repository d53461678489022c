"""What the fitted attributes of a loaded model must look like, checked before any compiled loop sees them.

Compiled loops do not look at bounds: an array of another shape, or an index beyond the array that it points into, would
make them read or write memory that is not theirs. Checksums find accidents only; whoever writes a model can write its
checksums, too. The table at the end says for each class what its attributes are. Sizes are called by names
(``labels``, ``features``, ``rows``, ...): all arrays of a model that share a name must agree.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from pysldl.exceptions import ModelFormatError

__all__ = ["check_state"]

Sizes = dict[str, int]

LARGEST = 2**53  # of any number that stands for a size or a count
MOST_ITEMS = 2**31 - 1  # rows, labels or features: their numbers are 32-bit
BLOCK = 1 << 20
NEVER_EMPTY = ("labels", "features", "rows", "latent", "joint", "points")


class _BadValueError(Exception):
    """A value that is not what its attribute must be; says what is wrong with it."""


@dataclass(frozen=True)
class Array:
    """An array: its sizes by name, its types (none: any), and the values that it may hold.

    ``below`` names the size that all values must be below, for arrays of indices; ``low`` is the smallest value.
    """

    sizes: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32", "float64")
    low: float | None = None
    below: str | int | None = None
    ascending: bool = False
    finite: bool = True

    def check(self, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or (self.dtypes and value.dtype.name not in self.dtypes):
            wanted = " or ".join(self.dtypes).replace("object", "texts")
            raise _BadValueError(f"must be an array of {wanted or 'any type'}")
        _agree(value.shape, self.sizes, sizes)
        if value.size == 0:
            return
        if self.finite:
            _require_finite(value)
        if self.low is not None and value.min() < self.low:
            raise _BadValueError(f"holds {value.min()}, which is less than {self.low}")
        if self.below is not None:
            bound = self.below if isinstance(self.below, int) else sizes[self.below]
            if value.max() >= bound:
                raise _BadValueError(f"holds {value.max()}, but must be below {bound}")
        if self.ascending and (np.diff(value) < 0).any():
            raise _BadValueError("must ascend")


@dataclass(frozen=True)
class Matrix:
    """A CSR matrix of single or double precision, or a dense one if ``dense`` allows it."""

    sizes: tuple[str, str]
    dtypes: tuple[str, ...] = ("float32",)
    dense: bool = False

    def check(self, value: Any, sizes: Sizes) -> None:
        if self.dense and isinstance(value, np.ndarray):
            Array(self.sizes, self.dtypes).check(value, sizes)
            return
        if not sparse.issparse(value) or value.dtype.name not in self.dtypes:
            raise _BadValueError(f"must be a sparse matrix of {' or '.join(self.dtypes)}")
        _agree(value.shape, self.sizes, sizes)
        _require_finite(value.data)


@dataclass(frozen=True)
class Number:
    """A finite number between two bounds; a whole one if ``whole``."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    finite: bool = True

    def check(self, value: Any, sizes: Sizes) -> None:
        kinds = (int, np.integer) if self.whole else (int, float, np.integer, np.floating)
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, kinds):
            raise _BadValueError("must be a whole number" if self.whole else "must be a number")
        if (self.finite and not math.isfinite(value)) or not self.low <= value <= self.high:
            raise _BadValueError(f"is {value!s:.40}, which is not between {self.low} and {self.high}")


@dataclass(frozen=True)
class Size:
    """A whole number that states one of the sizes, or that must not be larger than one."""

    name: str
    at_most: bool = False

    def check(self, value: Any, sizes: Sizes) -> None:
        Number(0, MOST_ITEMS, whole=True).check(value, sizes)
        if not self.at_most:
            _agree((int(value),), (self.name,), sizes)
        elif self.name in sizes and not 0 < value <= max(sizes[self.name], 1):
            raise _BadValueError(f"is {value}, but there are {sizes[self.name]}")


@dataclass(frozen=True)
class OneOf:
    """One of some values."""

    values: tuple[Any, ...]

    def check(self, value: Any, sizes: Sizes) -> None:
        if not any(type(value) is type(one) and value == one for one in self.values):
            raise _BadValueError(f"must be one of {', '.join(map(repr, self.values))}")


@dataclass(frozen=True)
class Stage:
    """A nested part of the model, by the names of its classes; ``renamed`` says what its sizes are called here."""

    classes: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def check(self, value: Any, sizes: Sizes) -> None:
        if type(value).__name__ not in self.classes and _is_of_the_library(value):
            raise _BadValueError(f"must be {' or '.join(self.classes)}, but is {type(value).__name__}")
        if not hasattr(value, "get_params") and type(value).__name__ not in self.classes:
            raise _BadValueError(f"must be {' or '.join(self.classes)}")
        inner = {theirs: sizes[ours] for theirs, ours in self.renamed.items() if ours in sizes}
        inner |= {name: sizes[name] for name in ("labels", "features") if name in sizes and name not in self.renamed}
        check_state(value, inner)
        for theirs, ours in self.renamed.items():
            if theirs in inner:
                _agree((inner[theirs],), (ours,), sizes)


@dataclass(frozen=True)
class DecoderStage(Stage):
    """A decoder; without a mapping before it, dense vectors beside the features are its codes."""

    def check(self, value: Any, sizes: Sizes) -> None:
        n_dense = sizes.get("dense", 0)
        if not n_dense or "latent" in sizes or type(value).__name__ != "JointNeighborDecoder":
            super().check(value, sizes)
            return
        inner = sizes | {"features": sizes.get("features", 0) - n_dense, "latent": n_dense}
        super().check(value, inner)
        _agree((inner["rows"],), ("rows",), sizes)


@dataclass(frozen=True)
class Rule:
    """A value that passes a test; ``wanted`` says what it must be."""

    passes: Callable[[Any], bool]
    wanted: str

    def check(self, value: Any, sizes: Sizes) -> None:
        if not self.passes(value):
            raise _BadValueError(f"must be {self.wanted}")


@dataclass(frozen=True)
class Optional:
    """A value that may also be None."""

    spec: Any

    def check(self, value: Any, sizes: Sizes) -> None:
        if value is not None:
            self.spec.check(value, sizes)


def check_state(model: Any, sizes: Sizes | None = None) -> None:
    """Check the parameters and fitted attributes of a loaded model, and of its parts, against the table.

    Classes without a row in the table are not checked. ``sizes`` are known already; those that are found are added. A
    ``ModelFormatError`` names the attribute and what is wrong with it.
    """
    sizes = {} if sizes is None else sizes
    name = type(model).__name__
    for attribute, spec in TABLE.get(name, {}).items():
        if attribute not in vars(model):
            half = name == "SimpleNamespace" and attribute == "log_variances_"  # what is left of any embedding
            if half or attribute in MAY_BE_ABSENT or not attribute.endswith("_"):  # parameters have their defaults
                continue
            raise ModelFormatError(f"{name} has no {attribute!r}.")
        try:
            spec.check(vars(model)[attribute], sizes)
        except _BadValueError as error:
            raise ModelFormatError(f"the attribute {attribute!r} of {name} {error}.") from None
    if name in MORE:
        MORE[name](model, sizes)


def _require_finite(array: np.ndarray[Any, Any]) -> None:
    if array.dtype.kind != "f":
        return
    flat = array.reshape(-1) if array.flags.c_contiguous else array.T.reshape(-1)
    for start in range(0, len(flat), BLOCK):  # in blocks: the mask of a mapped array would be as large as the array
        if not np.isfinite(flat[start : start + BLOCK]).all():
            raise _BadValueError("holds numbers that are not finite")


def _agree(shape: tuple[int, ...], names: tuple[str, ...], sizes: Sizes) -> None:
    if len(shape) != len(names):
        raise _BadValueError(f"must have {len(names)} dimensions, but has {len(shape)}")
    for size, name in zip(shape, names, strict=True):
        known = int(name) if name.isdecimal() else sizes.setdefault(name, size)
        if size == 0 and name in NEVER_EMPTY:
            raise _BadValueError(f"has no {name}")
        if size != known or size > MOST_ITEMS:
            raise _BadValueError(f"has {size} {'entries' if name.isdecimal() else name}, but the model has {known}")


def _is_of_the_library(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pysldl"


def _check_trees(model: Any, sizes: Sizes) -> None:
    """Children come after their parents, or are the leaf itself: no walk goes round in circles."""
    if "left_" in vars(model) and "right_" in vars(model):
        nodes = np.arange(len(model.left_))
        if (model.left_ < nodes).any() or (model.right_ < nodes).any():
            raise ModelFormatError("the trees of TreeReranker lead back to where they came from.")
    from pysldl.ranking.reranker import FEATURES

    if "feature_" in vars(model) and model.feature_.max(initial=0) >= len(FEATURES):
        raise ModelFormatError(f"the trees of TreeReranker ask for more than {len(FEATURES)} features.")


def _check_joint(model: Any, sizes: Sizes) -> None:
    """Without an index, features and codes lie side by side in the vectors."""
    if "vectors_" not in vars(model) or "features" not in sizes or "latent" not in sizes:
        return
    inside = 0 if vars(model).get("index_") is not None else sizes["features"]
    of_codes = sizes["latent"] if vars(model).get("axes_") is None else sizes["axes"]
    if sizes["joint"] != of_codes + inside:
        raise ModelFormatError(f"the vectors of JointNeighborDecoder have {sizes['joint']} columns.")


def _check_blend(model: Any, sizes: Sizes) -> None:
    """The fitted neighbors take the same rows as those that were to be fitted."""
    wanted = "codes" if model.neighbors is None else getattr(model.neighbors, "input_kind", None)
    if getattr(model.neighbors_, "input_kind", None) != wanted:
        raise ModelFormatError("the neighbors of BlendDecoder are of another kind than its parameter says.")


def _check_classifier(model: Any, sizes: Sizes) -> None:
    """Decoders of codes have a mapping, those of features none; the terms of a vectorizer are the sparse features."""
    kind, mapping = getattr(model.decoder_, "input_kind", None), vars(model).get("mapping_")
    has_mapping = mapping is not None
    if getattr(mapping, "one_dimensional_", False):
        raise ModelFormatError("the mapping gives a number for each row, but decoders take vectors.")
    if sizes.get("named", 0) > sizes.get("labels", 0):
        raise ModelFormatError(f"there are {sizes['named']} rates of names for {sizes.get('labels', 0)} labels.")
    has_codes = has_mapping or sizes.get("dense", 0) > 0  # dense vectors beside the features stand in for them
    if (
        (kind == "codes" and not has_mapping)
        or (kind == "both" and not has_codes)
        or (kind == "features" and has_mapping)
    ):
        raise ModelFormatError(
            f"the decoder works on {kind}, but {'a' if has_mapping else 'no'} mapping comes before it."
        )
    vectorizer = vars(model).get("vectorizer_")
    terms = getattr(vectorizer, "vocabulary_", None)
    n_columns = getattr(vectorizer, "n_features", None) if terms is None else len(terms)
    n_terms = sizes.get("features", 0) - sizes.get("dense", 0)
    if n_columns is not None and "features" in sizes and n_columns != n_terms:
        raise ModelFormatError(f"the vectorizer has {n_columns} terms, but the model {n_terms} features for them.")


def _a(*sizes: str, **options: Any) -> Array:
    return Array(sizes, **options)


def _is_stage_or_none(value: Any) -> bool:
    return value is None or (hasattr(value, "get_params") and not isinstance(value, type))


def _is_vectorizer(value: Any) -> bool:
    return hasattr(value, "transform") and hasattr(value, "build_analyzer")


_INDEX = ("int32", "int64")
_TEXTS = ("object",)
_UNFITTED = Rule(_is_stage_or_none, "a stage of the model, or None")
_COUNT = Number(0, LARGEST, whole=True)
_SHARE = Number(0, 1)
_FLAG = OneOf((True, False))
_ROWS = {"rows": "rows", "latent": "latent"}
_INDEXES = ("ExactIndex", "FaissIndex")
_DECODERS = ("NeighborDecoder", "FeatureNeighborDecoder", "JointNeighborDecoder", "LinearReadout", "BlendDecoder")
_EMBEDDING = {"components_": Matrix(("labels", "latent"), ("float32", "float64"), dense=True)}
_VOTES = {"Y_": Matrix(("rows", "labels")), "prior_": Matrix(("1", "labels"), dense=True)}
_CLASSIFIER = {
    "label_names_": _a("labels", dtypes=()),
    "label_counts_": _a("labels", dtypes=_INDEX, low=0),
    "target_kind_": Rule(lambda value: isinstance(value, str), "a text"),
    "n_samples_": _COUNT,
    "n_features_in_": Size("features"),
    "n_dense_": Size("dense"),
    "feature_names_in_": _a("features", dtypes=_TEXTS),
    "feature_names_": Optional(_a("features", dtypes=_TEXTS)),
    "feature_idf_": _a("features"),
    "vectorizer_": Optional(Rule(_is_vectorizer, "a vectorizer")),
    "vocabulary_": Optional(Stage(("Vocabulary",))),
    "label_ids_": Optional(_a("labels", dtypes=_TEXTS)),
    "label_targets_": Optional(_a("labels", dtypes=_INDEX, low=-1, below="labels")),
    "name_rates_": Optional(_a("named", low=0)),
    "mean_name_rate_": Number(0, LARGEST),
    "calibration_": Optional(Stage(("ScoreCalibration",))),
}
_STAGED = _CLASSIFIER | {
    **dict.fromkeys(("embedding", "mapping", "decoder", "ranker", "reranker"), _UNFITTED),
    "normalize": _FLAG,
    "feature_means_": Optional(_a("features")),
    "feature_scales_": Optional(_a("features")),
    "embedding_": Optional(
        Stage(
            (
                *("GaussianLabelEmbedding", "VectorLabelEmbedding", "IdentityLabelEmbedding", "RandomLabelEmbedding"),
                *("SVDLabelEmbedding", "SimpleNamespace"),
            ),
            {"latent": "latent"},
        )
    ),
    "mapping_": Optional(
        Stage(
            ("RidgeMapping", "LandmarkRidge", "LinearPredictor", "LandmarkPredictor", "SharedFactorRidge"),
            {"latent": "latent"},
        )
    ),
    "decoder_": DecoderStage(_DECODERS, _ROWS),
    "ranker_": Optional(Stage(("LinearRanker",))),
    "reranker_": Optional(Stage(("TreeReranker",))),
    "training_features_": Matrix(("rows", "features"), ("float32", "float64"), dense=True),
    "training_labels_": Matrix(("rows", "labels")),
    "training_excerpts_": _a("excerpts", dtypes=_TEXTS),
}
_MAPPING = {
    "coef_": _a("features", "latent"),
    "intercept_": _a("latent"),
    "n_features_in_": Size("features"),
    "one_dimensional_": _FLAG,
    "fit_intercept": _FLAG,
    "normal_equations_": Optional(Stage(("NormalEquations",), {"latent": "latent"})),
}
_LANDMARKS = {
    "landmarks_": Optional(Matrix(("landmarks", "features"))),
    "landmark_coef_": Optional(_a("landmarks", "latent")),
}

# Attributes are checked in this order: those that state sizes come before those that are measured by them.
TABLE: dict[str, dict[str, Any]] = {
    "SLDLClassifier": _STAGED,
    "StagedPredictor": _STAGED,
    "IdentityLabelEmbedding": _EMBEDDING,
    "RandomLabelEmbedding": _EMBEDDING,
    "SVDLabelEmbedding": _EMBEDDING,
    "VectorLabelEmbedding": _EMBEDDING,
    "GaussianLabelEmbedding": _EMBEDDING | {"log_variances_": _a("labels", "latent")},
    "SimpleNamespace": _EMBEDDING | {"log_variances_": _a("labels", "latent")},
    "RidgeMapping": _MAPPING,
    "LandmarkRidge": _MAPPING | _LANDMARKS,
    "LinearPredictor": _MAPPING,
    "LandmarkPredictor": _MAPPING | _LANDMARKS,
    "NormalEquations": {
        "gram_": _a("features", "features"),
        "moments_": _a("features", "latent"),
        "feature_sums_": _a("features"),
        "target_sums_": _a("latent"),
        "n_samples_": _COUNT,
    },
    "NeighborDecoder": {
        **_VOTES,
        "index_": Stage(_INDEXES, _ROWS),
        "n_neighbors_": Size("rows", at_most=True),
        "normalize": _FLAG,
        "min_distance": Number(0, 1),
        "exact_match": OneOf(("floor", "only")),
    },
    "FeatureNeighborDecoder": {
        **_VOTES,
        "index_": Stage(("InvertedIndex", "ExactIndex"), {"rows": "rows", "columns": "features", "latent": "features"}),
        "n_neighbors_": Size("rows", at_most=True),
        "temperature_": Number(0, LARGEST),
    },
    "JointNeighborDecoder": {
        **_VOTES,
        "index_": Optional(Stage(("InvertedIndex",), {"rows": "rows", "columns": "features"})),
        "axes_": Optional(_a("latent", "axes", dtypes=("float32",))),
        "vectors_": _a("rows", "joint", dtypes=("float32",)),
        "n_neighbors_": Size("rows", at_most=True),
        "weight_": _SHARE,
        "temperature_": Number(0, LARGEST),
        "n_terms": _COUNT,
        "n_axes": Optional(_COUNT),
    },
    "LinearReadout": {"B_": _a("latent", "labels")},
    "BlendDecoder": {
        "neighbors": _UNFITTED,
        "readout": _UNFITTED,
        "neighbors_": Stage(_DECODERS, _ROWS),
        "readout_": Stage(_DECODERS, _ROWS),
        "weight_": _SHARE,
    },
    "ExactIndex": {"vectors_": _a("rows", "latent", dtypes=("float32",))},
    "FaissIndex": {"vectors_": _a("rows", "latent", dtypes=("float32",)), "effort_": _COUNT, "recall_": _SHARE},
    "InvertedIndex": {
        "postings_": Matrix(("columns", "rows")),
        "max_postings": Number(1, LARGEST, whole=True),
        "n_terms": Number(1, MOST_ITEMS, whole=True),
        "index_terms": Optional(Number(1, MOST_ITEMS, whole=True)),
    },
    "LinearRanker": {
        "all_labels_": _FLAG,
        "W_": Matrix(("labels", "features")),
        "bias_": _a("labels"),
        "frequent_": _a("frequent", dtypes=_INDEX, low=0, below="labels"),
        "centroids_": Optional(Stage(("LabelCentroids",))),
        "n_centroid_candidates_": Number(0, MOST_ITEMS, whole=True),
        "n_candidates": Number(1, MOST_ITEMS, whole=True),
        "vote_power_": Number(-LARGEST, LARGEST),
    },
    "LabelCentroids": {
        "index_": Stage(("InvertedIndex",), {"rows": "labels", "columns": "features"}),
        "n_terms": Number(1, MOST_ITEMS, whole=True),
        "label_terms": Number(1, MOST_ITEMS, whole=True),
    },
    "TreeReranker": {
        "pairs_": Matrix(("labels", "labels")),
        "feature_": _a("nodes", dtypes=_INDEX, low=0),
        "threshold_": _a("nodes", finite=False),
        "left_": _a("nodes", dtypes=_INDEX, low=0, below="nodes"),
        "right_": _a("nodes", dtypes=_INDEX, low=0, below="nodes"),
        "value_": _a("nodes"),
        "roots_": _a("trees", dtypes=_INDEX, low=0, below="nodes"),
        "depth_": Number(0, 10_000, whole=True),
        "baseline_": Number(),
        "n_candidates": Number(1, MOST_ITEMS, whole=True),
    },
    "ScoreCalibration": {
        "scores_": _a("points", ascending=True),
        "probabilities_": _a("points", low=0),
        "threshold_": Number(finite=False),
    },
}
MAY_BE_ABSENT = {
    *("n_dense_", "feature_names_in_", "feature_idf_", "training_features_", "training_labels_", "training_excerpts_"),
    *("label_ids_", "label_targets_", "vocabulary_", "name_rates_", "mean_name_rate_", "normal_equations_"),
}
MORE = {
    "SLDLClassifier": _check_classifier,
    "StagedPredictor": _check_classifier,
    "JointNeighborDecoder": _check_joint,
    "BlendDecoder": _check_blend,
    "TreeReranker": _check_trees,
}
