"""Blocks about controlled vocabularies: Annif's own evaluation, and relations compared with a thesaurus."""

from blocks.evidence import Evidence
from blocks.text import NOT_RECORDED, number, table

MEASURES = ("Precision@1", "Precision@3", "Precision@5", "NDCG@5", "NDCG@10", "F1@5")


def annif_eval(evidence: Evidence) -> str:
    """What Annif's own evaluation says of our backend and of its own."""
    found = evidence.rows("annif_eval")
    if not found:
        return NOT_RECORDED
    header = ["corpus", "project", *MEASURES, "training, s", "evaluation, s"]
    rows = [
        [
            f"{row['corpus']}, {row['train_documents']:,} + {row['Documents_evaluated']:,}",
            row["method"],
            *(number(100 * row[measure]) for measure in MEASURES),
            number(row["train_processor_s"], 0),
            number(row["eval_processor_s"], 0),
        ]
        for row in found.rows
    ]
    return f"{table(header, rows, left=2)}\n\n{found.source}"
