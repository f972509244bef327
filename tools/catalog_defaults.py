"""Writes memlint/architectures/defaults.jsonl: what a config.json that omits a field means.

Each line holds one family: the defaults of its transformers configuration class (fields that say
nothing about sizes left out; null and false are the same as absent) and its other names for fields.
Nested configurations are lines of their own, "qwen2_vl/vision_config". With --check, fails where
the file on disk disagrees with the installed transformers.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "memlint" / "architectures" / "defaults.jsonl"
# Encoders and encoder-decoders with a block list (families/encoders.py) that no other mapping has.
ENCODERS = ("deberta-v2", "distilbert", "eurobert", "gte", "jina_embeddings_v3", "m2m_100", "modernbert", "mt5")
ENCODERS += ("nomic_bert", "t5", "umt5", "esm", "deberta", "layoutlm", "longformer", "led", "longt5")
ENCODERS += ("switch_transformers", "albert")
NOISE = ("_token_id", "_token_index", "_token", "initializer_range", "_eps", "_epsilon", "_coef", "_loss", "_std")
NOISE_KEYS = {
    "use_cache",
    "chunk_size_feed_forward",
    "return_dict",
    "output_hidden_states",
    "problem_type",
    "id2label",
    "label2id",
    "architectures",
    "dtype",
    "transformers_version",
    "summary_type",
    "summary_use_proj",
    "initializer_factor",
    "summary_proj_to_labels",
    "summary_first_dropout",
    "output_router_logits",
    "pretraining_tp",
    "is_encoder_decoder",
    "norm_topk_prob",
    "logits_scaling",
    "residual_multiplier",
    "embedding_multiplier",
    "attention_multiplier",
}


# Configurations of towers that model families name by their model_type.
TOWERS = (
    "clip_vision_model",
    "siglip_vision_model",
    "siglip2_vision_model",
    "pixtral",
    "qwen2_audio_encoder",
    "voxtral_encoder",
    "idefics3_vision",
    "sam_vision_model",
    "glmasr_encoder",
)


def families() -> list[str]:
    """Every model_type that trains as a causal LM or as an image-text or audio-text model."""
    from transformers.models.auto import modeling_auto

    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return sorted({*causal, *modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES, *TOWERS, *ENCODERS})


def lines() -> Iterator[str]:
    from transformers import CONFIG_MAPPING

    for family in families():
        yield from _described(family, CONFIG_MAPPING[family], 0)


def _described(name: str, cls: Any, depth: int) -> Iterator[str]:
    row = {"family": name, "defaults": _defaults(cls), "aliases": dict(cls.attribute_map)}
    yield json.dumps(row, separators=(",", ":"))
    for key, nested in sorted((getattr(cls, "sub_configs", None) or {}).items()):
        if depth < 2 and dataclasses.is_dataclass(nested) and getattr(nested, "__name__", "") != "AutoConfig":
            yield from _described(f"{name}/{key}", nested, depth + 1)


def _defaults(cls: Any) -> dict[str, Any]:
    found = {field.name: _default(field) for field in dataclasses.fields(cls) if not _is_noise(field.name)}
    if cls.model_type:
        found["model_type"] = cls.model_type
    return {key: value for key, value in found.items() if value not in (None, False, [], {})}


def _default(field: Any) -> Any:
    value = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
    return value if isinstance(value, (bool, int, float, str, list, tuple, dict)) else None


def _is_noise(name: str) -> bool:
    return name in NOISE_KEYS or name.endswith(NOISE)


def main() -> int:
    warnings.simplefilter("ignore")
    text = "".join(line + "\n" for line in lines())
    if "--check" in sys.argv:
        return 0 if DATA.read_text(encoding="utf-8") == text else 1
    DATA.write_text(text, encoding="utf-8")
    print(f"{DATA.name}: {text.count(chr(10))} families, {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
