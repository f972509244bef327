"""Names that stand for a model's name: nobody has written the real one yet."""

from __future__ import annotations

import re

_PLACEHOLDERS = frozenset(
    (
        "",
        "none",
        "null",
        "todo",
        "model",
        "models",
        "model_path",
        "model_name",
        "base_model",
        "pretrained_transformer_model_name",
        "path",
        ".",
        "./",
        "/",
    )
) | {"???"}  # OmegaConf's, for a value that a command must give
# A variable's name, where somebody forgot the `$` or writes what goes there: `config_path`, `base_model_with_template`.
_VARIABLE = r"(?:[a-z]+_)*(?:model|path|dir|name|config|checkpoint|ckpt)(?:_[a-z]+)*"
_PATHS = ("path/to/", "pathto/")
_PLACEHOLDER_PARTS = ("${", "{{", *_PATHS)
# `models--Qwen--Qwen2.5-7B/snapshots/<commit>` (huggingface_hub 1.23 file_download.py, repo_folder_name).
_IN_CACHE = r"(?:^|/)models--([\w.-]+)(?:/|$)"
_SLASHES = str.maketrans("-_ ", "///")


def is_placeholder(name: str) -> bool:
    """Whether `name` stands for a name ("path/to/model", "${MODEL}", "<your model>")."""
    text = name.strip().lower()
    if text in _PLACEHOLDERS or (text.startswith("xxx") and not text.strip("x")):
        return True
    if "_" in text and re.fullmatch(_VARIABLE, name.strip()):
        return True
    is_marked = text[:1] + text[-1:] in ("<>", "[]")
    return is_marked or _is_placeholder_folder(text)


def without_path(name: str) -> str:
    """The last part of a path of which only the folder is a placeholder, `path/to/Llama-2-70b-hf` or
    `${ROOT}/Llama-2-70b-hf`, and the model whose folder in the hub's cache such a path names; else `name`."""
    if not _is_placeholder_folder(name):
        return name
    cached = re.search(_IN_CACHE, name)
    if cached is not None:
        return cached[1].replace("--", "/")
    *folders, last = name.strip().rstrip("/").split("/")
    stands_for_all = is_placeholder(last) or not folders or any(letter in last for letter in "${}")
    return name if stands_for_all else last


def _is_placeholder_folder(path: str) -> bool:
    """Whether a path, or its beginning, is filled in by whoever runs it: `path_to/...`, `your-models/...`."""
    parts = path.strip().lower().translate(_SLASHES)
    return any(part in parts for part in _PLACEHOLDER_PARTS) or parts.startswith(("your/", "/your/"))
