"""Named settings of the classifier."""

from collections.abc import Callable
from typing import Any

from pysldl.decoding import BlendDecoder, FeatureNeighborDecoder, JointNeighborDecoder, LinearReadout, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding, IdentityLabelEmbedding
from pysldl.estimator.classifier import SLDLClassifier
from pysldl.estimator.size_dispatch import SizeDispatch
from pysldl.exceptions import DataError
from pysldl.mapping import LandmarkRidge, RidgeMapping
from pysldl.preprocessing.features import MOSTLY
from pysldl.ranking import LinearRanker, TreeReranker

SHORT_ROWS = 0.01  # density of features, up to which few of them are as the words of short texts


def make_sldl(preset: str = "accurate", **overrides: Any) -> SLDLClassifier:
    """Return a classifier with named settings.

    Parameters
    ----------
    preset : {"accurate", "fast", "paper", "official", "blend"}
        ``"accurate"`` (the default): the best ranking. The labels of the nearest training rows are candidates, a
        linear classifier for each label orders them, and boosted trees, which see how much the candidates imply each
        other, rescore the best unless that harms training rows held out. Up to 75 labels the classifiers score all
        labels, and neighbors are asked only if their votes help. Where there are few features (up to 2,048) and rows
        have more than a hundredth of them, votes of the nearest rows are mixed with a ridge regression on the labels,
        and the trees see both in place of the classifiers' scores. Features that are measurements rather than words are
        standardized, and need no trees. All weights are chosen on training rows.
        ``"fast"``: for large sparse sets such as texts: votes of the nearest rows through an inverted index; nothing is
        trained.
        ``"paper"``: the equations of the paper as printed.
        ``"official"``: what the authors' code does instead: the hinge with the opposite sign, the reversed KL
        divergence, fifty steps of AdamW, an intercept and nonnegative weights in the ridge regression.
        ``"blend"``: counted co-occurrence, and votes mixed with a linear read-out. For up to a few thousand features.
    **overrides
        Parameters to change, those of a stage by scikit-learn's double underscore: ``decoder__n_neighbors=50``. In
        ``"accurate"`` a stage has two forms, ``small`` where there are few features and ``large`` where there are many:
        ``decoder__large__n_neighbors=50``. ``get_params()`` of the classifier lists all.

    Examples
    --------
    >>> texts, labels = ["a gray cloud", "a cat", "clouds and sky"] * 10, [["cloud"], ["cat"], ["cloud", "sky"]] * 10
    >>> make_sldl("accurate").fit(texts, labels).predict(["a gray cloud"])
    [['cloud']]
    >>> make_sldl("paper", embedding__n_components=64).embedding.n_components
    64
    """
    if preset not in PRESETS:
        raise DataError(f"There is no preset {preset!r}; choose one of {', '.join(sorted(PRESETS))}.")
    classifier = PRESETS[preset]()
    try:
        classifier.set_params(**overrides)
    except ValueError as error:
        raise DataError(f"Preset {preset!r}: {error}") from error
    return classifier


def _paper() -> SLDLClassifier:
    return SLDLClassifier(
        GaussianLabelEmbedding(n_components=128, margin=0.1, cooccurrence="binary"),
        RidgeMapping(alpha=1.0),
        NeighborDecoder(n_neighbors=30, normalize=False),
        random_state=0,
    )


def _official() -> SLDLClassifier:
    return SLDLClassifier(
        GaussianLabelEmbedding(
            n_components=128,
            margin=0.1,
            cooccurrence="binary",
            objective="official",
            init_scale=0.1,
            learning_rate=1e-3,
            weight_decay=0.01,
            n_steps=50,
            tol=None,
        ),
        RidgeMapping(alpha=1.0, solver="lbfgs", fit_intercept=True, positive=True, tol=1e-4),
        NeighborDecoder(n_neighbors=100, exact_match="only"),
        random_state=0,
    )


def _blend() -> SLDLClassifier:
    return SLDLClassifier(
        GaussianLabelEmbedding(n_components=128, cooccurrence="count"),
        RidgeMapping(alpha=1.0),
        BlendDecoder(NeighborDecoder(n_neighbors=30), LinearReadout(), weight=0.5),
        random_state=0,
    )


def _fast() -> SLDLClassifier:
    # All terms of the training rows are indexed, so the usual limit of postings would be reached after a few terms.
    decoder = FeatureNeighborDecoder(n_neighbors=None, n_terms=40, max_postings=1 << 16, temperature=None)
    return SLDLClassifier(decoder=decoder, random_state=0)


def _accurate() -> SLDLClassifier:
    return SLDLClassifier(
        IdentityLabelEmbedding(),
        LandmarkRidge(alpha=3.0, half_precision=True),
        SizeDispatch(
            small=BlendDecoder(
                JointNeighborDecoder(n_axes=64, search="codes"),
                LinearReadout(alpha=0.1, half_precision=True),
                weight=None,
            ),
            large=FeatureNeighborDecoder(n_neighbors=100, n_terms=32, index_terms=50, temperature=None),
            min_density=SHORT_ROWS,
        ),
        SizeDispatch(small=None, large=LinearRanker(n_candidates=None, C=None), min_density=SHORT_ROWS),
        reranker=SizeDispatch(small=None, large=TreeReranker(), min_density=MOSTLY),
        standardize=None,
        random_state=0,
    )


PRESETS: dict[str, Callable[[], SLDLClassifier]] = {
    "paper": _paper,
    "official": _official,
    "blend": _blend,
    "fast": _fast,
    "accurate": _accurate,
}
