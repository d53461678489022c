"""
Choose parameters with scikit-learn
===================================

The classifier and its stages are scikit-learn estimators: searches, pipelines and cross-validation work.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV, KFold

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel

data = make_asymmetric_multilabel(n_samples=900, random_state=0).tfidf()
search = GridSearchCV(
    make_sldl("fast", random_state=0),
    {"decoder__n_neighbors": [5, 10, 20, 40, 80]},
    cv=KFold(3, shuffle=True, random_state=0),
)
search.fit(data.X, data.Y)

figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
tried = search.cv_results_["param_decoder__n_neighbors"].astype(int)
axis.errorbar(tried, search.cv_results_["mean_test_score"], search.cv_results_["std_test_score"], fmt="o-", capsize=3)
axis.set(xscale="log", xlabel="neighbors that vote", ylabel="score", title=f"best: {search.best_params_}")
plt.show()
