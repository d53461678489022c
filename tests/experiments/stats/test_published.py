"""The paper's printed results, and whether measured ones keep up with them."""

import pytest

from pysldl.exceptions import DataError
from pysldl.experiments.stats.results import Summary, agreements, read_published, verdict, write_comparison


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
    with pytest.raises(DataError, match=r"ablation_p_at_5.csv, line 2: mean and std must be numbers"):
        read_published(tmp_path / "results.csv")


def test_the_comparison_file_has_distances_in_published_deviations(tmp_path):
    published = [Summary("P@1", "a", "SLDL", 50.0, 2.0)]
    measured = [Summary("P@1", "a", "random", 47.0, 1.0, 10), Summary("P@1", "unpublished", "SLDL", 1.0)]
    path = write_comparison(agreements(published, measured, "SLDL"), tmp_path / "comparison.csv")
    assert path.read_text().splitlines() == [
        "dataset,metric,method,measured,measured_std,published,published_std,deviations",
        "a,P@1,random,47.000000,1.000000,50.000000,2.000000,-1.500000",
    ]
