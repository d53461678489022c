"""The torch forms of the primitives: functions of the same name and arguments as in :mod:`pysldl.backend`.

They take and give NumPy arrays, or tensors where the caller keeps its arrays on the device. torch is imported inside
:func:`pysldl.backend.dispatch.use_device` only.
"""
