"""The benchmark of the cost over rows: its texts and its exponent."""

import numpy as np


def test_rows_are_like_a_text_and_do_not_depend_on_how_many_follow():
    from rows import N_LABELS, N_WORDS, text_like_rows

    X, Y = text_like_rows(2000)
    assert X.shape == (2000, N_WORDS) and Y.shape == (2000, N_LABELS) and set(Y.data) == {1.0}
    np.testing.assert_allclose(np.sqrt((X.toarray() ** 2).sum(axis=1)), 1.0, atol=1e-5)
    in_rows = np.sort(np.bincount(X.indices, minlength=N_WORDS))[::-1]
    assert in_rows[0] > 500 and np.count_nonzero(in_rows == 1) > 1000


def test_the_exponent_is_the_slope_of_the_logarithms():
    from rows import as_table, exponent

    runs = [
        {"system": "accurate", "rows": n, "train_processor_s": n**1.5, "stages": {"ranker": 2.0 * n}, "peak_mb": 1.0}
        for n in (100, 400, 1600)
    ]
    assert abs(exponent(runs) - 1.5) < 1e-9 and abs(exponent(runs, "ranker") - 1) < 1e-9
    assert exponent(runs[:1]) is None
    assert "1.50" in as_table("text", runs).to_markdown()
