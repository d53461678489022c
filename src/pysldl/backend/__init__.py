"""Primitives that the stages compute with, each in NumPy and, where it pays, in numba and torch; threads; the device.

A stage calls a function of these modules. Which form of it runs is decided in :mod:`pysldl.backend.dispatch`.
"""
