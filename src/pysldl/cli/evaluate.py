"""`sldl evaluate`: how good a model is on labeled rows."""

from pathlib import Path
from typing import Any, Literal

from pysldl.cli._input import Data, Reading, choose_rows, parse_cutoffs, read_data
from pysldl.cli._output import console, note, percent, print_json, table

__all__ = ["evaluate"]

USUAL_PROPENSITY = (0.55, 1.5)


def evaluate(
    model: Path,
    data: Data,
    /,
    *,
    split: str | None = None,
    ks: str = "1,3,5",
    unseen: Literal["keep", "drop"] | None = None,
    propensity_a: float | None = None,
    propensity_b: float | None = None,
    features: Literal["auto", "raw", "tfidf"] = "auto",
    reading: Reading | None = None,
    json: bool = False,
) -> int:
    """Score the predictions of a model: P, nDCG, R, PSP and PSnDCG at k.

    Example: `sldl evaluate eurlex eurlex57k --split test --ks 1,3,5`

    Propensities come from the label counts of the rows that the model was fitted on.

    Parameters
    ----------
    model : Path
        Folder that `sldl fit` wrote.
    data : str
        A file, a name of the catalog, or - for standard input.
    split : str, optional
        Rows to score: a split of the data, or all. Default: test where there is such a split, else all.
    ks : str
        Numbers of predicted labels to score.
    unseen : {"keep", "drop"}, optional
        Labels without training examples: keep counts them as misses, drop leaves them out of the truth. Default: keep,
        but a label name that the model does not know is an error.
    propensity_a : float, optional
        Constant A of the propensity model. Default: the catalog's for this data set, else 0.55.
    propensity_b : float, optional
        Constant B. Default: the catalog's, else 1.5.
    features : {"auto", "raw", "tfidf"}
        How to take raw term counts, as in eurlex57k and tibkat; auto does what was done in fitting.
    reading : Reading, optional
    json : bool
        Print one JSON object; metrics lie between 0 and 1.
    """
    from pysldl.cli._model import open_model
    from pysldl.metrics import evaluate as score
    from pysldl.metrics import inverse_propensity_from_counts

    cutoffs = parse_cutoffs(ks)
    opened = open_model(model)
    dataset = read_data(data, reading, n_features=opened.classifier.n_features_in_)
    rows, part = choose_rows(dataset, split, usual="test")
    truth = opened.truth_of(rows, unseen)
    usual_a, usual_b = _usual_propensity(dataset.name)
    a = usual_a if propensity_a is None else propensity_a
    b = usual_b if propensity_b is None else propensity_b
    weights = inverse_propensity_from_counts(truth.counts, opened.n_training_rows, a, b)
    labels, _ = opened.classifier.predict_topk(opened.rows_of(rows, features), max(cutoffs))
    never_seen = truth.counts == 0
    dropped = never_seen if unseen == "drop" else None
    metrics = score(truth.Y, labels, weights, ks=cutoffs, ignore_labels=dropped)

    trained_on = opened.was_fitted_on(dataset.name, part)
    if trained_on:
        note("these are the rows the model was fitted on: the figures say nothing about new rows")
    result = {
        "model": str(model),
        "data": dataset.name,
        "split": part,
        "n_samples": rows.n_samples,
        "training_rows": trained_on,
        "unseen": unseen or "keep",
        "n_true_labels_unseen_in_training": int(never_seen[truth.Y.indices].sum()),
        "propensity": {"A": a, "B": b},
        "metrics": metrics,
    }
    if json:
        print_json(result)
    else:
        _print(result, cutoffs)
    return 0


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
