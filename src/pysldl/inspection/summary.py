"""A fitted model in a table: its stages, its size, and how good it was on held-out examples."""

from typing import Any

from pysldl.inspection.display import html_table

STAGES = ("embedding_", "mapping_", "decoder_", "ranker_", "reranker_")


def fitted_summary(model: Any) -> list[tuple[str, str]]:
    """Return names and values of what is known of a fitted classifier.

    Parameters
    ----------
    model : classifier
        Stages that it does not have, and held-out metrics of a model without calibration, are left out.
    """
    n_seen = int((model.label_counts_ > 0).sum())
    facts = [
        ("training rows", f"{model.n_samples_:,}"),
        ("features", _features(model)),
        (
            "labels",
            f"{len(model.label_names_):,}, of which {n_seen:,} have training rows",
        ),
    ]
    for name in STAGES:
        stage = getattr(model, name, None)
        if stage is not None:
            facts.append((name.rstrip("_"), " ".join(repr(stage).split())))
    calibration = model.calibration_
    if calibration is not None:
        held = calibration.held_out_
        figures = ", ".join(f"{name} {value:.3f}" for name, value in held["metrics"].items())
        facts.append((f"on {held['n_rows']:,} held-out examples", figures))
        facts.append(
            ("threshold of predict", f"{calibration.threshold_:.4g}, held-out F1 {calibration.held_out_f1_:.3f}")
        )
    return facts


def fitted_html(model: Any) -> str:
    """Return :func:`fitted_summary` as a table for a notebook."""
    return html_table(f"Fitted {type(model).__name__}", ("", ""), fitted_summary(model))


def _features(model: Any) -> str:
    """How many features there are, and what they stand for."""
    told = f"{model.n_features_in_ - model.n_dense_:,}"
    if model.vectorizer_ is not None:
        kind = getattr(model.vectorizer_, "analyzer", "word")
        shortest, longest = getattr(model.vectorizer_, "ngram_range", (1, 1))
        told += " words" if kind == "word" else " groups of characters"
        told += "" if longest == 1 else f", {shortest} to {longest} together"
    return told if not model.n_dense_ else f"{told}, and dense vectors of {model.n_dense_:,}"
