"""Sparse matrices of a model folder take fewer bytes and come back as they were."""

import numpy as np
import pytest
from scipy import sparse

from pysldl.backend.half_precision import round_to_half
from pysldl.persistence.decoding import TreeDecoder
from pysldl.persistence.encoding import TreeEncoder
from pysldl.persistence.packing import pack, unpack_indices, unpack_values, widened


def random_matrix(shape, density, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.random_array(shape, density=density, random_state=rng, format="csr", dtype=np.float32)


def wide_matrix():
    """Gaps of one to five bytes, an empty row at either end, and one in between."""
    columns = np.array([0, 127, 128, 129, 16_600, 2_200_000, 270_000_000, 2**31 - 3, 5, 2**31 - 2], dtype=np.int32)
    indptr = np.array([0, 0, 8, 8, 10, 10], dtype=np.int32)
    return sparse.csr_array((np.arange(10, dtype=np.float32), columns, indptr), shape=(5, 2**31 - 1))


def round_trip(value):
    encoder = TreeEncoder()
    node = encoder.encode(value, "where")
    return node, TreeDecoder("here", encoder.arrays, encoder.strings).decode(node)


@pytest.mark.parametrize(
    "matrix",
    [
        random_matrix((300, 500), 0.1),
        random_matrix((40, 100_000), 0.01),
        random_matrix((7, 9), 0.0),
        sparse.csr_array((0, 4), dtype=np.float32),
        wide_matrix(),
        sparse.csr_matrix(random_matrix((30, 40), 0.2).astype(np.float64)),
    ],
    ids=["small", "wide", "empty", "no rows", "five bytes", "double precision"],
)
def test_a_matrix_comes_back_bit_for_bit(matrix):
    node, back = round_trip(matrix)
    assert node["kind"] == "packed_csr" and type(back) is type(matrix) and back.dtype == matrix.dtype
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(back, part), getattr(matrix, part))


def test_values_take_half_the_bytes_or_one_number_where_nothing_is_lost():
    matrix = random_matrix((100, 100), 0.2)
    assert pack(matrix)[1].dtype == np.float32
    matrix.data = round_to_half(matrix.data + np.float32(0.1))
    gaps, values = pack(matrix)
    assert values.dtype == np.float16 and gaps.nbytes + values.nbytes < 3.1 * matrix.nnz
    matrix.data[:] = 1
    assert pack(matrix)[1].tolist() == [1.0]
    np.testing.assert_array_equal(round_trip(matrix)[1].toarray(), matrix.toarray())


def test_wide_indices_are_packed_and_stay_wide():
    matrix = random_matrix((30, 40), 0.2)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    node, back = round_trip(matrix)
    assert node["kind"] == "packed_csr" and back.indices.dtype == np.int64 and (back != matrix).nnz == 0


def test_columns_that_do_not_ascend_are_stored_as_they_are():
    matrix = sparse.csr_array((np.ones(3, np.float32), np.array([2, 0, 0], np.int32), np.array([0, 3], np.int32)))
    node, back = round_trip(matrix)
    assert node["kind"] == "csr" and back.indices.tolist() == [2, 0, 0]


def test_a_matrix_that_two_attributes_share_is_stored_once_and_shared_again():
    matrix = random_matrix((30, 40), 0.2)
    encoder = TreeEncoder()
    node = encoder.encode([matrix, matrix], "where")
    assert len(encoder.arrays) == 3
    first, second = TreeDecoder("here", encoder.arrays, encoder.strings).decode(node)
    assert first is second


@pytest.mark.parametrize(
    "damage",
    [
        lambda gaps, indptr: (gaps[:-1], indptr),
        lambda gaps, indptr: (np.append(gaps, np.uint8(3)), indptr),
        lambda gaps, indptr: (np.append(gaps[:-1], np.uint8(200)), indptr),
        lambda gaps, indptr: (np.full(6, 255, np.uint8), indptr),
        lambda gaps, indptr: (np.concatenate([np.full(6, 255, np.uint8), gaps]), indptr),
        lambda gaps, indptr: (gaps + np.uint8(100), indptr),
        lambda gaps, indptr: (gaps, indptr[::-1]),
        lambda gaps, indptr: (gaps, indptr + 1),
        lambda gaps, indptr: (gaps, np.append(indptr[:-1], np.int64(2**45))),
    ],
)
def test_damaged_gaps_are_an_error(damage):
    matrix = random_matrix((20, 60), 0.4)
    gaps, indptr = damage(pack(matrix)[0], matrix.indptr)
    with pytest.raises(ValueError, match="packed matrix"):
        unpack_indices(gaps, indptr, 60)


