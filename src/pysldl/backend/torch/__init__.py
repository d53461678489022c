"""The heavy loops of the stages through torch, for a graphics card: each the twin of one that runs on the processor.

The functions take and give NumPy arrays. :func:`pysldl.backend.device.use_device` says when they are used, and only
then is torch imported.
"""
