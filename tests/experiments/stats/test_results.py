"""Records, summaries and the CSV files that carry them."""

from pathlib import Path

import numpy as np
import pytest
from fold_records import make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from pysldl.exceptions import DataError
from pysldl.experiments.stats.results import (
    Measurements,
    Summary,
    agreements,
    fold_scores,
    mean_fit_seconds,
    rankable_part,
    read_published,
    read_summaries,
    scores_by_metric,
    summarize,
    verdict,
    write_comparison,
    write_summaries,
)

names = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
HEADER = "metric,dataset,method,mean,std\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "results.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_columns_in_any_order_and_leaves_others_aside(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffmethod,note,mean,metric,dataset\nA,x, 12.5 ,P@1,birds\n\nB,y,3,P@1,birds\n")
    assert read_summaries(path) == [Summary("P@1", "birds", "A", 12.5), Summary("P@1", "birds", "B", 3.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"results\.csv: the file is empty"),
        ("\n\n", r"results\.csv: holds nothing but blank lines"),
        (HEADER, r"results\.csv has a header but no results"),
        ("metric,dataset,mean\n", r"line 1: has no column 'method'"),
        ("metric,dataset,method,mean,mean\n", r"line 1: the column 'mean' appears twice"),
        (HEADER + "P@1,birds,A,1.0,0.1\nP@1,birds,B,1.o,0.1\n", r"line 3: mean is '1\.o', which is not a number"),
        (HEADER + "P@1,birds,A,nan,0.1\n", r"line 2: mean is 'nan'; it must be finite"),
        (HEADER + "P@1,birds,A,1.0,-1\n", r"line 2: std is -1; a standard deviation is not negative"),
        (HEADER + "P@1,birds,A,1.0\n", r"line 2: expected 5 columns as in the header, but there are 4"),
        (HEADER + "P@1,,A,1.0,0.1\n", r"line 2: dataset is empty"),
        (HEADER + "P@1,birds,A,1,1\n\nP@1,birds,A,2,1\n", r"line 4: P@1 of A on birds was already given in line 2"),
        (HEADER + 'P@1,birds,"A,1,1\n', r"line 2: is not CSV"),
        ("metric,dataset,method,mean,n_folds\nP@1,birds,A,1,ten\n", r"line 2: n_folds is 'ten'"),
    ],
)
def test_bad_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_summaries(written(tmp_path, text))


def test_what_is_not_a_text_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_summaries(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="is a directory"):
        read_summaries(tmp_path)
    (tmp_path / "binary.csv").write_bytes(b"metric\xff\xfe")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_summaries(tmp_path / "binary.csv")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            Summary,
            names,
            names,
            names,
            numbers,
            st.none() | numbers.map(abs),
            st.none() | st.integers(min_value=1, max_value=1000),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda row: (row.metric, row.dataset, row.method),
    )
)
def test_summaries_survive_the_file(tmp_path_factory: pytest.TempPathFactory, rows: list[Summary]) -> None:
    path = tmp_path_factory.mktemp("summaries") / "rows.csv"
    assert read_summaries(write_summaries(path, rows)) == rows


def test_missing_cell_is_named() -> None:
    rows = [Summary("P@1", d, m, 1.0) for d in ("birds", "emotions") for m in ("A", "B")]
    with pytest.raises(DataError, match=r"mine\.csv: P@1 of B on emotions is missing\. Ranks need"):
        scores_by_metric(rows[:-1], source="mine.csv")
    assert {row.dataset for row in rankable_part(rows[:-1])} == {"birds"}


def test_one_method_that_was_run_on_few_data_sets_does_not_remove_the_others() -> None:
    rows = [Summary("P@1", d, m, 1.0) for d in ("birds", "emotions", "scene") for m in ("A", "B")]
    assert rankable_part([*rows, Summary("P@1", "birds", "C", 1.0)]) == rows
    assert rankable_part(rows[:1]) == []


def test_ranks_need_two_methods_and_two_data_sets() -> None:
    with pytest.raises(DataError, match=r"only one method \(A\)"):
        scores_by_metric([Summary("P@1", d, "A", 1.0) for d in ("birds", "emotions")])
    with pytest.raises(DataError, match=r"only one data set \(birds\)"):
        scores_by_metric([Summary("P@1", "birds", m, 1.0) for m in ("A", "B")])


