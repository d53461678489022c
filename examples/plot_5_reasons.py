"""
What raised and lowered a score
===============================

An explanation holds the training rows that voted for a label and the terms of the linear score, which add up.
"""

import matplotlib.pyplot as plt

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel

data = make_asymmetric_multilabel(n_samples=800, n_features=300, n_labels=40, random_state=3)
words, names = data.feature_names, data.label_names
texts = [" ".join(words[data.X[[row]].indices]) for row in range(data.n_samples)]
labels = [[names[label] for label in data.Y[[row]].indices] for row in range(data.n_samples)]
model = make_sldl("accurate", random_state=0).fit(texts[:700], labels[:700])
text = texts[705]
reasons = model.explain(text, model.predict_topk([text], k=1, names=True)[0][0, 0], top=8)

figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
terms = reasons.terms[::-1]
colors = ["tab:green" if term.contribution > 0 else "tab:red" for term in terms]
axis.barh([term.feature for term in terms], [term.contribution for term in terms], color=colors)
axis.set(title=f"{reasons.label}: terms of the {reasons.terms_meaning}")
plt.show()

print(text)
print(reasons)
