"""Everything of the library that writes, in little: how each writer starts, what it does, and what must be there after.

Each writer has a state: 0 for what was there before, 1 for what was to be written; an error for anything else.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["World", "Writer"]

OLD_ROWS, NEW_ROWS = 30, 10


class Writer(NamedTuple):
    """A writer; ``again`` is the next command where that is another one."""

    fresh: Callable[[], None]
    act: Callable[[], Any]
    state: Callable[[], int]
    again: Callable[[], Any] | None = None


class World:
    """A small online model, rows to add, and the commands that write.

    Attributes
    ----------
    writers : dict of str to Writer
    """

    def __init__(self, folder: Path) -> None:
        from pysldl.cli import run
        from pysldl.persistence import load_model, read_manifest, save_model

        self._run, self._load, self._save, self._manifest = run, load_model, save_model, read_manifest
        self.folder, self.inputs = folder / "work", folder / "inputs"
        self.folder.mkdir()
        self.inputs.mkdir()
        self.path, self._out, self._parts = self.folder / "model", self.folder / "out.jsonl", self.folder / "parts"
        self._notes, self._results = self.folder / "feedback.jsonl", self.folder / "run"
        self._make_inputs()
        self.writers = {
            "save": Writer(self._with_model, lambda: self._save_as(31), lambda: self._model_state((30, 31))),
            "save a new model": Writer(
                self._clear, lambda: self._save_as(31), self._new_model_state, lambda: self._save_as(31)
            ),
            "save through a link": Writer(
                self._with_link, lambda: self._save_as(31), lambda: self._model_state((30, 31))
            ),
            "update": Writer(self._with_model, lambda: self.update("one"), lambda: self._model_state((40, 40))),
            "vocabulary": Writer(self._with_model, self._set_vocabulary, self._vocabulary_state),
            "predict": Writer(self._with_model, self._predict, self._predict_state),
            "predict to parts": Writer(self._with_model, self._predict_parts, self._parts_state),
            "feedback": Writer(self._with_notes, self._feedback, self._feedback_state),
            "data sets": Writer(self._clear, self._write_data, self._data_state),
            "reproduce": Writer(self._clear, self._reproduce, self._reproduce_state),
        }

    def _make_inputs(self) -> None:
        from pysldl import SLDLClassifier
        from pysldl.datasets import make_asymmetric_multilabel, read_jsonl, write_npz, write_parquet
        from pysldl.decoding import FeatureNeighborDecoder

        data = make_asymmetric_multilabel(60, 20, 4, random_state=0)
        names = data.label_names.tolist()
        texts = [" ".join(f"w{c}" for c in data.X.indices[slice(*data.X.indptr[r : r + 2])]) + " w" for r in range(60)]
        labels = [[names[c] for c in data.Y.indices[slice(*data.Y.indptr[r : r + 2])]] for r in range(60)]
        decoder = FeatureNeighborDecoder(3, temperature=0.1)
        self.model = SLDLClassifier(None, mapping=None, decoder=decoder, online=True, calibrate=False, random_state=0)
        self.model.fit(texts[:OLD_ROWS], labels[:OLD_ROWS])
        for part, start in (("one", OLD_ROWS), ("two", OLD_ROWS + NEW_ROWS)):
            rows = zip(texts[start : start + NEW_ROWS], labels[start : start + NEW_ROWS], strict=True)
            lines = (json.dumps({"text": text, "labels": its}) for text, its in rows)
            path = self.inputs / f"{part}.jsonl"
            path.write_text("\n".join(lines) + "\n")
            self._texts = read_jsonl(path)
            write_parquet(self._texts, self.inputs / f"{part}.parquet")
        self._data = data
        write_npz(data, self.inputs / "tiny.npz")
        subjects = "".join(f"<http://example.org/{name}>\t{name}\n" for name in names)
        (self.inputs / "subjects.tsv").write_text(subjects)

    # How a writer finds things

    def _clear(self) -> None:
        for path in self.folder.iterdir():
            if path.is_symlink() or path.is_file():
                path.unlink()
            else:
                shutil.rmtree(path)

    def _with_model(self) -> None:
        self._clear()
        self._save_as(OLD_ROWS)

    def _with_link(self) -> None:
        self._clear()
        (self.folder / "real").mkdir()
        self.path.symlink_to("real")
        self._save_as(OLD_ROWS)

    def _with_notes(self) -> None:
        self._clear()
        self._notes.write_text('{"text": "w1", "labels": ["label 1"], "rejected": []}\n')

    # What it does

    def _save_as(self, n_samples: int) -> None:
        self._save(self.model, self.path, extra={"n_samples": n_samples}, overwrite=True)

    def update(self, part: str) -> int:
        """Teach the model further rows."""
        return int(self._run(["update", str(self.path), str(self.inputs / f"{part}.jsonl")]))

    def _set_vocabulary(self) -> int:
        return int(self._run(["vocabulary", str(self.path), "--set", str(self.inputs / "subjects.tsv")]))

    def _predict(self) -> int:
        data = str(self.inputs / "two.jsonl")
        return int(self._run(["predict", str(self.path), data, "--out", str(self._out)]))

    def _predict_parts(self) -> int:
        """What `sldl predict --dask` does, without a cluster: one part after the other, each by its own call."""
        from pysldl.cli import _dask

        parts = _dask.open_parts(str(self.inputs / "*.parquet"), None)
        settings = {"k": 3, "threshold": float("-inf"), "proba": False}
        _dask._claim(self._parts, {"model": "", "parts": [list(part) for part in parts.parts], **settings})
        for number, part in enumerate(parts.parts):
            if not _dask._target(self._parts, number).exists():
                where = (str(self.path), "", str(self._parts), parts.columns, settings)
                _dask.predict_part(*where, number, part, _dask._first_row(parts, number))
        return 0

    def _feedback(self) -> None:
        from pysldl.serve.feedback import FeedbackStore
        from pysldl.serve.schemas import FeedbackRequest

        FeedbackStore(self._notes).save(FeedbackRequest("w2 w3", ["label 2"], []))

    def _reproduce(self) -> int:
        words = ["--methods", "prior", "--folds", "2", "--jobs", "1", "--metrics", "P@1", "--json"]
        where = ["--datasets", str(self.inputs / "tiny.npz"), "--out", str(self._results)]
        return int(self._run(["reproduce", *words, *where]))

    def _write_data(self) -> None:
        from pysldl import datasets

        for name, (write, data) in self._data_files().items():
            getattr(datasets, write)(data, self.folder / name)

    def _data_files(self) -> dict[str, tuple[str, Any]]:
        return {
            "rows.npz": ("write_npz", self._data),
            "rows.txt": ("write_xc", self._data),
            "texts.jsonl": ("write_jsonl", self._texts),
            "texts.csv": ("write_csv", self._texts),
            "texts.parquet": ("write_parquet", self._texts),
        }

    # What must be there afterwards

    def _model_state(self, after: tuple[int, int]) -> int:
        found = self._load(self.path).n_samples_, self._manifest(self.path).extra["n_samples"]
        # An update that is made again, after one that was whole, adds its rows once more.
        again = (after[0] + NEW_ROWS, after[1] + NEW_ROWS)
        assert found in ((OLD_ROWS, OLD_ROWS), after, again), f"parts of two versions: {found}"
        return int(found != (OLD_ROWS, OLD_ROWS))

    def _new_model_state(self) -> int:
        return self._model_state((30, 31)) if (self.path / "current.json").exists() else 0

    def _vocabulary_state(self) -> int:
        assert self._model_state((30, 30)) == 0
        return int(self._load(self.path).vocabulary_ is not None)

    def _predict_state(self) -> int:
        if not self._out.exists():
            return 0
        assert self._out.read_text().count("\n") == NEW_ROWS, "half a file"
        return 1

    def _parts_state(self) -> int:
        from pyarrow import parquet

        found = sorted(self._parts.glob("part-*.parquet"))
        assert all(parquet.read_table(path).num_rows == NEW_ROWS for path in found), "half a part"
        return int(len(found) == 2)

    def _feedback_state(self) -> int:
        """Whole lines, but for the last one where a writer was killed in it."""
        *lines, rest = self._notes.read_bytes().split(b"\n")
        assert lines, "what was there is gone"
        assert all("text" in json.loads(line) for line in lines), "half a line between others"
        assert len(lines) == 1 or not rest, "the next writer left half a line"
        return int(len(lines) > 1)

    def _data_state(self) -> int:
        from pysldl.datasets import read_dataset

        found = [self.folder / name for name in self._data_files() if (self.folder / name).exists()]
        rows = {read_dataset(path).n_samples for path in found}
        assert rows <= {len(self._data.Y.indptr) - 1, NEW_ROWS}, f"half a file: {rows}"
        return int(len(found) == len(self._data_files()))

    def _reproduce_state(self) -> int:
        from pysldl.experiments.run.run_folder import read_journal

        journals = sorted(self._results.glob("records/*/*.jsonl"))
        damaged = [len(read_journal(path)[1]) for path in journals]
        assert all(n <= 1 for n in damaged), f"damaged lines: {damaged}"
        if not (self._results / "report.html").exists():
            return 0
        results = (self._results / "results.csv").read_text().splitlines()
        assert len(results) == 2, "half a table"
        return 1

    def leftovers(self) -> list[str]:
        """Files that nobody will ever use."""
        left = [str(path.relative_to(self.folder)) for path in self.folder.rglob(".*") if path.suffix != ".lock"]
        left = [name for name in left if Path(name).name != ".lock"]
        if self.path.exists():
            left += sorted({entry.name for entry in self.path.iterdir()} - {"current.json", "lock", "versions"})
            left += [entry.name for entry in (self.path / "versions").iterdir()][2:]
        return left
