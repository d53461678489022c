"""How many broader links of a real thesaurus do learned Gaussians and counts of rows recover?

A thesaurus says which concept is broader than which; the rows say which labels occur together. For every broader link
between two labels with enough rows the script asks whether the direction is right, and at what place the broader label
stands among all labels nearest to the narrower one: by divergence of Gaussians, by the counts of rows, and by four
controls that know nothing of the rows' pairs (labels by frequency, Gaussians before training, Gaussians and counts of
rows whose labels were dealt anew, each label keeping its number of rows).
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pysldl.backend.dispatch import use_device
from pysldl.backend.divergence import kl_of_pairs
from pysldl.datasets import Vocabulary, load_dataset, read_dataset, read_vocabulary
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.inspection.relations import share_lower_bound
from records import add_record_option, write_rows

KEY = ("vocabulary", "method", "start", "min_count", "n_components")
NEAREST = (1, 3, 10)

Links = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", help="a file with broader links: SKOS or CSV")
    parser.add_argument("data", help="rows whose labels are of it: a file, or a name of the catalog")
    parser.add_argument("--name", help="what the record calls the vocabulary")
    parser.add_argument("--min-count", type=int, default=10, help="labels on fewer rows are left out")
    parser.add_argument("--n-components", type=int, default=64)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="where Gaussians are trained; the bits are the same")
    add_record_option(parser, "thesaurus.csv")
    arguments = parser.parse_args()
    vocabulary = read_vocabulary(arguments.vocabulary)
    try:
        dataset = load_dataset(arguments.data)
    except ValueError:
        dataset = read_dataset(arguments.data)
    if "train" in dataset.splits:
        dataset = dataset.split("train")
    Y, links, together = linked_labels(dataset.Y, dataset.label_names, vocabulary, arguments.min_count)
    about = {
        "vocabulary": arguments.name or arguments.vocabulary,
        "min_count": arguments.min_count,
        "n_components": arguments.n_components,
        "rows": Y.shape[0],
        "labels": Y.shape[1],
        "links": len(links),
        "links_sharing_rows": int(together.sum()),
    }
    print(about)
    with use_device(arguments.device):
        rows = [about | row for row in measure(Y, links, together, arguments.n_components, arguments.starts)]
    if arguments.record is not None:
        write_rows(arguments.record, rows, KEY)


def linked_labels(
    Y: sparse.csr_array, names: NDArray[Any], vocabulary: Vocabulary, min_count: int
) -> tuple[sparse.csr_array, Links, NDArray[np.bool_]]:
    """The labels of the vocabulary with enough rows, its broader links among them, and which of those share a row."""
    identifiers = [vocabulary.find(str(name)) or vocabulary.find(str(name).partition("|")[0]) for name in names]
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    kept = np.array([one is not None for one in identifiers]) & (counts >= min_count)
    Y = sparse.csr_array(Y[:, np.flatnonzero(kept)])
    Y = Y[np.flatnonzero(np.diff(Y.indptr))]
    column = {identifiers[old]: new for new, old in enumerate(np.flatnonzero(kept))}
    links = [
        (column[one], column[up]) for one in column for up in vocabulary[one].broader if up in column and up != one
    ]
    found = np.array(sorted(links), dtype=np.int64).reshape(-1, 2)
    both = sparse.csr_array(Y.T @ Y)
    return Y, found, np.asarray(both[found[:, 0], found[:, 1]]).ravel() > 0


def measure(
    Y: sparse.csr_array, links: Links, together: NDArray[np.bool_], n_components: int, starts: int
) -> list[dict[str, Any]]:
    """One row for every method and start."""
    rows = []

    def add(method: str, start: int, near: Callable[[int], NDArray[Any]], right: NDArray[np.float64]) -> None:
        rows.append({"method": method, "start": start} | _judged(links, together, near, right, Y.shape[1]))
        print(rows[-1], flush=True)

    counts = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.float64)
    more_frequent = 0.5 + 0.5 * np.sign(counts[links[:, 1]] - counts[links[:, 0]])
    add("most frequent labels", 0, lambda _: counts, more_frequent)
    add("counts of rows", 0, _by_counts(Y), more_frequent)
    for start in range(starts):
        rng = np.random.default_rng(start)
        dealt = Y.copy()
        dealt.indices = rng.permutation(Y.indices)
        dealt.sum_duplicates()
        dealt.data[:] = 1
        add("counts of rows, labels dealt anew", start, _by_counts(dealt), more_frequent)
        settings = {"n_components": n_components, "cooccurrence": "count", "random_state": start}
        fitted = GaussianLabelEmbedding(**settings).fit(Y)
        add("Gaussians, trained", start, *_by_gaussians(fitted, links))
        add("Gaussians, labels dealt anew", start, *_by_gaussians(GaussianLabelEmbedding(**settings).fit(dealt), links))
        untrained = GaussianLabelEmbedding(**settings, n_steps=1, learning_rate=1e-9, tol=None).fit(Y)
        add("Gaussians, untrained", start, *_by_gaussians(untrained, links))
    return rows


def _by_counts(Y: sparse.csr_array) -> Callable[[int], NDArray[Any]]:
    """Nearness by the lower bound of the share of the label's rows that carry the other."""
    both = sparse.csr_array(Y.T @ Y)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])

    def near(label: int) -> NDArray[Any]:
        row = both[[label]].toarray().ravel()
        lift = row * Y.shape[0] > counts[label] * counts  # together more often than chance would bring
        return np.where(lift & (row > 0), share_lower_bound(row, counts[label]), -1.0)

    return near


def _by_gaussians(
    embedding: GaussianLabelEmbedding, links: Links
) -> tuple[Callable[[int], NDArray[Any]], NDArray[np.float64]]:
    means, log_variances = embedding.components_, embedding.log_variances_
    everything = np.arange(len(means))

    def near(label: int) -> NDArray[Any]:
        return -kl_of_pairs(means, log_variances, np.full_like(everything, label), everything)

    forward = kl_of_pairs(means, log_variances, links[:, 0], links[:, 1])
    backward = kl_of_pairs(means, log_variances, links[:, 1], links[:, 0])
    return near, 0.5 + 0.5 * np.sign(backward - forward)


def _judged(
    links: Links, together: NDArray[np.bool_], near: Callable[[int], NDArray[Any]], right: NDArray[Any], n_labels: int
) -> dict[str, Any]:
    """Share of right directions, and of broader labels among the nearest, of all links and of those that share rows."""
    ranks = np.empty(len(links))
    for label in np.unique(links[:, 0]):
        values = near(int(label))
        values[label] = -np.inf
        own = np.flatnonzero(links[:, 0] == label)
        parents = values[links[own, 1]]
        # the mean place among equals, so that ties are neither luck nor loss
        above = (values[None, :] > parents[:, None]).sum(axis=1)
        equal = (values[None, :] == parents[:, None]).sum(axis=1)
        ranks[own] = above + (equal - 1) / 2
    found: dict[str, Any] = {}
    for name, some in (("all", np.ones(len(links), bool)), ("sharing", together)):
        found[f"{name}_direction"] = float(right[some].mean())
        found |= {f"{name}_in_{k}": float((ranks[some] < k).mean()) for k in NEAREST}
        found[f"{name}_median_rank"] = float(np.median(ranks[some]))
    return found | {"chance_in_10": 10 / (n_labels - 1)}


if __name__ == "__main__":
    main()