def test_as_many_values_as_columns():
    with pytest.raises(ValueError, match="values"):
        unpack_values(np.ones(3, np.float32), 4, np.float32)


def test_numbers_out_of_the_range_of_halves_stay_as_they_are():
    for values in ([1e5, 1.0], [1e-6, 1.0]):
        given = np.array(values, dtype=np.float32)
        np.testing.assert_array_equal(round_to_half(given), given)
    assert round_to_half(np.zeros(0, np.float32)).size == 0


@pytest.mark.parametrize("at_once", [5, 6, 64])
def test_parts_of_a_matrix_may_end_within_rows(monkeypatch, at_once):
    monkeypatch.setattr("pysldl.persistence.packing.ENTRIES_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.choice(2**31 - 1, size, replace=False)) for size in (0, 3, 40, 0, 1, 25, 0)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    indices = np.concatenate(rows).astype(np.int32)
    halves = rng.integers(0, 9, len(indices)).astype(np.float32)
    matrix = sparse.csr_array((halves, indices, indptr), shape=(len(rows), 2**31 - 1))
    gaps, values = pack(matrix)
    assert np.array_equal(unpack_indices(gaps, indptr, 2**31 - 1), indices)
    assert values.dtype == np.float16 and np.array_equal(values, halves)
    assert (
        pack(sparse.csr_array((halves + np.float32(1e-5), indices, indptr), shape=matrix.shape))[1].dtype == np.float32
    )


STEPS = np.arange(-127, 128, dtype=np.float32).reshape(17, 15) / 128


@pytest.mark.parametrize(
    ("array", "stored"),
    [
        (STEPS, np.int8),
        (np.asfortranarray(STEPS), np.int8),
        (STEPS / 3, np.float32),
        (round_to_half(np.random.default_rng(0).normal(size=(9, 7)).astype(np.float32)), np.float16),
        (np.array([[-1.0, 0.5]], dtype=np.float32), np.float16),
        (np.array([[-0.0, 0.5]], dtype=np.float32), np.float16),
        (np.full((3, 3), 1e-9, dtype=np.float32), np.float32),
        (STEPS.astype(np.float64), np.float64),
        (np.empty((0, 3), dtype=np.float32), np.float32),
    ],
    ids=[
        "bytes",
        "by columns",
        "no steps",
        "halves",
        "beyond the steps",
        "sign of zero",
        "too small",
        "double",
        "empty",
    ],
)
def test_dense_arrays_take_the_fewest_bytes_that_lose_nothing(array, stored):
    encoder = TreeEncoder()
    node = encoder.encode(array, "where")
    found = TreeDecoder("here", encoder.arrays, encoder.strings).decode(node)
    assert encoder.arrays["where"].dtype == stored
    assert found.dtype == array.dtype and found.shape == array.shape
    assert found.flags.c_contiguous == array.flags.c_contiguous
    assert (found == array).all() and (np.signbit(found) == np.signbit(array)).all()


@pytest.mark.parametrize(("array", "scale"), [(STEPS, 128), (np.ones((2, 2), np.int8), 7), (np.ones(3, np.int64), 1)])
def test_narrow_arrays_of_another_kind_are_refused(array, scale):
    with pytest.raises(ValueError, match="narrow array"):
        widened(array, scale)


@pytest.mark.parametrize("value", [1.0, 2.658456e36, np.inf, np.nan])
def test_what_is_not_below_one_is_no_byte(value):
    array = np.array([[value, 0.5]], dtype=np.float32)
    _, back = round_trip(array)
    np.testing.assert_array_equal(back, array)
