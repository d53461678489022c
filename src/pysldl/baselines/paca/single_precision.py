"""Exponential and logarithm in single precision, for compiled loops.

They are polynomials that the compiler turns into vector instructions, good to about two units in the last place. No
library's are called: a call for every number would take most of a loop's time.
"""

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["COMMON", "exponential", "log_of_one_plus", "logarithm"]

# Sums may be reordered and products fused.
COMMON: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
ONE, TWO, INFINITE = np.float32(1.0), np.float32(2.0), np.float32(np.inf)
LOG2_E, LOG_2 = np.float32(1.44269504), np.float32(0.69314718)
# The logarithm of 2 in two pieces: the first has so few digits that whole multiples of it are exact.
LOG_2_HIGH, LOG_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
SMALLEST_EXPONENT = np.float32(-87.0)  # of a number that single precision holds in full


@intrinsic
def _power_of_two(typing_context, whole):  # type: ignore[no-untyped-def]
    """2 to a whole number in single precision: that number written where a float keeps its exponent."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        number = builder.fptosi(arguments[0], ir.IntType(32))
        biased = builder.add(number, ir.Constant(ir.IntType(32), 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(ir.IntType(32), 23)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _exponent(typing_context, x):  # type: ignore[no-untyped-def]
    """The whole number e of a positive ``x = 2**e * rest`` with a rest in [1, 2)."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits = builder.bitcast(arguments[0], ir.IntType(32))
        biased = builder.lshr(bits, ir.Constant(ir.IntType(32), 23))
        return builder.sitofp(builder.sub(biased, ir.Constant(ir.IntType(32), 127)), ir.FloatType())

    return types.float32(types.float32), generate


@intrinsic
def _rest(typing_context, x):  # type: ignore[no-untyped-def]
    """That rest."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits = builder.bitcast(arguments[0], ir.IntType(32))
        digits = builder.and_(bits, ir.Constant(ir.IntType(32), 0x7FFFFF))
        return builder.bitcast(builder.or_(digits, ir.Constant(ir.IntType(32), 0x3F800000)), ir.FloatType())

    return types.float32(types.float32), generate


@njit(inline="always", **COMMON)
def exponential(x):  # type: ignore[no-untyped-def]
    """Of x of at most 0; what is not a number stays so."""
    x = SMALLEST_EXPONENT if x < SMALLEST_EXPONENT else x
    whole = np.floor(x * LOG2_E + np.float32(0.5))
    r = x - whole * LOG_2_HIGH - whole * LOG_2_LOW
    series = np.float32(1.9875691500e-4)
    series = series * r + np.float32(1.3981999507e-3)
    series = series * r + np.float32(8.3334519073e-3)
    series = series * r + np.float32(4.1665795894e-2)
    series = series * r + np.float32(1.6666665459e-1)
    series = series * r + np.float32(5.0000001201e-1)
    return (series * r * r + r + ONE) * _power_of_two(whole)


@njit(inline="always", **COMMON)
def log_of_one_plus(e):  # type: ignore[no-untyped-def]
    """Of e in [0, 1], by the series of the area tangent of ``e / (2 + e)``, at most 1/3."""
    s = e / (TWO + e)
    t = s * s
    series = np.float32(2 / 13)
    series = series * t + np.float32(2 / 11)
    series = series * t + np.float32(2 / 9)
    series = series * t + np.float32(2 / 7)
    series = series * t + np.float32(2 / 5)
    series = series * t + np.float32(2 / 3)
    return s * (series * t + TWO)


@njit(inline="always", **COMMON)
def logarithm(x):  # type: ignore[no-untyped-def]
    """Of positive x; what is not a number stays so."""
    return _exponent(x) * LOG_2 + log_of_one_plus(_rest(x) - ONE) if x < INFINITE else x
