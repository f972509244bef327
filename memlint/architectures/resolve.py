"""Which model does a name mean? Folder, settings, catalog, cache, hub (when asked), in that order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memlint.architectures import catalog, local
from memlint.architectures.builder import from_config
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.model import Architecture, Resolution
from memlint.architectures.placeholders import is_placeholder, without_path

MOST_HOPS = 4  # adapter -> base, settings -> other name, ...
_COUNT = "counting it by its own class needs PyTorch and transformers, and --exact"
_ADVICE = (
    "give its config.json in a local folder, map the name under `models:` in memlint's settings, "
    "or let memlint ask the hub (--hub)"
)


def resolve(
    name: str,
    base_dirs: Sequence[str] = (),
    models: Mapping[str, str | dict[str, Any]] | None = None,
    hub: bool = False,
    exact: bool = False,
    within: str = "",
) -> Resolution:
    """The model that `name` means: a repository id, a local folder, or a key of `models`.

    `base_dirs` are the folders that relative paths start from. `models` maps names to other names, to
    folders or to configurations. `hub` allows one download of a config.json. `exact` allows counting an unknown family
    with PyTorch and transformers (seconds). `within` (a real path): no folder outside of it is read, the cache of
    downloaded models included. Never raises.
    """
    return _resolve(name, _Sources(tuple(base_dirs), models or {}, hub, exact, within), MOST_HOPS)


class _Sources:
    """What `resolve` may look at."""

    __slots__ = ("base_dirs", "exact", "hub", "models", "within")

    def __init__(
        self,
        base_dirs: tuple[str, ...],
        models: Mapping[str, str | dict[str, Any]],
        may_use_hub: bool,
        may_count: bool,
        within: str,
    ) -> None:
        self.base_dirs = base_dirs
        self.models = models
        self.hub = may_use_hub
        self.exact = may_count
        self.within = within

    def cached(self, name: str) -> tuple[str, Mapping[str, Any]] | None:
        """The config of a model that huggingface_hub has downloaded, where its cache may be read."""
        return None if self.within else local.cached(name)


def _resolve(name: str, ways: _Sources, hops: int) -> Resolution:
    if hops == 0:
        return Resolution(name, "unknown", None, reason=f"`{name}` is named by a chain of models that does not end")
    for step in (_from_folder, _from_settings, _from_catalog, _from_cache, _from_hub):
        found = step(name, ways, hops)
        if found is not None:
            return found
    return _unknown(name)


def _from_folder(name: str, ways: _Sources, hops: int) -> Resolution | None:
    directory = local.folder(name, ways.base_dirs, ways.within)
    if directory is None:
        return None
    found = local.config_of(directory, ways.within)
    if found:
        return _built(name, "config", found[1], found[0], ways)
    base = local.adapter_base(directory, ways.within)
    if base:
        below = _resolve(base, ways, hops - 1)
        return below._replace(inferred=_joined(f"{name} holds an adapter of {base}", below.inferred))
    return None


def _from_settings(name: str, ways: _Sources, hops: int) -> Resolution | None:
    mapped = ways.models.get(name)
    if isinstance(mapped, Mapping):
        return _built(name, "settings", mapped, "", ways)
    if isinstance(mapped, str) and mapped != name:
        below = _resolve(mapped, ways, hops - 1)
        return below._replace(inferred=_joined(f"settings say that `{name}` is {mapped}", below.inferred))
    return None


def _from_catalog(name: str, ways: _Sources, hops: int) -> Resolution | None:
    meant = without_path(name)
    if is_placeholder(meant):
        return None
    entry = catalog.find(meant)
    if entry is None:
        return None
    if entry.inferred and ways.cached(name):
        return None  # the cache knows this very name
    if _converted(name) and entry.config.get("model_type") == "phi3":
        return _as_llama(name, entry, ways)
    try:
        architecture = catalog.architecture(entry)
    except UnsupportedConfig as error:
        if not ways.exact:
            return Resolution(entry.name, "unknown", None, entry.inferred, f"{error}: {_COUNT}")
        return _built(entry.name, "catalog", entry.config, "", ways)._replace(inferred=entry.inferred)
    return Resolution(entry.name, "catalog", architecture, entry.inferred, config=entry.config)


# Unsloth's copies of these are Llama models with the same shape: attention and MLP have a projection for each part. Its
# notebooks Phi_3.5_Mini, Phi_3_Medium and Phi_4 print "Fast Llama patching" and "Fast Mistral patching", and train
# q_proj, k_proj, v_proj, gate_proj and up_proj (unslothai/notebooks, bdda2efc).
_CONVERTED = frozenset({"phi-3-mini-4k-instruct", "phi-3-medium-4k-instruct", "phi-3.5-mini-instruct", "phi-4"})


def _converted(name: str) -> bool:
    owner, _, model = name.lower().partition("/")
    return owner == "unsloth" and model.removesuffix("-bnb-4bit").removesuffix("-unsloth") in _CONVERTED


def _as_llama(name: str, entry: catalog.CatalogEntry, ways: _Sources) -> Resolution:
    config = {**entry.config, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    found = _built(name, "catalog", config, "", ways)
    if found.architecture is None or entry.stored is None:
        return found
    return found._replace(architecture=found.architecture._replace(stored=entry.stored))


def _from_cache(name: str, ways: _Sources, hops: int) -> Resolution | None:
    found = ways.cached(name)
    return _built(name, "cache", found[1], found[0], ways) if found else None


def _from_hub(name: str, ways: _Sources, hops: int) -> Resolution | None:
    if not ways.hub or is_placeholder(name):
        return None
    from memlint.architectures import hub  # --hub

    try:
        path, config = hub.fetch(name)
    except hub.HubError as error:
        return Resolution(name, "unknown", None, reason=str(error))
    return _built(name, "hub", config, path, ways)


def _built(name: str, source: str, config: Mapping[str, Any], path: str, ways: _Sources) -> Resolution:
    try:
        return Resolution(name, source, _counted(config, ways), path=path, config=config)
    except UnsupportedConfig as error:
        return Resolution(name, "unknown", None, reason=str(error), path=path)


def _counted(config: Mapping[str, Any], ways: _Sources) -> Architecture:
    try:
        return from_config(config)
    except UnsupportedConfig as error:
        if not ways.exact:
            raise UnsupportedConfig(f"{error}: {_COUNT}") from error
        from memlint.architectures import exact  # --exact

        return exact.count(config)


def _unknown(name: str) -> Resolution:
    shown = name if len(name) <= 120 else name[:117] + "..."
    if is_placeholder(name):
        return Resolution(name, "unknown", None, reason=f"`{shown}` is a placeholder, not a model: give --model")
    if _is_own_folder(name):
        return Resolution(name, "unknown", None, reason=f"`{shown}` is a folder that is not here: {_ADVICE_OF_FOLDER}")
    return Resolution(name, "unknown", None, reason=f"`{shown}` is not in memlint's catalog: {_ADVICE}")


_OWN_FOLDERS = ("/", "./", "../", "~")
_ADVICE_OF_FOLDER = "put the model's config.json there, or map it to a model under `models:` in memlint's settings"


def _is_own_folder(name: str) -> bool:
    """Whether a name is a folder of the author's or one that a training writes: the hub has no name of three parts."""
    return name.startswith(_OWN_FOLDERS) or name.strip("/").count("/") > 1


def _joined(first: str, second: str) -> str:
    return f"{first}; {second}" if second else first
