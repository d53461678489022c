"""Do learned Gaussians, and do counts of rows, know which label implies which, and how sure can one be of it?

The implications are planted in synthetic labels. The first table asks what the Gaussians know, trained, also on a
quarter of every ranking, and after the fifty steps of the authors' code, with the counts of rows beside them. The
second compares ways to say how sure a direction is: how many are called sure at 95 %, and how many of those are right?
The third asks whether the word "implies" stands where it should.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pysldl.datasets import SyntheticDataset, make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.experiments.report.tables import Cell, Row, Table
from pysldl.inspection.relations import SURE, RelationFinder, direction_confidence
from records import add_record_option, write_rows

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "hard": {"n_samples": 100, "forgotten": 0.3, "children_per_scene": 3.0},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "trained": {},
    "trained, truncated rankings": {"graph": "sparse", "n_walk_labels": 16, "n_negatives": 8, "batch_size": 32},
    "fifty steps at 1e-3": {"learning_rate": 1e-3, "n_steps": 50, "tol": None},
}
COUNTS = "counts of rows"
WEIGHTINGS = ("binary", "count")
KEY = ("n_components", "table", "setting", "world", "method", "cooccurrence", "run")

Rows = list[dict[str, Any]]


def measure(
    settings: Sequence[str], worlds: Sequence[int], starts: int, n_init: int, resamples: int, n_components: int
) -> Rows:
    """One row for every answer: a start of an embedding, a group of starts, a set of resampled rows, or the counts."""
    rows: Rows = []
    for setting in settings:
        for seed in worlds:
            world = make_asymmetric_multilabel(random_state=seed, **SETTINGS[setting])
            about = {"setting": setting, "world": seed}
            rows += ({**about, **row} for row in _of_counts(world))
            for cooccurrence in WEIGHTINGS:
                common = {**about, "cooccurrence": cooccurrence}
                found = _of_gaussians(world, cooccurrence, starts, n_init, resamples, n_components)
                rows += ({**common, **row} for row in found)
    return rows


def _of_counts(world: SyntheticDataset) -> Iterator[dict[str, Any]]:
    """What the counts know, how sure they are, and what the library calls an implication."""
    finder = RelationFinder(world.Y)
    everything = finder.strongest(None)
    rank = {pair: slot for slot, pair in _ranked(everything.source, everything.target)}
    ranks = np.array([rank.get(pair, world.n_labels) for pair in world.implications])
    yield {
        "table": "known",
        "method": COUNTS,
        "direction": float((ranks < world.n_labels).mean()),
        "near": float((ranks < 3).mean()),
        "rank": float(np.median(ranks)),
    }
    yield {"table": "sure", "method": COUNTS, **_judged(_planted_by_counts(world))}
    names = [str(column) for column in range(world.n_labels)]
    said = {
        (int(relation.source), int(relation.target))
        for relation in finder.named(everything, names)
        if relation.verb == "implies"
    }
    planted = set(world.implications)
    yield {
        "table": "implies",
        "method": COUNTS,
        "said": len(said),
        "said_and_planted": len(said & planted),
        "planted": len(planted),
    }


def _of_gaussians(
    world: SyntheticDataset, cooccurrence: Any, starts: int, n_init: int, resamples: int, n_components: int
) -> Iterator[dict[str, Any]]:
    """What the Gaussians know after each schedule, and four ways to be sure of their directions."""
    gaps = []
    for method, settings in SCHEDULES.items():
        for start in range(starts):
            embedding = GaussianLabelEmbedding(
                n_components, cooccurrence=cooccurrence, random_state=start, **settings
            ).fit(world.Y)
            divergences = embedding.divergences()
            yield {"table": "known", "method": method, "run": start, **world.recovered(divergences)}
            if method == "trained":
                gaps.append(_gaps(world, divergences))

    by_counts = _planted_by_counts(world)
    for start, gap in enumerate(gaps):
        yield {"table": "sure", "method": "one start", "run": start, **_judged(_as_probability(gap))}
        agreed = np.where((gap > 0) == (by_counts > 0.5), by_counts, 0.5)
        yield {"table": "sure", "method": "one start that agrees with counts", "run": start, **_judged(agreed)}
    for run, first in enumerate(range(0, len(gaps) - n_init + 1, n_init)):
        some = np.array(gaps[first : first + n_init])
        yield {"table": "sure", "method": f"{n_init} starts", "run": run, **_judged(_by_starts(some))}
    if resamples > 1:
        drawn = np.array(list(_resampled_gaps(world, cooccurrence, resamples, n_components)))
        yield {"table": "sure", "method": f"{resamples} resamples", "run": 0, **_judged(_by_resamples(drawn))}


def _resampled_gaps(
    world: SyntheticDataset, cooccurrence: Any, resamples: int, n_components: int
) -> Iterator[NDArray[np.float64]]:
    """The gaps after fitting to rows drawn with replacement, from another start each time."""
    for draw in range(resamples):
        rows = np.random.default_rng(draw).integers(world.n_samples, size=world.n_samples)
        embedding = GaussianLabelEmbedding(n_components, cooccurrence=cooccurrence, random_state=draw)
        divergences = embedding.fit(world.Y[rows]).divergences().astype(np.float64)
        divergences[np.bincount(world.Y[rows].indices, minlength=world.n_labels) == 0] = np.nan
        yield _gaps(world, divergences)


# Each way to be sure gives, for every planted implication, the probability that its direction is the planted one.


def _planted_by_counts(world: SyntheticDataset) -> NDArray[np.float64]:
    counts, together = np.bincount(world.Y.indices, minlength=world.n_labels), (world.Y.T @ world.Y).toarray()
    child, parent = np.array(world.implications).T
    return direction_confidence(counts[child], counts[parent], together[child, parent])


def _gaps(world: SyntheticDataset, divergences: NDArray[Any]) -> NDArray[np.float64]:
    """KL(parent ‖ child) - KL(child ‖ parent), positive where the direction is the planted one."""
    child, parent = np.array(world.implications).T
    return divergences[parent, child].astype(np.float64) - divergences[child, parent]


def _as_probability(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """One start knows no doubt: all directions are called sure."""
    return np.where(gaps > 0, 1.0, 0.0)


def _by_starts(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean gap over starts against its standard error, by Student's distribution."""
    error = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    return stats.t.cdf(gaps.mean(axis=0) / np.maximum(error, 1e-12), len(gaps) - 1)


