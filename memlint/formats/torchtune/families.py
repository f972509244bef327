"""torchtune's model builders (0.1.1 to 0.6.1 and main bd2a0fc, torchtune/models/*/_model_builders.py): the model whose
weights each takes, under its name on the Hugging Face hub, and the longest sequence that it is built for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures import from_config
from memlint.architectures.model import Architecture
from memlint.formats.base import Context
from memlint.formats.fields import as_int

_LONG, _QWEN = 131072, 32768


class Built(NamedTuple):
    """`model`: its name, "" where only `config` says what it is. `positions`: `max_seq_len` of the builder."""

    model: str
    positions: int
    config: Mapping[str, Any] | None = None


def _phi(hidden: int, layers: int, heads: int, key_heads: int, inner: int, words: int, positions: int) -> Built:
    """torchtune/models/phi3/_component_builders.py: projections of their own, where transformers has fused ones."""
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "intermediate_size": inner,
        "vocab_size": words,
        "max_position_embeddings": positions,
        "tie_word_embeddings": False,
    }
    return Built("", positions, config)


BUILDERS: Mapping[str, Built] = {
    "llama2_7b": Built("meta-llama/Llama-2-7b-hf", 4096),
    "llama2_13b": Built("meta-llama/Llama-2-13b-hf", 4096),
    "llama2_70b": Built("meta-llama/Llama-2-70b-hf", 4096),
    "code_llama2_7b": Built("codellama/CodeLlama-7b-hf", 16384),
    "code_llama2_13b": Built("codellama/CodeLlama-13b-hf", 16384),
    "code_llama2_70b": Built("codellama/CodeLlama-70b-hf", 16384),
    "llama3_8b": Built("meta-llama/Meta-Llama-3-8B-Instruct", 8192),
    "llama3_70b": Built("meta-llama/Meta-Llama-3-70B-Instruct", 8192),
    "llama3_1_8b": Built("meta-llama/Llama-3.1-8B-Instruct", _LONG),
    "llama3_1_70b": Built("meta-llama/Llama-3.1-70B-Instruct", _LONG),
    "llama3_1_405b": Built("meta-llama/Llama-3.1-405B-Instruct", _LONG),
    "llama3_2_1b": Built("meta-llama/Llama-3.2-1B-Instruct", _LONG),
    "llama3_2_3b": Built("meta-llama/Llama-3.2-3B-Instruct", _LONG),
    "llama3_3_70b": Built("meta-llama/Llama-3.3-70B-Instruct", _LONG),
    "mistral_7b": Built("mistralai/Mistral-7B-v0.1", 32768),
    "gemma_2b": Built("google/gemma-2b", 8192),
    "gemma_7b": Built("google/gemma-7b", 8192),
    "gemma2_2b": Built("google/gemma-2-2b", 8192),
    "gemma2_9b": Built("google/gemma-2-9b", 8192),
    "gemma2_27b": Built("google/gemma-2-27b", 8192),
    "phi3_mini": _phi(3072, 32, 32, 32, 8192, 32064, 4096),
    "phi4_14b": _phi(5120, 40, 40, 10, 17920, 100352, 16384),
    "qwen2_0_5b": Built("Qwen/Qwen2-0.5B-Instruct", _QWEN),
    "qwen2_1_5b": Built("Qwen/Qwen2-1.5B-Instruct", _QWEN),
    "qwen2_7b": Built("Qwen/Qwen2-7B-Instruct", _QWEN),
    "qwen2_5_0_5b": Built("Qwen/Qwen2.5-0.5B", _QWEN),
    "qwen2_5_1_5b_base": Built("Qwen/Qwen2.5-1.5B", _LONG),
    "qwen2_5_1_5b_instruct": Built("Qwen/Qwen2.5-1.5B-Instruct", _QWEN),
    "qwen2_5_3b": Built("Qwen/Qwen2.5-3B", _QWEN),
    "qwen2_5_7b_base": Built("Qwen/Qwen2.5-7B", _LONG),
    "qwen2_5_7b_instruct": Built("Qwen/Qwen2.5-7B-Instruct", _QWEN),
    "qwen2_5_14b_base": Built("Qwen/Qwen2.5-14B", _LONG),
    "qwen2_5_14b_instruct": Built("Qwen/Qwen2.5-14B-Instruct", _QWEN),
    "qwen2_5_32b_base": Built("Qwen/Qwen2.5-32B", _LONG),
    "qwen2_5_32b_instruct": Built("Qwen/Qwen2.5-32B-Instruct", _QWEN),
    "qwen2_5_72b_base": Built("Qwen/Qwen2.5-72B", _LONG),
    "qwen2_5_72b_instruct": Built("Qwen/Qwen2.5-72B-Instruct", _QWEN),
    "qwen3_0_6b_base": Built("Qwen/Qwen3-0.6B-Base", _QWEN),
    "qwen3_0_6b_instruct": Built("Qwen/Qwen3-0.6B", 40960),
    "qwen3_1_7b_base": Built("Qwen/Qwen3-1.7B-Base", _QWEN),
    "qwen3_1_7b_instruct": Built("Qwen/Qwen3-1.7B", 40960),
    "qwen3_4b_base": Built("Qwen/Qwen3-4B-Base", _QWEN),
    "qwen3_4b_instruct": Built("Qwen/Qwen3-4B", 40960),
    "qwen3_8b_base": Built("Qwen/Qwen3-8B-Base", _QWEN),
    "qwen3_8b_instruct": Built("Qwen/Qwen3-8B", 40960),
    "qwen3_14b_base": Built("Qwen/Qwen3-14B-Base", _QWEN),
    "qwen3_14b_instruct": Built("Qwen/Qwen3-14B", 40960),
    "qwen3_32b": Built("Qwen/Qwen3-32B", 40960),
}
# What is known of these builders and not modelled: an encoder beside the decoder, experts, one number a token.
_OTHERS = {
    "vision": "layers that attend to an image encoder's output",
    "llama4": "experts in torchtune's own code",
    "reward": "a reward model",
    "classifier": "a reward model",
}
# Builders whose attention is written out, scores and all (torchtune/models/gemma2/_attention.py).
_WRITES_SCORES = ("gemma2",)
_ADAPTED = re.compile(r"^q?lora_")
_OF_TORCHTUNE = re.compile(r"^torchtune\.models\.(?:\w+\.)*(\w+)$")
# Folders of builders that copy one layer, with its table of positions, until 0.5: those of Llama 3.1 and 3.2 and of
# Gemma 2 never do.
_SHARING = ("llama3_1", "llama3_2", "llama3_3", "gemma2")
_SHARES_SINCE, _SHARES_SOME_SINCE = (0, 6), (0, 3)
_NORM_IN_FP32 = (0, 5), (0, 7)  # releases whose RMSNorm is torch's, from and until


def builder_of(component: str) -> str:
    """The builder's name without `lora_` and `qlora_`; "" where the component is none of torchtune's models."""
    match = _OF_TORCHTUNE.match(component)
    return _ADAPTED.sub("", match[1]) if match is not None else ""


def is_adapted(component: str) -> bool:
    """Whether the builder makes a model with LoRA adapters."""
    return _ADAPTED.match(component.rpartition(".")[2]) is not None


def is_quantized(component: str) -> bool:
    """Whether the builder stores the layers' weights in 4 bits."""
    return component.rpartition(".")[2].startswith("qlora_")


