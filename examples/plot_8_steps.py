"""
The number of steps is a regularizer
====================================

A longer descent of the Gaussians lowers the loss and need not rank better. One descent gives the embeddings after
several numbers of steps; validation rows choose.
"""

import matplotlib.pyplot as plt
from sklearn.frozen import FrozenEstimator

from pysldl import SLDLClassifier, evaluate
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.mapping import RidgeMapping

data = make_asymmetric_multilabel(random_state=0).tfidf()
train, validation = data.split("train"), data.split("test")
steps = (10, 30, 100, 300, 1000)
classifier = SLDLClassifier(GaussianLabelEmbedding(32), RidgeMapping(), NeighborDecoder(20), random_state=0)
quality = []
for embedding in classifier.embedding_path(train.Y, n_steps=steps):
    classifier.set_params(embedding=FrozenEstimator(embedding)).fit(train.X, train.Y)
    labels, _ = classifier.predict_topk(validation.X, k=5)
    quality.append(evaluate(validation.Y, labels, ks=(1, 5)))

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
for metric in ("P@1", "P@5", "nDCG@5"):
    axis.semilogx(steps, [told[metric] for told in quality], "o-", label=metric)
axis.set(xlabel="steps of the descent", title="rows that were not trained on")
axis.legend()
plt.show()
