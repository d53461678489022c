"""Synthetic data whose label relations are known: "cloud implies sky", but not the other way."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pysldl.datasets.dataset import Dataset
from pysldl.exceptions import DataError
from pysldl.preprocessing.labels import name_array


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticDataset(Dataset):
    """A :class:`Dataset` that knows which label implies which.

    Parameters
    ----------
    name, X, Y, label_names, feature_names, splits, idf, texts, ids, titles : object
        As in :class:`Dataset`.
    implications : sequence of (child, parent)
        Columns of Y: a row with the child has, but for forgotten labels, the parent as well.

    Examples
    --------
    >>> from pysldl.datasets import make_asymmetric_multilabel
    >>> data = make_asymmetric_multilabel(200, 60, 12)
    >>> data.named_implications[:2]
    [('cloud', 'sky'), ('rain', 'sky')]
    """

    implications: tuple[tuple[int, int], ...] = field(default=())

    @property
    def named_implications(self) -> list[tuple[str, str]]:
        """The implications by name: ``("cloud", "sky")``."""
        return [(str(self.label_names[child]), str(self.label_names[parent])) for child, parent in self.implications]

    def recovered(self, divergences: NDArray[Any]) -> dict[str, float]:
        """Measure how many of the planted implications the divergences between labels recover.

        Parameters
        ----------
        divergences : ndarray of shape (n_labels, n_labels)
            KL(i ‖ j) of learned Gaussians.

        Returns
        -------
        dict
            ``direction``: share of the implications with KL(child ‖ parent) < KL(parent ‖ child).
            ``near``: share for which the parent is among the three labels nearest to the child.
            ``rank``: median rank of the parent among the other labels, seen from the child; 0 is the nearest.
        """
        child, parent = np.array(self.implications).T
        forward, backward = divergences[child, parent], divergences[parent, child]
        others = np.arange(len(divergences)) != child[:, None]
        rank = ((divergences[child] < forward[:, None]) & others).sum(axis=1)
        return {
            "direction": float((forward < backward).mean()),
            "near": float((rank < 3).mean()),
            "rank": float(np.median(rank)),
        }


def make_asymmetric_multilabel(
    n_samples: int = 1800,
    n_features: int = 480,
    n_labels: int = 90,
    *,
    scenes_per_sample: float = 3.0,
    children_per_scene: float = 0.5,
    zipf_exponent: float = 0.6,
    forgotten: float = 0.02,
    terms_per_sample: float = 12.0,
    noise: float = 0.8,
    test_size: float = 0.2,
    random_state: int | np.random.Generator | None = 0,
) -> SyntheticDataset:
    """Generate descriptions of pictures of a small world, with tags of which some imply others.

    A row shows a few scenes ("sky", "kitchen"), the frequent ones more often (Zipf). A scene is
    tagged with its broad label and with some of its narrower ones ("cloud", "rain"), again by
    Zipf; so the narrower label implies the broad one, which itself comes with any of several.
    Some broad labels have no narrower one and stand alone. The features are counts of terms: the
    words of a row are drawn from those of its labels, of related labels and of no label at all.

    Parameters
    ----------
    n_samples, n_features, n_labels : int
        Shape of X and Y.
    scenes_per_sample : float
        Mean number of scenes in a row, at least 1.
    children_per_scene : float
        Mean number of narrower labels that a scene with any of them is tagged with.
    zipf_exponent : float
        How fast frequencies fall with the rank, for scenes, narrower labels and terms alike.
    forgotten : float
        Share of tags left out at random, as human annotators do; rows keep at least one.
    terms_per_sample : float
        Mean number of words in a row.
    noise : float
        Share of the words that speak of no label of the row.
    test_size : float
        Share of the rows in ``splits["test"]``.
    random_state : int, Generator or None
        The same integer gives the same data.

    Returns
    -------
    SyntheticDataset
        With named labels and terms, ``splits`` of train and test, ``idf`` fitted on the train rows,
        and the planted ``implications``.

    Examples
    --------
    >>> ds = make_asymmetric_multilabel()
    >>> ds.named_implications[0]
    ('cloud', 'sky')
    """
    _check_sizes(n_samples, n_features, n_labels, scenes_per_sample)
    rng = np.random.default_rng(random_state)
    label_names, parent_of = _plant(n_labels)
    Y = _draw_labels(rng, n_samples, parent_of, scenes_per_sample, children_per_scene, zipf_exponent, forgotten)
    terms_of, feature_names = _vocabulary(n_features, label_names)
    X = _draw_terms(rng, Y, parent_of, terms_of, n_features, zipf_exponent, terms_per_sample, noise)
    shuffled = rng.permutation(n_samples)
    n_test = round(test_size * n_samples)
    train = np.sort(shuffled[n_test:])
    return SyntheticDataset(
        "synthetic",
        X,
        Y,
        name_array(label_names),
        feature_names=name_array(feature_names),
        splits={"train": train, "test": np.sort(shuffled[:n_test])},
        idf=_inverse_document_frequency(X[train]),
        implications=tuple((child, int(parent)) for child, parent in enumerate(parent_of) if parent != child),
    )


def _check_sizes(n_samples: int, n_features: int, n_labels: int, scenes_per_sample: float) -> None:
    if min(n_samples, n_labels) < 1:
        raise DataError(f"n_samples={n_samples} and n_labels={n_labels} must be at least 1.")
    if n_features <= n_labels:
        raise DataError(
            f"n_features={n_features} must exceed n_labels={n_labels}: every label has a term of its own, "
            "and some terms speak of none."
        )
    if scenes_per_sample < 1:
        raise DataError(f"scenes_per_sample={scenes_per_sample} must be at least 1.")


def _plant(n_labels: int) -> tuple[list[str], NDArray[np.intp]]:
    """Names of the labels and the column each of them implies (itself: nothing else)."""
    names: list[str] = []
    parent_of: list[int] = []
    scenes = endless_scenes()
    while len(names) < n_labels:
        scene: Scene = next(scenes)
        parent = len(names)
        for name in islice((scene.parent, *scene.children), n_labels - len(names)):
            names.append(name)
            parent_of.append(parent)
    return names, np.array(parent_of, dtype=np.intp)


def _draw_labels(
    rng: np.random.Generator,
    n_samples: int,
    parent_of: NDArray[np.intp],
    scenes_per_sample: float,
    children_per_scene: float,
    zipf_exponent: float,
    forgotten: float,
) -> csr_array:
    """Label indicator, CSR of shape (n_samples, n_labels)."""
    parents, n_members = np.unique(parent_of, return_counts=True)
    n_scenes = 1 + rng.poisson(scenes_per_sample - 1, n_samples)
    scene_rows = np.repeat(np.arange(n_samples), n_scenes)
    scenes = rng.choice(len(parents), len(scene_rows), p=_zipf(len(parents), zipf_exponent))

    n_children = rng.poisson(children_per_scene, len(scene_rows)) * (n_members[scenes] > 1)
    child_rows = np.repeat(scene_rows, n_children)
    child_scenes = np.repeat(scenes, n_children)
    children = np.empty(len(child_rows), dtype=np.intp)
    for scene in np.unique(child_scenes):
        of_scene = np.flatnonzero(child_scenes == scene)
        ranks = rng.choice(n_members[scene] - 1, len(of_scene), p=_zipf(n_members[scene] - 1, zipf_exponent))
        children[of_scene] = parents[scene] + 1 + ranks

    rows = np.concatenate([scene_rows, child_rows])
    labels = np.concatenate([parents[scenes], children])
    tagged = _indicator(rows, labels, (n_samples, len(parent_of)))
    kept = rng.random(tagged.nnz) >= forgotten
    kept[tagged.indptr[:-1]] |= np.add.reduceat(kept, tagged.indptr[:-1]) == 0
    rows = np.repeat(np.arange(n_samples), np.diff(tagged.indptr))
    return _indicator(rows[kept], tagged.indices[kept], tagged.shape)


def _vocabulary(n_features: int, label_names: list[str]) -> tuple[int, list[str]]:
    """Terms a label, and all terms: those of label 0, of label 1, ..., then those of no label."""
    terms_of = max(1, int(0.8 * n_features) // len(label_names))
    names = [phrase(label, position) for label in label_names for position in range(terms_of)]
    return terms_of, names + [function_word(position) for position in range(n_features - len(names))]


def _draw_terms(
    rng: np.random.Generator,
    Y: csr_array,
    parent_of: NDArray[np.intp],
    terms_of: int,
    n_features: int,
    zipf_exponent: float,
    terms_per_sample: float,
    noise: float,
) -> csr_array:
    """Term counts, CSR of shape (n_samples, n_features); memory follows the number of words."""
    n_samples, n_labels = Y.shape
    n_terms = rng.poisson(terms_per_sample, n_samples)
    rows = np.repeat(np.arange(n_samples), n_terms)
    n_own = np.diff(Y.indptr)[rows]
    topics = Y.indices[Y.indptr[rows] + rng.integers(n_own)]

    # Noise is one part words of another label of the same scene, one part of any label, and two
    # parts words of no label.
    kind = rng.random(len(rows)) / noise if noise else np.full(len(rows), np.inf)
    siblings = kind < 0.25
    topics[siblings] = _relative(rng, topics[siblings], parent_of)
    anything = (kind >= 0.25) & (kind < 0.5)
    topics[anything] = rng.integers(n_labels, size=anything.sum())
    terms = topics * terms_of + rng.choice(terms_of, len(rows), p=_zipf(terms_of, zipf_exponent))
    empty = (kind >= 0.5) & (kind < 1)
    n_empty = n_features - n_labels * terms_of
    terms[empty] = n_labels * terms_of + rng.choice(n_empty, empty.sum(), p=_zipf(n_empty, zipf_exponent))
    counts = csr_array((np.ones(len(rows), dtype=np.float32), (rows, terms)), shape=(n_samples, n_features))
    counts.sum_duplicates()
    return counts


def _relative(rng: np.random.Generator, labels: NDArray[Any], parent_of: NDArray[np.intp]) -> NDArray[np.intp]:
    """For each label one of its scene, the broad label included, all alike."""
    n_members = np.bincount(parent_of, minlength=len(parent_of))
    parents = parent_of[labels]
    return np.asarray(parents + rng.integers(n_members[parents]), dtype=np.intp)


def _zipf(n: int, exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def _indicator(rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int]) -> csr_array:
    matrix = csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _inverse_document_frequency(counts: csr_array) -> NDArray[np.float32]:
    n_samples, n_features = counts.shape
    frequency = np.bincount(counts.indices, minlength=n_features)
    return np.asarray(np.log((1 + n_samples) / (1 + frequency)) + 1, dtype=np.float32)


class Scene(NamedTuple):
    """One broad label and the narrower ones that imply it, frequent first."""

    parent: str
    children: tuple[str, ...]


# A scene without children is a label that stands alone. Frequent scenes come first.
SCENES = (
    Scene("sky", ("cloud", "rain", "sunset", "rainbow", "storm", "snowfall")),
    Scene("people", ("crowd", "child", "portrait", "dancer", "worker", "bride")),
    Scene("vintage", ()),
    Scene("city", ("street", "bridge", "skyscraper", "market", "tram", "fountain")),
    Scene("water", ("river", "lake", "waterfall", "harbour", "wave", "glacier")),
    Scene("closeup", ()),
    Scene("animal", ("dog", "cat", "horse", "bird", "elephant", "fox")),
    Scene("food", ("bread", "fruit", "soup", "cheese", "cake", "noodles")),
    Scene("colorful", ()),
    Scene("forest", ("oak", "pine", "moss", "mushroom", "fern", "clearing")),
    Scene("music", ("guitar", "piano", "violin", "drum", "choir", "trumpet")),
    Scene("night", ()),
    Scene("sport", ("football", "running", "tennis", "swimming", "skiing", "rowing")),
    Scene("kitchen", ("oven", "kettle", "knife", "teapot", "sink", "whisk")),
    Scene("winter", ()),
    Scene("vehicle", ("car", "bicycle", "train", "lorry", "ferry", "tractor")),
    Scene("museum", ("painting", "statue", "fossil", "armour", "mosaic", "vase")),
    Scene("holiday", ()),
)

QUALITIES = ("", "bright", "distant", "old", "small", "quiet", "broad", "pale", "heavy", "plain")

FUNCTION_WORDS = """
the of and to in is that it was for on are with as at be this have from or one had by but not what
all were we when your can said there use an each which she do how their if will up other about out
many then them these so some her would make like him into time has look two more write go see number
no way could my than first been call who its now find long down day did get come made may part over
"""


def endless_scenes() -> Iterator[Scene]:
    """The scenes, then the same with a number behind each word, for as long as labels are wanted."""
    yield from SCENES
    round_ = 2
    while True:
        for scene in SCENES:
            yield Scene(f"{scene.parent} {round_}", tuple(f"{child} {round_}" for child in scene.children))
        round_ += 1


def phrase(label: str, position: int) -> str:
    """The term at ``position`` among those that speak of ``label``: "cloud", "bright cloud", ..."""
    round_, quality = divmod(position, len(QUALITIES))
    words = [QUALITIES[quality], label, f"({round_ + 1})" if round_ else ""]
    return " ".join(word for word in words if word)


def function_word(position: int) -> str:
    """The term at ``position`` among those that speak of no label."""
    words = FUNCTION_WORDS.split()
    round_, word = divmod(position, len(words))
    return words[word] + (f" ({round_ + 1})" if round_ else "")
