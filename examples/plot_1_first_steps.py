"""
Label a text
============

Fit a classifier on texts with lists of labels, ask for the best labels of a new text, and see why it got them.
"""

import matplotlib.pyplot as plt

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel

# %%
# Built-in data: descriptions of pictures, each with the names of what is in it. Some labels imply others: a
# picture with a cloud shows the sky.

data = make_asymmetric_multilabel(n_samples=800, n_features=300, n_labels=40, random_state=0)
words, names = data.feature_names, data.label_names
texts = [" ".join(words[data.X[[row]].indices]) for row in range(data.n_samples)]
labels = [[names[label] for label in data.Y[[row]].indices] for row in range(data.n_samples)]
print(texts[0], "->", labels[0])

# %%
# The last hundred rows are not shown to the classifier.

model = make_sldl("accurate", random_state=0).fit(texts[:700], labels[:700])
best, scores = model.predict_topk(texts[700:701], k=6, names=True, proba=True)

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
colors = ["tab:green" if name in labels[700] else "tab:gray" for name in best[0]]
axis.barh(best[0][::-1], scores[0][::-1], color=colors[::-1])
axis.set(xlabel="probability", title="green: labels that the row has")
plt.show()

# %%
# Which training rows voted for the first label, and which words raised its score:

print(model.explain(texts[700], best[0, 0]))
