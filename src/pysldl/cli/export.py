"""`sldl export`: a folder for a model hub, with the model and its card."""

from pathlib import Path

from pysldl.cli._input import ModelFolder
from pysldl.cli._output import Json, print_json, say


def export(
    model: ModelFolder,
    folder: Path,
    /,
    *,
    name: str | None = None,
    license: str | None = None,
    language: str | None = None,
    json: Json = False,
) -> None:
    """Write a folder to upload to a model hub: README.md with the model card, and the model.

    Example: `sldl export subjects subjects-hub --license cc-by-4.0 --language fi`

    Parameters
    ----------
    folder : Path
        Folder to make, written atomically.
    name : str, optional
        Title of the card. Default: the name of the model folder.
    license : str, optional
        License of the model, for the header of the card.
    language : str, optional
        Language of the texts, such as en.
    """
    from pysldl.inspection.card import export_model

    target = export_model(model, folder, name=name, license=license, language=language)
    files = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    if json:
        print_json({"model": str(model), "folder": str(folder), "files": files})
    else:
        say(f"wrote {folder}: README.md and model, {len(files)} files")
