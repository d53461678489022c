"""Arithmetic with the same bits on every processor, with and without a compiler, and on a GPU.

Two things make the last bit of a result depend on the machine: the order in which a long sum is added up, which follows
the number of threads and the width of vector registers, and functions such as the exponential, of which every library
has its own. Where small differences grow, as in a descent of a thousand steps, both are avoided here:

- Sums are exact. Factors are rounded to so few bits that all products and their sums fit into the 53 bits of double
  precision. Then nothing is rounded while adding up, and every order gives the same result (the idea of Ozaki et al.,
  "Error-free transformations of matrix multiplication", 2012).
- Functions are polynomials evaluated with additions and multiplications, which IEEE 754 defines to the last bit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pysldl.backend.dispatch import primitive
from pysldl.backend.threads import matmul

MANTISSA = 53
TERM_BITS = 40  # of what is only added up: sums of 4,096 such terms are exact
LN2_HIGH = 0.693147180369123816490  # the leading bits of ln 2, so that its product with an exponent is exact
LN2_LOW = 1.90821492927058770002e-10
PER_LN2 = 1.0 / (LN2_HIGH + LN2_LOW)
COMPILED_SIZE = 1 << 12  # smaller arrays are done before a compiled loop is called
# 1/0!, 1/1!, ..., 1/13!: enough terms for arguments of at most ln(2)/2.
EXP_TERMS = tuple(1.0 / float(factorial) for factorial in np.cumprod([1, *range(1, 14)], dtype=np.int64))
# 2/1, 2/3, ..., 2/23: the series of log((1 + s)/(1 - s)) in odd powers of s, for s of at most 0.172.
LOG_TERMS = tuple(2.0 / odd for odd in range(1, 24, 2))

VALUES_AT_ONCE = 1 << 18

Array = NDArray[np.float64]


def exp(x: Any) -> Array:
    """The exponential of values from -700 to 700, within two units in the last place, with the same bits everywhere.

    Examples
    --------
    >>> exp([0.0, 1.0]).round(6)
    array([1.      , 2.718282])
    """
    x = np.asarray(x, dtype=np.float64)
    return exp_of_many(x) if x.size >= COMPILED_SIZE else _polynomial_exp(x)


@primitive(numba=True)
def exp_of_many(x: Array) -> Array:
    """:func:`exp` of an array so large that compiled loops pay."""
    return _polynomial_exp(x)


def _polynomial_exp(x: Array) -> Array:
    power = np.rint(x * PER_LN2)
    rest = x - power * LN2_HIGH
    rest -= power * LN2_LOW
    value = np.full_like(rest, EXP_TERMS[-1])
    for term in reversed(EXP_TERMS[:-1]):
        value *= rest
        value += term
    return np.ldexp(value, power.astype(np.int32))


def log(x: Any) -> Array:
    """The natural logarithm of positive finite values, with the same bits everywhere.

    Examples
    --------
    >>> log([1.0, 2.0, 0.1]).round(6)
    array([ 0.      ,  0.693147, -2.302585])
    """
    fraction, power = np.frexp(np.asarray(x, dtype=np.float64))
    small = fraction < np.sqrt(0.5)
    fraction = np.where(small, 2.0 * fraction, fraction)
    power = (power - small).astype(np.float64)
    s = (fraction - 1.0) / (fraction + 1.0)
    square = s * s
    value = np.full_like(s, LOG_TERMS[-1])
    for term in reversed(LOG_TERMS[:-1]):
        value *= square
        value += term
    value *= s
    value += power * LN2_LOW
    value += power * LN2_HIGH
    return value


def product_bits(n_terms: int) -> int:
    """To how many bits both factors must be rounded for sums of ``n_terms`` products to be exact.

    Examples
    --------
    >>> product_bits(256)
    22
    """
    return (MANTISSA - max(int(n_terms) - 1, 0).bit_length()) // 2


@primitive(torch="tensors")
def round_to_bits(x: Array, bits: int, axis: int | None = None) -> Array:
    """Every value rounded to a multiple of ``2 ** -bits`` of the largest along ``axis``, or of all.

    The spacing is a power of two, so that sums and products of the rounded values are exact as long as they need no
    more than 53 bits. ``bits`` are from 1 to 51; each slice along ``axis`` has a spacing of its own.

    Examples
    --------
    >>> round_to_bits(np.array([1.0, 0.3]), 3)
    array([1.  , 0.25])
    """
    largest = np.max(np.abs(x), axis=axis, keepdims=axis is not None, initial=0.0)
    # |x| < 2 ** exponent. A number between 2 ** (52 + k) and 2 ** (53 + k) is a multiple of 2 ** k: adding this anchor
    # rounds to such multiples, and taking it away again is exact.
    exponent = np.frexp(largest)[1]
    anchor = np.ldexp(1.5, exponent - bits + MANTISSA - 1)
    rounded: Array = x + anchor
    rounded -= anchor
    return rounded


def matmul_exact(A: Array, B: Array, *, slices: int = 1, out: Array | None = None) -> Array:
    """``A @ B`` from rounded factors, with the same bits for every order of the sums.

    Rows of ``A`` and columns of ``B`` are rounded relative to their largest entry, to about 22 bits for 256 terms.
    With two ``slices`` what the rounding leaves over is multiplied too, for about twice as many bits.

    Examples
    --------
    >>> matmul_exact(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    bits = product_bits(A.shape[1])
    A_high, B_high = round_to_bits(A, bits, axis=1), round_to_bits(B, bits, axis=0)
    product = multiply(A_high, B_high, out)
    if slices > 1:
        A_low, B_low = round_to_bits(A - A_high, bits, axis=1), round_to_bits(B - B_high, bits, axis=0)
        product += multiply(A_high, B_low)
        product += multiply(A_low, B_high)
    return product


@primitive(torch="tensors")
def multiply(A: Array, B: Array, out: Array | None = None) -> Array:
    """``A @ B``, on the processor or where the arrays are; all sums must be exact."""
    return matmul(A, B, out)


@primitive(torch="tensors")
def hstack(left: Array, right: Array) -> Array:
    """Two matrices side by side."""
    return np.hstack([left, right])


@primitive(torch="tensors")
def power_of_two(x: Array) -> float:
    """The power of two just above the largest absolute value."""
    return float(np.ldexp(1.0, np.frexp(np.max(np.abs(x), initial=0.0))[1]))


@primitive(numba=True)
def listed_products(
    left: NDArray[np.floating], right: NDArray[np.floating], listed: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Inner products of each row of ``left`` with the rows of ``right`` listed for it; 0 beside a row of -1.

    Both must be rounded, so that sums of their products in double precision are exact.
    """
    found = np.zeros(listed.shape)
    step = max(1, VALUES_AT_ONCE // max(listed.shape[1] * left.shape[1], 1))
    for start in range(0, len(left), step):
        rows = slice(start, start + step)
        products = np.einsum("ak,alk->al", left[rows].astype(np.float64), right[listed[rows]].astype(np.float64))
        found[rows] = np.where(listed[rows] < 0, 0.0, products)
    return found
