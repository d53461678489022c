"""`sldl evaluate`: how good a model is on labeled rows."""

from typing import TYPE_CHECKING, Any, Literal

from pysldl.cli._dask import NO_CLUSTER, Cluster, name_of_parts
from pysldl.cli._input import USUAL_READING, Data, Features, ModelFolder, Reading, choose_rows, parse_numbers, read_data
from pysldl.cli._output import console, note, percent, print_json, table

if TYPE_CHECKING:
    from pysldl.cli._model import Model, Scored, Scoring

USUAL_CUTOFFS = (1, 3, 5)
USUAL_PROPENSITY = (0.55, 1.5)


def evaluate(
    model: ModelFolder,
    data: Data,
    /,
    *,
    split: str | None = None,
    ks: str | None = None,
    unseen: Literal["keep", "drop"] | None = None,
    propensity_a: float | None = None,
    propensity_b: float | None = None,
    features: Features = "auto",
    reading: Reading = USUAL_READING,
    cluster: Cluster = NO_CLUSTER,
    json: bool = False,
) -> None:
    """Score the predictions of a model: P, nDCG, R, PSP and PSnDCG at k.

    Example: `sldl evaluate eurlex eurlex57k --split test --ks 1,3,5`

    P@k (precision) is the share of the k best predicted labels that are right, R@k (recall) the share of the true
    labels that are among them; nDCG@k also counts how far up they are. PSP and PSnDCG are propensity-scored: a rare
    label counts more than a frequent one. Propensities come from the label counts of the rows that
    the model was fitted on.

    Parameters
    ----------
    split : str, optional
        Rows to score: a split of the data, or all. Default: test if there is such a split, else all.
    ks : str, optional
        Numbers of predicted labels to score. Default: 1,3,5.
    unseen : {"keep", "drop"}, optional
        Labels without training examples: keep counts them as misses, drop leaves them out of the truth. Default: keep,
        but a label name that the model does not know is an error.
    propensity_a : float, optional
        Constant A of the propensity model. Default: the catalog's for this data set, else 0.55.
    propensity_b : float, optional
        Constant B. Default: the catalog's, else 1.5.
    json : bool
        Print one JSON object; metrics lie between 0 and 1.
    """
    from pysldl.cli._model import Scoring, open_model

    cutoffs = parse_numbers(ks, "--ks", USUAL_CUTOFFS)
    opened = open_model(model)
    if cluster.dask is not None:
        name, part = name_of_parts(data), "all"
    else:
        dataset = read_data(data, reading, n_features=opened.classifier.n_features_in_)
        rows, part = choose_rows(dataset, split, usual="test")
        name = dataset.name
    usual_a, usual_b = _usual_propensity(name)
    a = usual_a if propensity_a is None else propensity_a
    b = usual_b if propensity_b is None else propensity_b
    scoring = Scoring(cutoffs, unseen, (a, b), opened.n_training_rows)
    if cluster.dask is not None:
        scored = _scored_on_dask(opened, data, scoring, reading, cluster)
    else:
        labels, _ = opened.classifier.predict_topk(opened.rows_of(rows, features), max(cutoffs))
        scored = scoring.sums(opened.truth_of(rows, unseen), labels)

    trained_on = opened.was_fitted_on(name, part)
    if trained_on:
        note("these are the rows the model was fitted on: the figures say nothing about new rows")
    result = {
        "model": str(model),
        "data": name,
        "split": part,
        "n_samples": scored.n_rows,
        "training_rows": trained_on,
        "unseen": unseen or "keep",
        "n_true_labels_unseen_in_training": scored.n_unseen,
        "propensity": {"A": a, "B": b},
        "metrics": scored.metrics,
    }
    if json:
        print_json(result)
    else:
        _print(result, cutoffs)


def _scored_on_dask(opened: "Model", data: str, scoring: "Scoring", reading: Reading, cluster: Cluster) -> "Scored":
    """Predictions of all rows of files, made and scored by the workers part by part."""
    from pysldl._utils.progress import stage_bars
    from pysldl.cli._dask import open_parts, scored_parts

    parts = open_parts(data, reading)
    with cluster.client() as client, stage_bars() as bars:
        return scored_parts(client, opened.path, parts, scoring, bars, cluster.scratch)


def _print(result: dict[str, Any], cutoffs: tuple[int, ...]) -> None:
    screen, metrics, constants = console(), result["metrics"], result["propensity"]
    screen.print(f"{result['data']}, {result['split']}: {result['n_samples']} rows", markup=False, soft_wrap=True)
    columns = [f"@{k}" for k in cutoffs]
    shown = table("%", "", *columns, numbers=tuple(columns))
    for name in dict.fromkeys(key.split("@")[0] for key in metrics):
        shown.add_row(name, *(percent(metrics[f"{name}@{k}"]) for k in cutoffs))
    screen.print(shown)
    unseen = "count as misses" if result["unseen"] == "keep" else "are left out of the truth"
    screen.print(f"unseen labels {unseen}; propensities with A {constants['A']:g}, B {constants['B']:g}", markup=False)


def _usual_propensity(name: str) -> tuple[float, float]:
    from pysldl.datasets import CATALOG

    return CATALOG[name].propensity if name in CATALOG else USUAL_PROPENSITY
