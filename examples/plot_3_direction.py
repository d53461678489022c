"""
Which label implies which
=========================

The data are made so that the direction of every relation is known. Points below the diagonal are relations whose
direction the learned divergences get right: KL(child ‖ parent) is the smaller one.
"""

import matplotlib.pyplot as plt
import numpy as np

from pysldl.backend.divergence import kl_divergence
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding

data = make_asymmetric_multilabel(random_state=0)
child, parent = np.array(data.implications).T

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, n_steps in zip(axes, (50, 1000), strict=True):
    embedding = GaussianLabelEmbedding(64, cooccurrence="count", n_steps=n_steps, random_state=0).fit(data.Y)
    divergences = kl_divergence(embedding.components_, embedding.log_variances_)
    axis.scatter(divergences[parent, child], divergences[child, parent], s=14)
    limits = [min(axis.get_xlim()[0], axis.get_ylim()[0]), max(axis.get_xlim()[1], axis.get_ylim()[1])]
    axis.plot(limits, limits, color="gray", linewidth=1)
    right = data.recovered(divergences)["direction"]
    axis.set(xlabel="KL(parent ‖ child)", ylabel="KL(child ‖ parent)", title=f"{n_steps} steps: {right:.0%} right")
plt.show()
