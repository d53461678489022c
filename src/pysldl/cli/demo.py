"""`sldl demo`: the method at work on data that comes with it."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pysldl.cli._output import console, note, percent, print_json, table
from pysldl.cli.inspect import relations_table

if TYPE_CHECKING:
    from pysldl import SLDLClassifier
    from pysldl.cli._demonstration import Directions, Trial
    from pysldl.datasets import SyntheticDataset
    from pysldl.inspection.relations import LabelRelation

__all__ = ["demo"]

ROWS_EXPLAINED = 3
RELATIONS_SHOWN = 12
LABELS_SHOWN = 5
REASONS_SHOWN = 3


def demo(*, seed: int = 0, json: bool = False) -> int:
    """Train on embedded data; show metrics beside controls, directed label relations, and predictions with reasons.

    Example: `sldl demo`

    The data are pictures of a small world, described in words, in which some labels imply others: who tags a cloud tags
    the sky. So it is known which relations there are to be found.

    Parameters
    ----------
    seed : int
        Draws the world and starts the models.
    json : bool
        Print one JSON object.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from pysldl.cli._demonstration import measure
    from pysldl.datasets import make_asymmetric_multilabel

    started = time.perf_counter()
    world = make_asymmetric_multilabel(random_state=seed).tfidf()
    note(f"{world!r}, {len(world.implications)} planted implications")
    with threadpool_limits(1):  # matrices this small are slower with two threads, which wait for each other
        found = measure(world, seed)
        explained = _explain_rows(world, found.blend)
    relations = found.blend.label_relations(RELATIONS_SHOWN)
    planted = [_planted(relation, world) for relation in relations]
    seconds = round(time.perf_counter() - started, 2)
    if json:
        print_json(
            {
                "data": {key: getattr(world, key) for key in ("name", "n_samples", "n_features", "n_labels")},
                "n_implications": len(world.implications),
                "metrics": {trial.name: trial.metrics for trial in found.trials},
                "directions": [asdict(check) for check in found.directions],
                "relations": [
                    relation.to_dict() | {"planted": truth} for relation, truth in zip(relations, planted, strict=True)
                ],
                "rows": explained,
                "seconds": seconds,
            }
        )
        return 0

    screen = console()
    screen.print(_metrics_table(found.trials))
    screen.print(_directions_table(found.directions))
    screen.print(
        relations_table(
            "strongest relations, with the share of rows and how sure the direction is", relations, planted=planted
        )
    )
    for row in explained:
        _print_row(screen, row)
    screen.print(f"{seconds:.1f} s")
    return 0


def _planted(relation: "LabelRelation", world: "SyntheticDataset") -> str:
    truth = set(world.named_implications)
    if (relation.source, relation.target) in truth:
        return "yes"
    return "reversed" if (relation.target, relation.source) in truth else "no"


def _explain_rows(world: "SyntheticDataset", model: "SLDLClassifier") -> list[dict[str, Any]]:
    """The first test rows with several labels: what was predicted, and why the best one."""
    test = world.split("test")
    labels_of = [test.label_names[test.Y[[row]].indices].tolist() for row in range(test.n_samples)]
    chosen = [row for row, labels in enumerate(labels_of) if len(labels) >= 3][:ROWS_EXPLAINED]
    names, probabilities = model.predict_topk(test.X[chosen], LABELS_SHOWN, names=True, proba=True)
    explained = []
    for position, row in enumerate(chosen):
        terms = test.X[[row]].indices
        explained.append(
            {
                "row": row,
                "terms": [] if test.feature_names is None else test.feature_names[terms].tolist(),
                "labels": labels_of[row],
                "predicted": [
                    {"label": str(name), "probability": float(p), "correct": str(name) in labels_of[row]}
                    for name, p in zip(names[position], probabilities[position], strict=True)
                ],
                "reasons": asdict(model.explain(test.X[[row]], str(names[position][0]), top=REASONS_SHOWN)),
            }
        )
    return explained


def _metrics_table(trials: "list[Trial]") -> Any:
    from pysldl.cli._demonstration import METRICS

    made = table("test rows, per cent", "", *METRICS, numbers=METRICS)
    best = {metric: max(trial.metrics[metric] for trial in trials) for metric in METRICS}
    for trial in trials:
        cells = (
            f"[bold]{percent(trial.metrics[metric])}[/]"
            if trial.metrics[metric] == best[metric]
            else percent(trial.metrics[metric])
            for metric in METRICS
        )
        made.add_row(trial.name, *cells)
    return made


def _directions_table(checks: "list[Directions]") -> Any:
    columns = ("direction", "3 nearest")
    made = table(
        "planted implications told in the right direction, and those whose implied label is among the 3 nearest: "
        "by the learned Gaussians, and by counts; percent",
        "",
        *columns,
        numbers=columns,
    )
    for check in checks:
        made.add_row(check.name, percent(check.recovered), percent(check.near))
    return made


def _print_row(screen: Any, row: dict[str, Any]) -> None:
    reasons = row["reasons"]
    screen.print(f"\n[bold]test row {row['row']}[/]: {escape(', '.join(row['terms']))}")
    screen.print(f"  true       {escape(', '.join(row['labels']))}")
    predicted = (
        f"{'[green]' if guess['correct'] else '[dim]'}{escape(guess['label'])} {guess['probability']:.2f}[/]"
        for guess in row["predicted"]
    )
    screen.print(f"  predicted  {', '.join(predicted)}")
    screen.print(f"  why {escape(reasons['label'])}?")
    for neighbor in reasons["neighbors"]:
        tags = escape(", ".join(neighbor["labels"]))
        screen.print(f"    training row {neighbor['row']}, similarity {neighbor['similarity']:.2f}: {tags}")
    terms = ", ".join(f"{term['feature']} {term['contribution']:+.3f}" for term in reasons["terms"])
    screen.print(f"    {escape(reasons['terms_meaning'])} {reasons['terms_total']:.3f}: {escape(terms)}")
