"""Builds the real model on the meta device and turns it into fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from memlint._record import NamedTuple

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


class Adapter(NamedTuple):
    """LoRA, OFT or IA3 (`kind`) as PEFT builds it. `targets`: ("all",) means every linear layer but the head.
    `by_name`: the framework passes PEFT a list of names, so that stacked experts get no adapter (LLaMA-Factory 0.9.5
    model/model_utils/misc.py, find_all_linear_modules)."""

    rank: int = 8
    alpha: float = 16
    dropout: float = 0.0
    targets: tuple[str, ...] = ("all",)
    exclude: tuple[str, ...] = ()
    modules_to_save: tuple[str, ...] = ()
    bias: str = "none"
    use_dora: bool = False
    use_rslora: bool = False
    rank_pattern: tuple[tuple[str, int], ...] = ()
    target_parameters: tuple[str, ...] = ()
    layers_to_transform: tuple[int, ...] = ()
    kind: str = "lora"
    block_size: int = 0
    by_name: bool = False


def model_on_meta(config_class: str, config: Mapping[str, Any], attention: str, dtype: torch.dtype) -> Any:
    """The transformers model of a configuration, without data."""
    import transformers

    settings: Any = getattr(transformers, config_class)(**config)
    # Training uses no KV cache.
    settings.use_cache = False
    if settings.is_encoder_decoder and getattr(settings, "decoder_start_token_id", None) is None:
        settings.decoder_start_token_id = 0  # labels are shifted behind it; which token it is changes no size
    for part in (settings, *_sub_configs(settings)):
        part._attn_implementation = attention
        part.dtype = dtype  # as from_pretrained does; otherwise a part would be built in the dtype of its own config
    # A configuration with towers may be in both mappings; the causal one has only its language model (Qwen3.5).
    multimodal: Any = transformers.AutoModelForMultimodalLM
    causal: Any = transformers.AutoModelForCausalLM
    towers = bool(getattr(settings, "sub_configs", {})) and type(settings) in multimodal._model_mapping
    masked, pairs = transformers.AutoModelForMaskedLM, transformers.AutoModelForSeq2SeqLM
    speech: Any = transformers.AutoModelForSpeechSeq2Seq
    order: tuple[Any, ...] = (pairs, speech, masked) if settings.is_encoder_decoder else (masked, causal)
    order = (multimodal, *order) if towers else (*order, multimodal)
    model_class: Any = next(
        auto._model_mapping[type(settings)] for auto in order if type(settings) in auto._model_mapping
    )
    model_class = model_class[0] if isinstance(model_class, (tuple, list)) else model_class
    default_dtype = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            return _built(model_class, settings)
    finally:
        torch.set_default_dtype(default_dtype)


def _built(model_class: Any, settings: Any) -> Any:
    """The model. Towers that choose a class by the name of the implementation know eager attention (SamVisionModel)."""
    try:
        return model_class(settings)
    except KeyError as error:
        if error.args != (settings._attn_implementation,):
            raise
    for part in _sub_configs(settings):
        if not getattr(part, "vocab_size", 0):
            part._attn_implementation = "eager"
    return model_class(settings)


def _sub_configs(settings: Any) -> Iterator[Any]:
    for name in getattr(settings, "sub_configs", {}):
        part = getattr(settings, name, None)
        if part is not None:
            yield part
            yield from _sub_configs(part)


def add_adapter(model: Any, adapter: Adapter) -> Any:
    """`model` wrapped by PEFT; adapter weights are float32 until `cast_trainable`."""
    from peft import get_peft_model

    targets: Any = list(adapter.targets)
    if adapter.targets in (("all",), ("all-linear",)):
        targets = _linear_names(model, adapter.exclude) if adapter.by_name else "all-linear"
    common = {
        "target_modules": targets,
        "exclude_modules": list(adapter.exclude) or None,
        "modules_to_save": list(adapter.modules_to_save) or None,
        "task_type": "CAUSAL_LM" if _takes_tokens(model) else None,
    }
    settings = {"oft": _oft, "ia3": _ia3}.get(adapter.kind, _lora)
    return get_peft_model(model, settings(adapter, common))


def _takes_tokens(model: Any) -> bool:
    return hasattr(model, "prepare_inputs_for_generation") and model.main_input_name == "input_ids"


def _linear_names(model: Any, excluded: tuple[str, ...]) -> list[str]:
    """Full dotted names of all linear layers but the head and those in `excluded`. Last parts would be ambiguous: a
    convolution over patches may share its last part with a linear layer (LLaMA-Factory 0.9.5
    model/model_utils/visual.py:196, patch_target_modules)."""
    head = model.get_output_embeddings()
    return sorted(
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head and name not in excluded
    )


def _lora(adapter: Adapter, common: dict[str, Any]) -> Any:
    from peft import LoraConfig

    return LoraConfig(
        r=adapter.rank,
        lora_alpha=int(adapter.alpha),
        lora_dropout=adapter.dropout,
        bias=adapter.bias,
        use_dora=adapter.use_dora,
        use_rslora=adapter.use_rslora,
        rank_pattern=dict(adapter.rank_pattern),
        target_parameters=list(adapter.target_parameters) or None,
        layers_to_transform=list(adapter.layers_to_transform) or None,
        **common,
    )


def _oft(adapter: Adapter, common: dict[str, Any]) -> Any:
    from peft import OFTConfig

    size = {"r": 0, "oft_block_size": adapter.block_size} if adapter.block_size else {"r": adapter.rank}
    return OFTConfig(module_dropout=adapter.dropout, **size, **common)


def _ia3(adapter: Adapter, common: dict[str, Any]) -> Any:
    from peft import IA3Config

    return IA3Config(feedforward_modules=[], **common)


def cast(model: Any, choose: Callable[[torch.nn.Parameter], torch.dtype | None]) -> None:
    """Casts each meta parameter to the dtype that `choose` returns; None leaves it."""
    for parameter in model.parameters():
        dtype = choose(parameter)
        if dtype is not None and parameter.is_floating_point() and parameter.dtype != dtype:
            parameter.data = parameter.data.to(dtype)


def cast_modules(model: Any, names: tuple[str, ...], dtype: torch.dtype) -> None:
    """Casts the weights of modules whose name contains one of `names`."""
    for name, module in model.named_modules():
        if any(part in name for part in names) and hasattr(module, "weight"):
            module.weight.data = module.weight.data.to(dtype)


def upcast_norms(model: Any) -> None:
    """Casts the vectors of norms to float32 (LLaMA-Factory 0.9.5 model/model_utils/checkpointing.py:158)."""
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1 and any(part in name for part in ("norm", "ln")):
            parameter.data = parameter.data.to(torch.float32)


def cast_embeddings_and_norms(model: Any, dtype: torch.dtype) -> None:
    """Casts embeddings, head and norms to their own dtype, as Axolotl does (axolotl 0.19.0 loaders/model.py,
    _convert_embedding_modules_dtype: by their names)."""
    named = {id(module) for module in (model.get_input_embeddings(), model.get_output_embeddings())}
    for name, module in model.named_modules():
        if id(module) in named or "norm" in name:
            cast(module, lambda parameter: dtype)


def to_fake(model: Any) -> None:
    """Replaces meta parameters and buffers by tensors of the active fake mode. Tied parameters stay tied."""
    seen: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                module._parameters[name] = _fake_parameter(parameter, seen)
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = _fake_like(buffer, seen)
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.is_meta:
                setattr(module, name, _fake_like(value, seen))


def _fake_like(tensor: torch.Tensor, seen: dict[int, torch.Tensor]) -> torch.Tensor:
    if id(tensor) not in seen:
        seen[id(tensor)] = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    return seen[id(tensor)]


def _fake_parameter(parameter: torch.Tensor, seen: dict[int, torch.Tensor]) -> torch.nn.Parameter:
    if id(parameter) not in seen:
        data = torch.empty(parameter.shape, dtype=parameter.dtype, device="cpu")
        seen[id(parameter)] = torch.nn.Parameter(data, requires_grad=parameter.requires_grad)
    found = seen[id(parameter)]
    assert isinstance(found, torch.nn.Parameter)
    return found
