"""`from_config`: a configuration as transformers reads it, turned into an Architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.model import Architecture
from memlint.architectures.stored import stored_weights, weights_dtype

Build = Callable[[ModelConfig], Architecture]
# Modules of families, those that most configs name first: they are imported in this order until one knows the family.
_MODULES = (
    *("llama", "gemma", "mixture", "phi3", "qwen_multimodal", "multimodal", "gemma_multimodal", "llama_multimodal"),
    *("gpt", "dense", "experts", "experts_by_layer", "latent", "state_space", "delta_rule", "short_convolution"),
    *("pre_llama", "trust_remote_code", "gemma_n", "vision_language"),
    *("phi4_multimodal", "document_readers", "combined", "encoders", "pre_norm_encoders", "captioners"),
    *("older_encoders", "sparse_encoder_decoders", "recurrent_hybrids"),
)


def families() -> Mapping[str, Build]:
    """Every `model_type` whose parameter shapes are known."""
    return {family: build for name in _MODULES for family, build in _module(name).items()}


def _module(name: str) -> Mapping[str, Build]:
    found: Mapping[str, Build] = import_module(f"memlint.architectures.families.{name}").FAMILIES
    return found


def _build_of(family: str) -> Build | None:
    return next((found[family] for found in map(_module, _MODULES) if family in found), None)


def from_config(config: Mapping[str, Any]) -> Architecture:
    """The architecture that `config` (a parsed config.json) describes.

    Raises UnsupportedConfig, and nothing else on any JSON value, where its parameters cannot be counted.
    """
    if not isinstance(config, Mapping):
        raise UnsupportedConfig("config.json does not hold an object")
    family = config.get("model_type")
    if not isinstance(family, str):
        raise UnsupportedConfig("this config.json names no `model_type`")
    build = _build_of(family)
    if build is None:
        raise UnsupportedConfig(f"no parameter shapes known for model_type `{family[:60]}`")
    architecture = _built(build, defaulted(config, family))
    return architecture._replace(dtype=weights_dtype(config), stored=stored_weights(config))


def _built(build: Build, config: ModelConfig) -> Architecture:
    try:
        return build(config)
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise UnsupportedConfig(f"this {config.family} config is not one that transformers would build") from error
