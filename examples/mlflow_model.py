"""
A model in MLflow
=================

MLflow stores this file with the model folder beside it, and runs it when the model is loaded; nothing is pickled.

.. code-block:: python

    import mlflow.pyfunc

    mlflow.pyfunc.save_model("mlflow-subjects", python_model="mlflow_model.py", artifacts={"model": "subjects"})
    suggest = mlflow.pyfunc.load_model("mlflow-subjects")
    suggest.predict(pandas.DataFrame({"text": ["a text to label"]}))  # rows, ranks, labels and scores
"""

import mlflow.models
import mlflow.pyfunc

from pysldl import load_model


class LabelSuggestions(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        self.model = load_model(context.artifacts["model"])

    def predict(self, context, model_input, params=None):
        return self.model.predict_frame(model_input["text"], k=5)


mlflow.models.set_model(LabelSuggestions())
