"""`from_config`: a configuration as transformers reads it, turned into an Architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.architectures.config import Config, UnsupportedConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.families import (
    dense,
    early,
    experts,
    gemma,
    gemma_n,
    gpt,
    hybrid,
    latent,
    llama,
    mixture,
    multimodal,
    phi3,
    remote,
)
from memlint.architectures.liger import LIGER
from memlint.architectures.model import Architecture
from memlint.architectures.stored import stored_weights, weights_dtype

FAMILIES: Mapping[str, Callable[[Config], Architecture]] = {
    **llama.FAMILIES,
    **dense.FAMILIES,
    **early.FAMILIES,
    **latent.FAMILIES,
    **experts.FAMILIES,
    **hybrid.FAMILIES,
    **multimodal.FAMILIES,
    **gemma_n.FAMILIES,
    **remote.FAMILIES,
    **gemma.FAMILIES,
    **gpt.FAMILIES,
    **phi3.FAMILIES,
    **mixture.FAMILIES,
}


def from_config(config: Mapping[str, Any]) -> Architecture:
    """The architecture that `config` (a parsed config.json) describes.

    Raises UnsupportedConfig, and nothing else on any JSON value, where its parameters cannot be counted.
    """
    if not isinstance(config, Mapping):
        raise UnsupportedConfig("config.json does not hold an object")
    family = config.get("model_type")
    if not isinstance(family, str):
        raise UnsupportedConfig("this config.json names no `model_type`")
    build = FAMILIES.get(family)
    if build is None:
        raise UnsupportedConfig(f"no block list for model_type `{family[:60]}`")
    architecture = _built(build, defaulted(config, family))
    return architecture._replace(
        dtype=weights_dtype(config), stored=stored_weights(config), supports_liger=family in LIGER
    )


def _built(build: Callable[[Config], Architecture], config: Config) -> Architecture:
    try:
        return build(config)
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise UnsupportedConfig(f"this {config.family} config is not one that transformers would build") from error
