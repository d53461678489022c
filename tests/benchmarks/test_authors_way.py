"""The authors' way computes what the library computes, only slowly; and the comparison says what it ran."""

import json

import numpy as np
import pytest

from pysldl.backend.divergence import kl_divergence
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding.label_graph import cooccurrence, transfer_matrix

torch = pytest.importorskip("torch")


def test_authors_graph_and_divergence_are_ours():
    from authors_code import label_graph, pairwise_kl, rank_labels

    Y = make_asymmetric_multilabel(200, 60, 20).Y
    A = label_graph(Y.toarray())
    np.testing.assert_array_equal(A, cooccurrence(Y).toarray())
    ranking = rank_labels(A).numpy()
    assert (np.diff(np.take_along_axis(transfer_matrix(cooccurrence(Y)), ranking, axis=1), axis=1) <= 1e-6).all()

    rng = np.random.default_rng(0)
    mu, log_var = rng.normal(size=(2, 6, 3)).astype(np.float32)
    theirs = pairwise_kl(torch.from_numpy(mu), torch.exp(torch.from_numpy(log_var)))
    np.testing.assert_allclose(theirs.numpy(), kl_divergence(mu, log_var).T, rtol=1e-4, atol=1e-4)


def test_both_sides_are_run_and_extrapolation_is_said(small_file, command_line, monkeypatch, capsys, tmp_path):
    import authors_way
    from records import read_rows

    monkeypatch.setattr(authors_way, "measured_apart", lambda script, options, threads: authors_way.measure(options))
    arguments = ("--dataset", small_file, "--c-hat", 4, "--k", 10, "--steps", 2)
    command_line(*arguments, "--json", "--record", tmp_path / "record.csv")
    authors_way.main()
    results = json.loads(capsys.readouterr().out)
    assert [result["side"] for result in results] == [*authors_way.OURS, authors_way.AUTHORS]
    rows = read_rows(tmp_path / "record.csv")
    assert [row["side"] for row in rows] == [result["side"] for result in results]
    assert [row["extrapolated_from_steps"] for row in rows] == [None, None, 2]
    assert rows[0]["mapping_s"] > 0 and rows[0]["seconds"] == pytest.approx(results[0]["seconds"], rel=1e-6)
    authors = results[-1]
    assert authors["extrapolated_from_steps"] == 2 and authors["ratio"] == 1
    assert set(authors["stages"]) >= set(authors_way.STAGES)
    stages = sum(spent["seconds"] for spent in authors["stages"].values())
    assert stages == pytest.approx(authors["seconds"])
    assert all(result["metrics"]["P@1"] > 0.3 and result["peak_mb"] > 10 for result in results)

    command_line(*arguments)
    authors_way.main()
    assert "EXTRAPOLATED to 50" in capsys.readouterr().out
