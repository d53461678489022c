"""Blocks about controlled vocabularies: Annif's own evaluation, and relations compared with a thesaurus."""

from statistics import fmean

from blocks.evidence import Evidence, Rows, from_record
from blocks.text import NOT_RECORDED, number, table

MEASURES = ("Precision@1", "Precision@3", "Precision@5", "NDCG@5", "NDCG@10", "F1@5")


@from_record("annif_eval")
def annif_eval(found: Rows) -> str:
    """What Annif's own evaluation says of our backend and of its own."""
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
    return table(header, rows, left=2)


def thesaurus(evidence: Evidence) -> str:
    """How many broader links of thesauri Gaussians and counts recover, beside controls."""
    found = evidence.rows("thesaurus")
    if not found:
        return NOT_RECORDED
    header = ["links", "method", "starts", "direction right", "broader label nearest", "in nearest 3", "in nearest 10"]
    header += ["median place"]
    rows, told = [], []
    for name in dict.fromkeys(row["vocabulary"] for row in found.rows):
        of_vocabulary = found.where(vocabulary=name)
        first = of_vocabulary[0]
        told.append(
            f"{name}: {first['rows']:,} rows, {first['labels']:,} labels on at least {first['min_count']} rows, "
            f"{first['links']:,} broader links among them, {first['links_sharing_rows']:,} of labels that share a row."
        )
        for kind, said in (("all", "all"), ("sharing", "sharing rows")):
            for method in dict.fromkeys(row["method"] for row in of_vocabulary):
                some = [row for row in of_vocabulary if row["method"] == method]
                shares = ("direction", "in_1", "in_3", "in_10")
                rows.append(
                    [
                        f"{name}, {said}",
                        method,
                        str(len(some)),
                        *(number(100 * fmean(row[f"{kind}_{share}"] for row in some)) for share in shares),
                        number(1 + fmean(row[f"{kind}_median_rank"] for row in some), 0),
                    ]
                )
    return "\n\n".join((table(header, rows, left=2), " ".join(told), found.source))


@from_record("names_in_texts")
def names_in_texts(found: Rows) -> str:
    """What the options of a vocabulary do to the ranking of test rows."""
    measures = ("P@1", "P@5", "nDCG@5", "R@10", "PSP@5")
    rows = [
        [f"{row['data']}, {row['rows']:,} rows", row["method"], *(number(100 * row[name]) for name in measures)]
        for row in found.rows
    ]
    return table(["data", "answers", *measures], rows, left=2)
