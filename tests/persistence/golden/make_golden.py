"""Makes the golden folder of the present format: run once per format version, when the format is final.

    python tests/persistence/golden/make_golden.py

It refuses to touch a golden folder that exists: such folders stand for models that people have saved.
"""

import json
from pathlib import Path

from pysldl import SLDLClassifier
from pysldl.decoding import BlendDecoder, LinearReadout, NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.persistence import FORMAT_VERSION, save_model

TEXTS = [
    "a white cloud in the sky",
    "the sky at night",
    "une forêt et un arbre",
    "a tree in the forest",
    "cloud over the forest",
    "a cat in a tree",
]
LABELS = [["sky", "cloud"], ["sky"], ["forêt", "tree"], ["forêt", "tree"], ["sky", "cloud", "forêt"], ["tree", "猫"]]
QUERIES = ["clouds in the sky", "a tree", "the forest at night", ""]


def main() -> None:
    folder = Path(__file__).parent / f"v{FORMAT_VERSION}"
    folder.mkdir()
    model = SLDLClassifier(
        GaussianLabelEmbedding(2, n_steps=40),
        decoder=BlendDecoder(NeighborDecoder(3), LinearReadout()),
        progress=lambda progress: None,
        random_state=0,
    ).fit(TEXTS, LABELS)
    save_model(model, folder / "model", extra={"purpose": "golden model"})
    expected = {
        "queries": QUERIES,
        "label_names": model.label_names_.tolist(),
        "scores": model.decision_function(QUERIES).tolist(),
        "probabilities": model.predict_proba(QUERIES).tolist(),
        "predicted": model.predict(QUERIES),
    }
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
