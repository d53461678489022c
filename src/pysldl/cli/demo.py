"""`sldl demo`: the method compared with simple controls, on built-in data whose label relations are known."""

import textwrap
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pysldl.cli._output import Json, console, note, percent, print_json, table
from pysldl.cli.inspect import relations_table

if TYPE_CHECKING:
    from pysldl import SLDLClassifier
    from pysldl.datasets import SyntheticDataset
    from pysldl.inspection.relations import LabelRelation

METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
CUTOFFS = (1, 3, 5)
STARTS = 5
ROWS_EXPLAINED = 3
RELATIONS_SHOWN = 12
LABELS_SHOWN = 5
REASONS_SHOWN = 3


def demo(*, seed: int = 0, json: Json = False) -> None:
    """Train on built-in data; show metrics compared with baselines, label relations, and predictions with reasons.

    Example: `sldl demo`

    The data describe pictures of a small world in which some labels imply others: who tags a cloud also tags the sky.
    So it is known which relations there are to find.

    Parameters
    ----------
    seed : int
        Random seed for data and models.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from pysldl.datasets import make_asymmetric_multilabel

    started = time.perf_counter()
    world = make_asymmetric_multilabel(random_state=seed).tfidf()
    note(f"{world!r}, {len(world.implications)} planted implications")
    with threadpool_limits(1):  # matrices this small are slower with two threads, which wait for each other
        models = _fit_models(world, seed)
        blend = models['make_sldl("blend")']
        metrics, directions = _evaluate(world, models), _check_directions(world, models, seed)
        rows = _explain_rows(world, models['make_sldl("accurate")'])
    relations = blend.label_relations(RELATIONS_SHOWN)
    planted = [_planted(relation, world) for relation in relations]
    seconds = round(time.perf_counter() - started, 2)
    if json:
        print_json(
            {
                "data": {key: getattr(world, key) for key in ("name", "n_samples", "n_features", "n_labels")},
                "n_implications": len(world.implications),
                "metrics": metrics,
                "directions": directions,
                "relations": [
                    relation.to_dict() | {"planted": truth} for relation, truth in zip(relations, planted, strict=True)
                ],
                "rows": [row | {"reasons": asdict(row["reasons"])} for row in rows],
                "seconds": seconds,
            }
        )
        return

    screen = console()
    screen.print(_metrics_table(metrics))
    screen.print(_directions_table(directions))
    title = "strongest relations, with the share of rows and how sure the direction is"
    screen.print(relations_table(title, relations, planted=planted))
    for row in rows:
        _print_row(screen, row)
    screen.print(f"{seconds:.1f} s")


def _fit_models(world: "SyntheticDataset", seed: int) -> "dict[str, SLDLClassifier]":
    """Three presets and two controls that map and decode like ``paper``, fitted on the train rows."""
    from pysldl import make_sldl
    from pysldl.embedding import IdentityLabelEmbedding, RandomLabelEmbedding

    train = world.split("train")
    models = {
        "random codes": make_sldl("paper", embedding=RandomLabelEmbedding(128), calibrate=False),
        "identity codes": make_sldl("paper", embedding=IdentityLabelEmbedding(), calibrate=False),
        'make_sldl("paper")': make_sldl("paper", calibrate=False),
        'make_sldl("blend")': make_sldl("blend"),
        'make_sldl("accurate")': make_sldl("accurate"),
    }
    terms = None if world.feature_names is None else world.feature_names.tolist()
    for model in models.values():
        model.set_params(random_state=seed)
        model.fit(train.X, train.Y, label_names=world.label_names.tolist(), feature_names=terms)
    return models


def _evaluate(world: "SyntheticDataset", models: "dict[str, SLDLClassifier]") -> dict[str, dict[str, float]]:
    """Metrics of the models, and of two controls that learn no code at all, on the test rows."""
    from pysldl.baselines import FeatureNeighbors, LabelPrior
    from pysldl.metrics import evaluate, inverse_propensity

    train, test = world.split("train"), world.split("test")
    weights = inverse_propensity(train.Y)
    controls = {"label prior": LabelPrior(calibrate=False), "raw-feature neighbors": FeatureNeighbors(calibrate=False)}
    fitted = {name: control.fit(train.X, train.Y) for name, control in controls.items()} | models
    return {
        name: evaluate(test.Y, model.predict_topk(test.X, max(CUTOFFS)), weights, ks=CUTOFFS)
        for name, model in fitted.items()
    }


def _check_directions(
    world: "SyntheticDataset", models: "dict[str, SLDLClassifier]", seed: int
) -> list[dict[str, Any]]:
    """Share of the planted implications found in the right direction, and of those among the nearest labels.

    ``recovered``: KL(child ‖ parent) is the smaller of the two ways, or the relation found by counts points from child
    to parent. ``near``: the parent is among the three labels nearest to the child, or most strongly related to it.
    """
    import numpy as np

    from pysldl.embedding import GaussianLabelEmbedding
    from pysldl.inspection.relations import RelationFinder

    Y = world.split("train").Y
    checks = []
    for width in (32, 128):  # fifty steps at 1e-3, as the authors' code, leave much to chance: a mean of several starts
        starts = [
            GaussianLabelEmbedding(width, learning_rate=1e-3, n_steps=50, tol=None, random_state=seed + start)
            for start in range(STARTS)
        ]
        found = [world.recovered(embedding.fit(Y).divergences()) for embedding in starts]
        direction, near = (float(np.mean([one[key] for one in found])) for key in ("direction", "near"))
        checks.append((f"fifty steps at 1e-3, width {width}, mean of {STARTS} starts", direction, near))
    for preset, graph in (("paper", "co-occurrence yes or no"), ("blend", "co-occurrence counted")):
        recovered = world.recovered(models[f'make_sldl("{preset}")'].embedding_.divergences())
        checks.append((f"trained, width 128, {graph}", recovered["direction"], recovered["near"]))
    finder = RelationFinder(Y)
    directed, strongest = (
        set(zip(relations.source.tolist(), relations.target.tolist(), strict=True))
        for relations in (finder.strongest(None), finder.strongest(3))
    )
    by_counts = [float(np.mean([pair in some for pair in world.implications])) for some in (directed, strongest)]
    checks.append(("counts of the training rows, as in the relations below", by_counts[0], by_counts[1]))
    return [{"name": name, "recovered": recovered, "near": near} for name, recovered, near in checks]


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
                "reasons": model.explain(test.X[[row]], str(names[position][0]), top=REASONS_SHOWN),
            }
        )
    return explained


def _metrics_table(metrics: dict[str, dict[str, float]]) -> Any:
    made = table("test rows, %", "", *METRICS, numbers=METRICS)
    best = {metric: max(values[metric] for values in metrics.values()) for metric in METRICS}
    for name, values in metrics.items():
        cells = (
            f"[bold]{percent(values[metric])}[/]" if values[metric] == best[metric] else percent(values[metric])
            for metric in METRICS
        )
        made.add_row(name, *cells)
    return made


def _directions_table(checks: list[dict[str, Any]]) -> Any:
    columns = ("direction", "3 nearest")
    made = table(
        "planted implications found in the right direction, and those whose implied label is among the 3 nearest: "
        "by the learned Gaussians, and by counts; %",
        "",
        *columns,
        numbers=columns,
    )
    for check in checks:
        made.add_row(check["name"], percent(check["recovered"]), percent(check["near"]))
    return made


def _print_row(screen: Any, row: dict[str, Any]) -> None:
    screen.print(f"\n[bold]test row {row['row']}[/]: {escape(', '.join(row['terms']))}")
    screen.print(f"  true       {escape(', '.join(row['labels']))}")
    predicted = (
        f"{'[green]' if guess['correct'] else '[dim]'}{escape(guess['label'])} {guess['probability']:.2f}[/]"
        for guess in row["predicted"]
    )
    screen.print(f"  predicted  {', '.join(predicted)}")
    screen.print(textwrap.indent(str(row["reasons"]), "  "), markup=False)
