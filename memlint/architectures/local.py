"""Configurations on this machine's disk: a folder that a name points to, and the Hugging Face cache."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import memlint.file_access as file_access

LARGEST_CONFIG = 1 << 20  # bytes; config.json files are a few KiB


def read_json(path: str) -> Mapping[str, Any] | None:
    """The object in a JSON file; None where it is missing, larger than LARGEST_CONFIG, or holds something else."""
    try:
        data = file_access.read(path, LARGEST_CONFIG + 1)
        value = json.loads(data) if len(data) <= LARGEST_CONFIG else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def folder(name: str, base_dirs: Sequence[str], within: str = "") -> str | None:
    """The directory that `name` points to, as it stands or below one of `base_dirs`; see `is_within`."""
    if "\0" in name or not name.strip():
        return None
    name = os.path.expanduser(name)
    candidates = [name] if os.path.isabs(name) else [os.path.join(base, name) for base in base_dirs]
    return next((path for path in candidates if is_within(path, within) and _is_folder(path)), None)


def is_within(path: str, root: str) -> bool:
    """Whether a path leads into the folder `root` (a real path) once links are followed; always with no root."""
    if not root:
        return True
    real = file_access.realpath(path)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _is_folder(path: str) -> bool:
    try:
        return file_access.is_folder(path)
    except (OSError, ValueError):
        return False


def config_of(directory: str, within: str = "") -> tuple[str, Mapping[str, Any]] | None:
    """`config.json` of a folder: its path and content."""
    path = os.path.join(directory, "config.json")
    config = read_json(path) if is_within(path, within) else None
    return None if config is None else (path, config)


def adapter_base(directory: str, within: str = "") -> str | None:
    """The base model that the folder's `adapter_config.json` names."""
    path = os.path.join(directory, "adapter_config.json")
    config = read_json(path) if is_within(path, within) else None
    base = config.get("base_model_name_or_path") if config else None
    return base if isinstance(base, str) and base else None


def cached(name: str) -> tuple[str, Mapping[str, Any]] | None:
    """The config of a model that huggingface_hub has downloaded: the snapshot of `main`, else any."""
    if not re.fullmatch(r"[\w.-]{1,96}(/[\w.-]{1,96})?", name):
        return None
    root = os.path.join(_hub_cache(), "models--" + name.replace("/", "--"))
    for snapshot in _snapshots(root):
        found = config_of(os.path.join(root, "snapshots", snapshot))
        if found:
            return found
    return None


def _snapshots(root: str) -> list[str]:
    try:
        snapshots = file_access.listed(os.path.join(root, "snapshots"))[:64]
    except OSError:
        return []
    main = _first_line(os.path.join(root, "refs", "main"))
    return [name for name in snapshots if name == main] + [name for name in snapshots if name != main]


def _first_line(path: str) -> str:
    try:
        return file_access.read(path, 100).decode("ascii", "replace").partition("\n")[0].strip()
    except OSError:
        return ""


def _hub_cache() -> str:
    """huggingface_hub/constants.py: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub."""
    environment = os.environ
    if environment.get("HF_HUB_CACHE"):
        return environment["HF_HUB_CACHE"]
    caches = environment.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = environment.get("HF_HOME") or os.path.join(caches, "huggingface")
    return os.path.expanduser(os.path.join(home, "hub"))
