"""The config.json of a model on the Hugging Face hub, fetched with `--hub` only.

Nothing but config.json is downloaded and no remote code is ever run.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from memlint.architectures.local import read_json

TIMEOUT_SECONDS = 10


class HubError(Exception):
    """Why there is no config; `str()` says whether it is missing, gated, offline or not installed."""


def fetch(name: str) -> tuple[str, Mapping[str, Any]]:
    """Path and content of the config.json of `name`. Raises HubError."""
    try:
        hub: Any = importlib.import_module("huggingface_hub")
        errors: Any = importlib.import_module("huggingface_hub.errors")
    except ImportError as error:
        raise HubError("huggingface_hub is not installed: pip install huggingface_hub") from error
    try:
        path = hub.hf_hub_download(name, "config.json", etag_timeout=TIMEOUT_SECONDS)
    except Exception as error:  # huggingface_hub raises requests' and httpx's classes besides its own
        raise HubError(_explained(name, error, errors)) from error
    config = read_json(path)
    if config is None:
        raise HubError(f"{name} has a config.json that is not a JSON object below 1 MiB")
    return path, config


def _explained(name: str, error: Exception, errors: Any) -> str:
    if isinstance(error, errors.GatedRepoError):
        return f"{name} is gated on the hub: accept its terms there and log in (`hf auth login`)"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"there is no model {name} on the hub, or it is private"
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
        return f"{name} on the hub has no config.json"
    if isinstance(error, errors.HFValidationError):
        return f"{name[:100]!r} is not a repository id"
    return f"the hub could not be reached for {name} ({type(error).__name__})"
