"""Do the learned Gaussians know which label implies which? Trained, also on a quarter of every ranking, and after the
fifty steps of the authors' code."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.experiments.tables import Cell, Row, Table

SCHEDULES: dict[str, dict[str, Any]] = {
    "trained": {},
    "trained, truncated rankings": {"graph": "sparse", "reach": 16, "tail": 8, "batch_size": 32},
    "fifty steps at 1e-3": {"learning_rate": 1e-3, "n_steps": 50, "tol": None},
}


def measure(worlds: Sequence[int], starts: Sequence[int], n_components: int) -> list[dict[str, Any]]:
    """Every world, schedule and weighting, with the shares of every start."""
    rows = []
    for seed in worlds:
        world = make_asymmetric_multilabel(random_state=seed)
        for schedule, settings in SCHEDULES.items():
            for cooccurrence in ("binary", "count"):
                found = []
                for start in starts:
                    embedding = GaussianLabelEmbedding(
                        n_components, cooccurrence=cooccurrence, random_state=start, **settings
                    )
                    found.append(world.recovered(embedding.fit(world.Y).divergences()))
                columns = {key: [one[key] for one in found] for key in found[0]}
                rows.append({"world": seed, "schedule": schedule, "cooccurrence": cooccurrence, **columns})
    return rows


def as_table(rows: list[dict[str, Any]], n_components: int) -> Table:
    """Lowest and mean of every share over the starts; the default world first, then the others together."""
    merged: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        world = "default world" if row["world"] == 0 else "other worlds"
        shares = merged.setdefault(f"{world}: {row['schedule']}, {row['cooccurrence']}", {})
        for key in ("direction", "near", "rank"):
            shares.setdefault(key, []).extend(row[key])

    def cells(shares: dict[str, list[float]]) -> tuple[Cell, ...]:
        direction, near = 100 * np.array(shares["direction"]), 100 * np.array(shares["near"])
        numbers = (direction.mean(), direction.min(), near.mean(), near.min(), np.median(shares["rank"]))
        return (Cell(str(len(direction))), *(Cell(float(number), decimals=1) for number in numbers))

    return Table(
        "planted",
        "Planted directions",
        f"Per cent of the planted implications, {n_components} dimensions.",
        "embedding",
        ("fits", "direction, mean", "lowest", "parent in nearest 3, mean", "lowest", "median rank of the parent"),
        tuple(Row(name, cells(shares)) for name, shares in merged.items()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=3, help="seeds 0, 1, ... of the synthetic world (default 3)")
    parser.add_argument("--starts", type=int, default=5, help="seeds 0, 1, ... of the embedding (default 5)")
    parser.add_argument("--c-hat", type=int, default=128, help="dimensions of the Gaussians (default 128)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = measure(range(options.worlds), range(options.starts), options.c_hat)
    print(json.dumps(rows, indent=2) if options.json else as_table(rows, options.c_hat).to_markdown())


if __name__ == "__main__":
    main()
