"""Blocks about the features of texts: languages, dense vectors beside words; and about stratified splits."""

from blocks.evidence import Rows, from_record
from blocks.text import number, table

__all__ = ["chosen", "dense", "splits"]

LANGUAGES = {"fi": "Finnish", "de": "German", "en": "English"}


@from_record("languages")
def chosen(found: Rows) -> str:
    """What each kind of features finds on test rows, and which of them held-out training rows chose."""
    rows = []
    for row in found.rows:
        name = f"**{row['features']}**" if row["chosen"] == "yes" else str(row["features"])
        start = [f"{LANGUAGES[str(row['language'])]}: {row['corpus']}", name]
        counts = [f"{int(row[key]):,}" for key in ("train_rows", "labels", "n_features")]
        metrics = [number(100 * float(row[key]), 1) for key in ("P@1", "P@5", "nDCG@5")]
        rows.append([*start, *counts, number(float(row["probe"]), 3), *metrics])
    header = [
        "corpus",
        "features",
        "train rows",
        "labels",
        "number",
        "held-out sum",
        "P@1",
        "P@5",
        "nDCG@5",
    ]
    return table(header, rows, left=2)


@from_record("splits")
def splits(found: Rows) -> str:
    """Processor seconds of a stratified split, and how far labels are from their shares."""
    rows = [
        [
            "ten folds" if row["task"] == "folds" else "a tenth for testing",
            *(f"{int(row[key]):,}" for key in ("rows", "labels")),
            number(float(row["processor_s"]), 1),
            *(number(float(row[key]), 2) for key in ("worst", "worst_random")),
        ]
        for row in found.rows
    ]
    header = ["task", "rows", "labels", "processor seconds", "rows off, in the worst part", "of a random draw"]
    return table(header, rows)


@from_record("dense_vectors")
def dense(found: Rows) -> str:
    """What words, vectors, and both together find on test rows."""
    rows = [
        [
            *(str(row[key]) for key in ("corpus", "features")),
            f"{int(row['train_rows']):,}",
            number(row["weight"], 2),
            *(number(100 * float(row[key]), 1) for key in ("P@1", "P@5", "nDCG@5")),
            number(float(row["fit_processor_s"]), 0),
        ]
        for row in found.rows
    ]
    header = ["corpus", "features", "train rows", "weight of the vectors", "P@1", "P@5", "nDCG@5", "fit, processor s"]
    return table(header, rows, left=2)
