"""Forms of the primitives as kernels of our own, for NVIDIA and AMD GPUs."""