def test_matrix_holds_each_mean_at_its_place() -> None:
    rows = [Summary("P@1", d, m, v) for v, (d, m) in enumerate([("x", "A"), ("y", "B"), ("x", "B"), ("y", "A")])]
    scores = scores_by_metric(rows)["P@1"]
    assert (scores.datasets, scores.methods) == (("x", "y"), ("A", "B"))
    np.testing.assert_array_equal(scores.values, [[0, 2], [3, 1]])


def test_summary_of_folds_is_in_per_cent_with_sample_deviation() -> None:
    scores = [0.5, 0.6, 0.7]
    made = [make_record("birds", "A", fold, score) for fold, score in enumerate(scores)]
    row = next(row for row in summarize(made) if row.metric == "P@1")
    assert row.mean == pytest.approx(60)
    assert row.std == pytest.approx(10)
    assert row.n_folds == 3
    assert fold_scores(reversed(made), "P@1")["birds", "A"] == pytest.approx({0: 50, 1: 60, 2: 70})


def test_one_fold_has_no_deviation() -> None:
    assert summarize([make_record("birds", "A", 0, 0.5)])[0].std == 0


def test_two_records_of_a_fold_are_refused() -> None:
    with pytest.raises(DataError, match="A on birds, fold 3: two records of the same fold"):
        summarize([make_record("birds", "A", 3, 0.5)] * 2)


def test_folds_with_other_metrics_are_refused() -> None:
    other = make_record("birds", "A", 1, 0.5, metrics={"P@1": 0.5})
    with pytest.raises(DataError, match="fold 1: its metrics differ from those of fold 0"):
        summarize([make_record("birds", "A", 0, 0.5), other])


def test_training_time_is_the_mean_over_folds() -> None:
    made = [make_record("birds", "A", fold, 0.5, fit_seconds=s) for fold, s in enumerate([1.0, 3.0])]
    assert mean_fit_seconds(made) == {"birds": {"A": 2.0}}


def test_measurements_summarize_methods_with_all_folds() -> None:
    made = [make_record("birds", method, fold, 0.5) for method in "AB" for fold in range(3)]
    assert {row.method for row in Measurements(made[:-1], n_folds=3).summaries} == {"A"}


# The paper's printed results, and whether measured ones keep up with them


def test_verdict():
    published = [Summary("P@1", "a", "SLDL", 50.0, 2.0), Summary("P@1", "b", "SLDL", 50.0, 2.0)]

    def judged(a, b):
        measured = [Summary("P@1", name, "SLDL", mean, 1.0, 10) for name, mean in (("a", a), ("b", b))]
        return verdict(agreements(published, measured, "SLDL"))

    assert judged(52.0, 48.0)[0]
    holds, words = judged(60.0, 47.0)
    assert not holds and "lowest -1.50 published deviations (P@1 on b" in words
    assert not judged(49.9, 50.0)[0]
    assert not verdict([])[0]


def test_the_published_ablation_is_read_where_it_lies_beside(tmp_path):
    (tmp_path / "results.csv").write_text("metric,dataset,method,mean,std\nP@1,small,SLDL,50,5\n")
    (tmp_path / "ablation_p_at_5.csv").write_text("dataset,case,mean,std\nsmall,w/o GE,10.5,1\n")
    assert read_published(tmp_path).ablation == [Summary("P@5", "small", "w/o GE", 10.5, 1.0)]
    (tmp_path / "ablation_p_at_5.csv").write_text("dataset,case,mean\nsmall,w/o GE,10.5\n")
    with pytest.raises(DataError, match=r"ablation_p_at_5.csv, line 1: has no column 'std'"):
        read_published(tmp_path / "results.csv")
    (tmp_path / "ablation_p_at_5.csv").write_text("dataset,case,mean,std\nsmall,w/o GE,10.5,one\n")
    with pytest.raises(DataError, match=r"ablation_p_at_5.csv, line 2: std is 'one', which is not a number"):
        read_published(tmp_path / "results.csv")


def test_the_comparison_file_has_distances_in_published_deviations(tmp_path):
    published = [Summary("P@1", "a", "SLDL", 50.0, 2.0)]
    measured = [Summary("P@1", "a", "random", 47.0, 1.0, 10), Summary("P@1", "unpublished", "SLDL", 1.0)]
    path = write_comparison(agreements(published, measured, "SLDL"), tmp_path / "comparison.csv")
    assert path.read_text().splitlines() == [
        "dataset,metric,method,measured,measured_std,published,published_std,deviations",
        "a,P@1,random,47.000000,1.000000,50.000000,2.000000,-1.500000",
    ]