def _by_resamples(gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean gap over resampled rows against its deviation, which the bootstrap takes for the standard error."""
    seen = (~np.isnan(gaps)).sum(axis=0)
    usable = seen > 1
    found = np.full(gaps.shape[1], 0.5)
    some = gaps[:, usable]
    error = np.nanstd(some, axis=0, ddof=1) * np.sqrt(1 + 1 / seen[usable])
    found[usable] = stats.t.cdf(np.nanmean(some, axis=0) / np.maximum(error, 1e-12), seen[usable] - 1)
    return found


def _judged(planted: NDArray[np.float64]) -> dict[str, Any]:
    """How many directions are right, how many are called sure, and how many of those are right."""
    right, sure = planted > 0.5, np.maximum(planted, 1 - planted) >= SURE
    return {
        "direction": float(right.mean()),
        "sure": float(sure.mean()),
        "right_of_sure": float(right[sure].mean()) if sure.any() else None,
    }


def _ranked(source: NDArray[Any], target: NDArray[Any]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Pairs with their place among those of the same source; the pairs come strongest first."""
    places: dict[int, int] = {}
    for i, j in zip(source.tolist(), target.tolist(), strict=True):
        places[i] = places.get(i, -1) + 1
        yield places[i], (i, j)


# Tables


def as_tables(rows: Rows, n_components: int) -> list[Table]:
    """What is known, how sure one can be, and where "implies" stands."""
    return [_known_table(rows, n_components), _sure_table(rows), _implies_table(rows)]


def _groups(rows: Rows, table: str) -> dict[str, Rows]:
    """The rows of a table by what its first column says, in their order."""
    groups: dict[str, Rows] = {}
    for row in rows:
        if row["table"] == table:
            weighting = f", {row['cooccurrence']}" if row.get("cooccurrence") else ""
            groups.setdefault(f"{row['setting']} worlds: {row['method']}{weighting}", []).append(row)
    return groups


def _mean_and_lowest(rows: Rows, column: str) -> tuple[Cell, Cell]:
    known = [100 * row[column] for row in rows if row[column] is not None]
    if not known:
        return Cell("none"), Cell("none")
    return Cell(float(np.mean(known)), decimals=1), Cell(float(np.min(known)), decimals=1)


def _known_table(rows: Rows, n_components: int) -> Table:
    return Table(
        "known",
        "Planted directions",
        f"Percent of the planted implications, {n_components} dimensions.",
        "method",
        ("answers", "direction, mean", "lowest", "parent in nearest 3, mean", "lowest", "median rank of the parent"),
        tuple(
            Row(
                name,
                (
                    Cell(str(len(some))),
                    *_mean_and_lowest(some, "direction"),
                    *_mean_and_lowest(some, "near"),
                    Cell(float(np.median([row["rank"] for row in some])), decimals=1),
                ),
            )
            for name, some in _groups(rows, "known").items()
        ),
    )


def _sure_table(rows: Rows) -> Table:
    columns = ("direction", "sure", "right_of_sure")
    titles = ("right", "called sure at 95 %", "right of those called sure")
    return Table(
        "sure",
        "How sure a direction is",
        "Percent of the planted implications, mean and lowest over worlds and starts.",
        "method",
        ("answers", *(title for name in titles for title in (f"{name}, mean", "lowest"))),
        tuple(
            Row(name, (Cell(str(len(some))), *(cell for column in columns for cell in _mean_and_lowest(some, column))))
            for name, some in _groups(rows, "sure").items()
        ),
    )


def _implies_table(rows: Rows) -> Table:
    return Table(
        "implies",
        "Where the library says that a label implies another",
        "Pairs of labels, sums over the worlds.",
        "worlds",
        ("called an implication", "of these planted", "planted in all"),
        tuple(
            Row(
                name,
                tuple(
                    Cell(str(sum(row[column] for row in some))) for column in ("said", "said_and_planted", "planted")
                ),
            )
            for name, some in _groups(rows, "implies").items()
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", default=",".join(SETTINGS), help="comma-separated: default, hard")
    parser.add_argument("--worlds", type=int, default=3, help="seeds 0, 1, ... of the synthetic world (default 3)")
    parser.add_argument("--starts", type=int, default=10, help="seeds 0, 1, ... of the embedding (default 10)")
    parser.add_argument("--n-init", type=int, default=5, help="starts of one answer from several (default 5)")
    parser.add_argument("--resamples", type=int, default=5, help="fits to resampled rows; 0 for none (default 5)")
    parser.add_argument("--c-hat", type=int, default=128, help="dimensions of the Gaussians (default 128)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_record_option(parser, "planted.csv")
    options = parser.parse_args()
    rows = measure(
        options.settings.split(","),
        range(options.worlds),
        options.starts,
        options.n_init,
        options.resamples,
        options.c_hat,
    )
    if options.record is not None:
        write_rows(options.record, ({"n_components": options.c_hat, **row} for row in rows), KEY)
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(table.to_markdown() for table in as_tables(rows, options.c_hat)))


if __name__ == "__main__":
    main()
