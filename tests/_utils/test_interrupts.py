"""Ctrl-C is found behind other errors, and looking for it ends."""

from pysldl._utils.light_estimator import comes_from_interrupt


def test_an_interrupt_behind_other_errors():
    error = SystemError()
    error.__cause__ = ValueError()
    error.__cause__.__context__ = KeyboardInterrupt()
    assert comes_from_interrupt(error) and not comes_from_interrupt(ValueError())


def test_errors_that_lie_behind_each_other():
    first, second = OSError(), ValueError()
    first.__context__, second.__cause__ = second, first
    assert not comes_from_interrupt(first)