def why_not_modelled(component: str) -> str:
    """What is not known of a builder of torchtune, in words; "" where the model is known."""
    name = builder_of(component)
    if not name or name in BUILDERS:
        return ""
    return next((what for word, what in _OTHERS.items() if word in name), "")


def built(
    component: str, arguments: Mapping[str, Any], release: tuple[int, ...], context: Context, path: str
) -> Architecture | None:
    """The model that a builder makes, with torchtune's own layers; None where it is not known. `arguments`: what the
    file gives the builder."""
    found = BUILDERS.get(builder_of(component)) or _of_sizes(builder_of(component), arguments)
    if found is None:
        return None
    if found.config is not None:
        architecture: Architecture | None = from_config(found.config)
    else:
        architecture = context.find_model(found.model, path).architecture
    return None if architecture is None else of_own_layers(architecture, found.positions, _layers(component, release))


# Builders that take the model's sizes (torchtune/models/llama2/_component_builders.py and its siblings).
_OF_SIZES = ("llama2", "llama3", "mistral")
_SIZES = {
    "vocab_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "embed_dim": "hidden_size",
    "max_seq_len": "max_position_embeddings",
}


def _of_sizes(builder: str, arguments: Mapping[str, Any]) -> Built | None:
    sizes = {theirs: as_int(arguments.get(name)) for name, theirs in _SIZES.items()}
    if builder not in _OF_SIZES or not all(sizes.values()):
        return None
    hidden, positions = sizes["hidden_size"] or 0, sizes["max_position_embeddings"] or 0
    inner = as_int(arguments.get("intermediate_dim")) or _inner(hidden)
    fixed = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False}
    return Built("", positions, {**fixed, **sizes, "intermediate_size": inner})


def _inner(hidden: int) -> int:
    """torchtune/modules/common_utils.py and its predecessors, scale_hidden_dim_for_mlp."""
    return -(-(4 * int(2 * hidden / 3)) // 256) * 256


def of_own_layers(architecture: Architecture, positions: int, layers: str) -> Architecture:
    """The model with layers of the class `layers` (memory/families/own_modules.py)."""
    kinds = tuple(kind._replace(class_name=layers) for kind in architecture.layer_types)
    return architecture._replace(layer_types=kinds, max_positions=positions)


def _layers(component: str, release: tuple[int, ...]) -> str:
    since, until = _NORM_IN_FP32
    name = "TransformerSelfAttentionLayer"
    if since <= release < until:
        name += "InFp32"
    folder = component.split(".")[2] if component.count(".") > 2 else builder_of(component)
    shares = release >= _SHARES_SINCE or (release >= _SHARES_SOME_SINCE and folder in _SHARING)
    return name if shares else f"{name}Copy"


def name_of(component: str) -> str:
    """The name of the model that a builder makes, as it is shown; "" where it is not known."""
    name = builder_of(component)
    found = BUILDERS.get(name)
    return (name if name in _OF_SIZES else "") if found is None else found.model or name


# Arguments of builders, of any release (0.1.1 to main). `tie_word_embeddings` is of 0.3's Llama 3.2.
_OF_ADAPTERS = frozenset(
    {
        *("lora_attn_modules", "apply_lora_to_mlp", "apply_lora_to_output", "lora_rank", "lora_alpha", "lora_dropout"),
        *("use_dora", "quantize_base"),
    }
)


def arguments_of(component: str) -> frozenset[str] | None:
    """The arguments that a known builder of torchtune takes; None for others, which nobody knows."""
    name = builder_of(component)
    if name not in BUILDERS:
        return None
    ties = frozenset(("tie_word_embeddings",)) if name.startswith("llama3_2") else frozenset()
    return (_OF_ADAPTERS if is_adapted(component) else frozenset()) | ties


def writes_scores(component: str) -> bool:
    """Whether the builder's layers compute attention's scores one by one."""
    return builder_of(component).startswith(_WRITES_SCORES)
