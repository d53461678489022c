"""
Labels as Gaussians
===================

The embedding places every label as a Gaussian. Two dimensions are few, but they can be drawn: the ellipses are a
quarter of a standard deviation, and the arrows lead from a label to the label that it implies.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

from pysldl.backend.divergence import kl_divergence
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.embedding import GaussianLabelEmbedding

data = make_asymmetric_multilabel(n_samples=600, n_features=200, n_labels=18, random_state=1)
embedding = GaussianLabelEmbedding(2, cooccurrence="count", n_steps=1000, random_state=0).fit(data.Y)
means, deviations = embedding.components_, np.exp(0.5 * embedding.log_variances_)

figure, axis = plt.subplots(figsize=(7, 6), layout="constrained")
for child, parent in data.implications:
    axis.annotate("", means[parent], means[child], arrowprops={"arrowstyle": "->", "color": "tab:gray", "alpha": 0.5})
for name, mean, deviation in zip(data.label_names, means, deviations, strict=True):
    axis.add_patch(Ellipse(mean, *(0.5 * deviation), facecolor="none", edgecolor="tab:blue", alpha=0.6))
    axis.annotate(name, mean, ha="center", va="center", fontsize=8)
axis.set(aspect="equal", xlim=(means[:, 0].min() - 0.4, means[:, 0].max() + 0.4))
axis.set(ylim=(means[:, 1].min() - 0.4, means[:, 1].max() + 0.4))
plt.show()

# %%
# The divergence has a direction. More dimensions keep more of it: see :ref:`the next example
# <sphx_glr_gallery_plot_3_direction.py>`.

divergences = kl_divergence(means, embedding.log_variances_)
for child, parent in data.implications[:6]:
    names = data.label_names[child], data.label_names[parent]
    print(f"KL({names[0]} ‖ {names[1]}) = {divergences[child, parent]:.2f}, back {divergences[parent, child]:.2f}")
