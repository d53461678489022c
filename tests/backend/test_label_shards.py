"""Rows of labels in blocks, and classifiers in shards of labels: what comes out is what comes out at once."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend import label_shards
from pysldl.backend.label_problems import label_problems, without_rows
from pysldl.backend.label_shards import HeldCandidates, fit_label_rows, label_rows
from pysldl.backend.workspace import Workspace, use_workspace
from pysldl.ranking import LinearRanker
from pysldl.ranking.centroids import LabelCentroids

N_ROWS, N_LABELS = 120, 11


class Shards(Workspace):
    """Many shards, one after the other."""

    n_shards = 4


@pytest.fixture
def blocks_of_rows(monkeypatch):
    """Blocks, and rows of a shard that are copied, as of many rows."""
    for module in ("backend.label_shards", "neighbors.inverted_index"):
        for name in ("FEWEST_ROWS", "ROWS_AT_ONCE"):
            monkeypatch.setattr(f"pysldl.{module}.{name}", 13)
    monkeypatch.setattr("pysldl.ranking.centroids.ROWS_AT_ONCE", 13)
    return Shards()


@pytest.fixture
def rows():
    rng = np.random.RandomState(0)
    X = sparse.random_array((N_ROWS, 30), density=0.3, random_state=rng, format="csr", dtype=np.float32)
    Y = sparse.random_array((N_ROWS, N_LABELS), density=0.15, random_state=rng, format="csr")
    candidates = rng.randint(-1, N_LABELS, (N_ROWS, 2)).astype(np.int32)
    return sparse.csr_array(X), sparse.csr_array(Y > 0).astype(np.float32), candidates


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("data", "indices", "indptr"))


def test_blocks_hold_the_rows_of_all_labels(blocks_of_rows, rows):
    _, Y, candidates = rows
    everywhere, out = np.array([2, 6], dtype=np.int32), np.arange(5, 20)
    late = np.roll(candidates, 1, axis=0)
    with use_workspace(blocks_of_rows):
        found = label_rows([candidates[:, :1], candidates[:, 1:]], Y, everywhere, late)
    assert len(found.blocks) > 1
    for left_out in (None, out):
        whole = label_problems(candidates, Y, everywhere=everywhere, late=late, left_out=left_out)
        whole = whole if left_out is None else without_rows(whole, left_out, N_ROWS)
        for labels in (np.arange(N_LABELS), np.array([1, 2, 9])):
            some = found.of_labels(labels)
            some = some if left_out is None else without_rows(some, left_out, N_ROWS)
            for label in range(N_LABELS):
                expected = whole.rows[whole.indptr[label] : whole.indptr[label + 1]]
                own = some.rows[some.indptr[label] : some.indptr[label + 1]]
                assert own.tolist() == (expected.tolist() if label in labels else [])
                if left_out is None and label in labels:
                    is_late = slice(whole.indptr[label], whole.indptr[label + 1])
                    assert (some.late[some.indptr[label] : some.indptr[label + 1]] == whole.late[is_late]).all()


@pytest.mark.parametrize("copied_bytes", [0, 1 << 20], ids=["in place", "copied"])
def test_classifiers_of_shards_are_those_of_all_labels(blocks_of_rows, rows, monkeypatch, copied_bytes):
    monkeypatch.setattr(label_shards, "COPIED_BYTES", copied_bytes)
    X, Y, candidates = rows
    settings = {"C": 1.0, "positive_weight": None, "max_epochs": 50, "tol": 0.1, "min_weight": 0.01}
    held = np.array([100, 3, 40])
    settings["held"] = HeldCandidates(held, candidates[held])
    everywhere, late = np.zeros(0, dtype=np.int32), np.roll(candidates, 1, axis=0)
    whole = fit_label_rows(X, label_rows([candidates], Y, everywhere, late), **settings)
    with use_workspace(blocks_of_rows):
        found = fit_label_rows(X, label_rows([candidates], Y, everywhere, late), **settings)
    assert same(found[0], whole[0]) and np.array_equal(found[1], whole[1])
    assert np.array_equal(found[2], whole[2]) and np.array_equal(np.isneginf(whole[2]), candidates[held] < 0)


@pytest.mark.parametrize("left_out", [None, np.arange(30, 60)], ids=["all rows", "some rows"])
def test_centroids_of_shards_are_those_of_all_labels(blocks_of_rows, rows, left_out):
    X, Y, _ = rows
    whole = LabelCentroids(n_terms=5, label_terms=6).fit(X, Y, left_out=left_out)
    with use_workspace(blocks_of_rows):
        found = LabelCentroids(n_terms=5, label_terms=6).fit(X, Y, left_out=left_out)
        assert np.array_equal(found.candidates_of_all(X, 4), whole.candidates(X, 4))
    assert same(found.index_.postings_, whole.index_.postings_)


def test_a_ranker_fitted_in_shards_is_the_same(blocks_of_rows, rows):
    X, Y, candidates = rows
    votes = np.where(candidates >= 0, np.float32(0.5), np.float32(0))
    ranker = LinearRanker(2, n_frequent=1, n_centroid_candidates=3, C=None, propensity=(0.55, 1.5))
    late = np.roll(candidates, 1, axis=0)
    whole = ranker.fit(X, Y, candidates, votes, np.random.RandomState(0), late=late)
    whole = {name: getattr(whole, name) for name in (*ranker._saved_state, "held_candidates_")}
    with use_workspace(blocks_of_rows):
        found = ranker.fit(X, Y, candidates, votes, np.random.RandomState(0), late=late)
    assert same(found.W_, whole["W_"]) and np.array_equal(found.bias_, whole["bias_"])
    assert (found.C_, found.vote_power_) == (whole["C_"], whole["vote_power_"])
    assert all(np.array_equal(a, b) for a, b in zip(found.held_candidates_, whole["held_candidates_"], strict=True))
