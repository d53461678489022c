"""Rows and labels that come later: all else stays as it is in the data, and the codes are those of a refit."""

import json

import numpy as np
import pytest

from pysldl.datasets import read_npz


def test_new_labels_take_over_rows_and_nothing_else_changes(small_file):
    from online import with_new_labels

    Y = read_npz(small_file).Y
    wide = with_new_labels(Y, n_later=100, n_new=3)
    assert wide.shape == (Y.shape[0], Y.shape[1] + 3)
    assert wide[:-100, : Y.shape[1]].nnz == Y[:-100].nnz
    assert not wide[:-100, Y.shape[1] :].nnz
    assert (np.diff(wide.indptr) == np.diff(Y.indptr)).all()
    assert (np.bincount(wide.indices)[Y.shape[1] :] >= 3).all()
    with pytest.raises(SystemExit, match="fewer than 25 labels"):
        with_new_labels(Y, n_later=20, n_new=25)


@pytest.mark.parametrize(
    "preset", ["paper(embedding=RandomLabelEmbedding(8))", "accurate(decoder__limit=0, ranker__limit=0)"]
)
@pytest.mark.filterwarnings("ignore:.*labels have no training examples:pysldl.exceptions.SLDLWarning")
def test_an_update_is_compared_with_a_fit(small_file, command_line, monkeypatch, capsys, preset, tmp_path):
    import online
    from records import read_rows

    monkeypatch.setattr(online, "measured_apart", lambda script, options, threads: online.measure(options))
    monkeypatch.setattr(online, "WARM_UP_ROWS", 100)
    arguments = ("--data", small_file, "--preset", preset, "--rows", 60, "--labels", 2, "--check")
    command_line(*arguments, "--json", "--record", tmp_path / "record.csv")
    online.main()
    found = json.loads(capsys.readouterr().out)
    assert found["share"] == pytest.approx(found["update_s"] / found["fit_s"])
    assert ("largest_difference_of_codes" in found) == preset.startswith("paper")
    assert found.get("largest_difference_of_codes", 0.0) < 1e-5
    (row,) = read_rows(tmp_path / "record.csv")
    assert row["preset"] == preset and row["share"] == pytest.approx(found["share"], rel=1e-6)
    command_line(*arguments)
    online.main()
    assert "of the fit" in capsys.readouterr().out
