"""The model folder: arrays in safetensors, everything else in JSON, nothing that runs code when it is read."""

from pysldl.persistence.loading import load_model, load_predictor, read_manifest
from pysldl.persistence.manifest import FORMAT_NAME, FORMAT_VERSION, FileRecord, Manifest
from pysldl.persistence.registry import register_saveable
from pysldl.persistence.saving import save_model
from pysldl.persistence.versions import current_version, lock_model, read_current

__all__ = [
    "FORMAT_NAME",
    "FORMAT_VERSION",
    "FileRecord",
    "Manifest",
    "current_version",
    "load_model",
    "load_predictor",
    "lock_model",
    "read_current",
    "read_manifest",
    "register_saveable",
    "save_model",
]
