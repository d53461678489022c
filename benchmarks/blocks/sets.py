"""Blocks about sets of labels with a wanted recall."""

from blocks.evidence import Rows, from_record
from blocks.text import number, table

__all__ = ["prediction_sets"]


@from_record("prediction_sets")
def prediction_sets(found: Rows) -> str:
    """Recall on test rows and mean size of the sets, beside a fixed number of labels with the same recall."""
    rows = []
    for row in found.rows:
        start = [str(row["data"]), *(f"{int(row[key]):,}" for key in ("n_labels", "n_held_out"))]
        start.append(number(100 * row["recall"], 0))
        if row["refused"]:
            most = float(str(row["refused"]).split()[-1].rstrip("."))
            rows.append([*start, f"refused: at most {number(100 * most)}", "", "", ""])
            continue
        percents = (number(100 * row[key], 1) for key in ("test_recall", "precision"))
        recall, precision = percents
        rows.append([*start, recall, precision, number(row["mean_size"]), number(row["fixed_k"])])
    header = ["data", "labels", "held-out rows", "wanted recall, %", "on test rows, %", "precision, %"]
    return f"{table([*header, 'mean size', 'fixed k'], rows)}\n\n{_reading(found.rows)}"


def _reading(rows: list[dict[str, object]]) -> str:
    """How far from the wanted recall the test rows are, and how often sets are smaller than a fixed number."""
    lines = []
    for target in sorted({float(str(row["recall"])) for row in rows}):
        kept = [row for row in rows if row["recall"] == target and not row["refused"]]
        off = [100 * (float(str(row["test_recall"])) - target) for row in kept]
        smaller = sum(float(str(row["mean_size"])) < float(str(row["fixed_k"])) for row in kept)
        lines.append(
            f"Wanted {number(100 * target, 0)} %: on {len(kept)} sets from {number(min(off), 1, signed=True)} to "
            f"{number(max(off), 1, signed=True)} points off; smaller than a fixed number of labels with the same "
            f"recall on {smaller} of {len(kept)}."
        )
    return " ".join(lines)
