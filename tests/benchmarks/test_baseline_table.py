"""The table of the comparing methods: means, distances, and which of two folders counts."""

import json

from pysldl.experiments.journal import Journal, Record


def write_fold(folder, dataset, method, fold, p1, unseen="keep"):
    other = "drop" if unseen == "keep" else "keep"
    test = {unseen: {"P@1": p1, "P@5": 0.2, "PSP@5": 0.3}, other: {"P@1": 0.0, "P@5": 0.0, "PSP@5": 0.0}}
    record = Record(dataset, method, fold, {}, test, None, 2.0 + fold, 0.0, 0.0, None, 0, {})
    Journal(folder / "records" / dataset / f"fold-{fold:02d}.jsonl").append([record])


def test_table_and_what_is_below_it(scripts, tmp_path, command_line, capsys):
    import baseline_table

    published = tmp_path / "published.csv"
    lines = ["metric,dataset,method,mean,std", "P@1,cal500,KD-TEA,50,5", "P@5,cal500,KD-TEA,20,1"]
    published.write_text("\n".join(lines) + "\n", encoding="utf-8")
    old, new = tmp_path / "old", tmp_path / "new"
    for fold, p1 in ((0, 0.9), (1, 0.4)):
        write_fold(old, "cal500", "KD-TEA", fold, p1)
    write_fold(new, "cal500", "KD-TEA", 0, 0.3)  # counts instead of the first
    write_fold(new, "stackex-coffee", "prior", 0, 0.1, unseen="drop")  # as in the paper
    write_fold(new, "cal500", "KD-TEA:dropout=0.5", 0, 0.45)  # stands beside the same published row
    command_line(old, new, "--published", published, "--folds", 2)
    baseline_table.main()
    printed = capsys.readouterr().out
    assert (
        "| cal500 | KD-TEA (reconstruction) | 2 | 35.00 / 50.00 (-3.0) | 20.00 / 20.00 (+0.0) | 30.00 | 2.5 |"
        in printed
    )
    assert "| cal500 | KD-TEA:dropout=0.5 (reconstruction) | 1 | 45.00 / 50.00 (-1.0) |" in printed
    assert "| stackex-coffee | prior | 1 | 10.00 | 20.00 | 30.00 | 2.0 |" in printed
    assert printed.index("cal500") < printed.index("stackex-coffee")
    assert "cal500, KD-TEA, P@1: -3.0 deviations" in printed
    assert "stackex-coffee, prior: 1 of 2 folds" in printed
    command_line(old, "--published", published, "--json")
    baseline_table.main()
    (row,) = json.loads(capsys.readouterr().out)
    assert row["P@1"] == {"mean": 65.0, "published": 50.0, "deviations": 3.0}
