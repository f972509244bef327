"""Reads facts from a live model, its optimizer and the process: parameters, dtypes, adapters, versions, the card."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import Any

import torch

from memlint._record import NamedTuple
from memlint.hardware.catalog import find
from memlint.settings.meaning import is_version
from memlint.suppressions.directives import PACKAGES

# Class of a PyTorch optimizer -> the name that TrainingArguments has for it.
OPTIMIZERS = {
    "AdamW": "adamw_torch",
    "Adam": "adamw_torch",
    "SGD": "sgd",
    "Adagrad": "adagrad",
    "RMSprop": "rmsprop",
    "Adafactor": "adafactor",
    "AdamW8bit": "adamw_bnb_8bit",
    "PagedAdamW": "paged_adamw_32bit",
    "PagedAdamW8bit": "paged_adamw_8bit",
    "Lion": "lion_32bit",
    "Lion8bit": "lion_8bit",
}

# Class of TRL's arguments -> the stage that its trainer trains, as in `task_type`; "" if the arguments' keys say it.
STAGES = {
    "SFTConfig": "sft",
    "DPOConfig": "dpo",
    "RewardConfig": "rm",
    "KTOConfig": "kto",
    "ORPOConfig": "orpo",
    "CPOConfig": "",
    "GRPOConfig": "",
    "RLOOConfig": "",
}


class LiveState(NamedTuple):
    """Facts about a model's parameters. Counts are of the whole model; None if this rank only sees a part of it."""

    parameters: int | None
    trainable: int | None
    weight_bytes: int  # on this rank, now
    trainable_bytes: int


def live_state(model: torch.nn.Module) -> LiveState:
    """Counts the parameters. The size of a whole parameter is in `ds_numel` under ZeRO-3 and in `numel()` of FSDP2's
    DTensor; FSDP1's flat parameters no longer have it."""
    parameters = trainable = weights = gradients = 0
    is_flat = False
    for one in model.parameters():
        whole, local = _sizes(one)
        is_flat = is_flat or type(one).__name__ == "FlatParameter" or hasattr(one, "_is_flat_param")
        parameters += whole
        weights += local
        if one.requires_grad:
            trainable += whole
            gradients += local
    is_flat = is_flat or any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())
    return LiveState(None if is_flat else parameters, None if is_flat else trainable, weights, gradients)


def _sizes(parameter: Any) -> tuple[int, int]:
    """(elements of the whole parameter, bytes of it on this rank)."""
    if hasattr(parameter, "ds_numel"):
        shard = getattr(parameter, "ds_tensor", None)
        here = parameter if shard is None or parameter.numel() else shard
        return int(parameter.ds_numel), here.numel() * here.element_size()
    local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    quantised = getattr(parameter, "quant_state", None)
    whole = quantised.shape.numel() if quantised is not None else parameter.numel()
    return int(whole), local.numel() * local.element_size()


def state_bytes(model: torch.nn.Module, optimizer: Any) -> int:
    """Bytes of the tensors that a training keeps on this rank: weights, gradients, optimizer states."""
    seen: dict[int, int] = {}
    for tensor in _state_tensors(model, optimizer):
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        for part in (local,) if local.layout is torch.strided else (local._indices(), local._values()):
            storage = part.untyped_storage()
            seen[storage._cdata] = storage.nbytes()
    return sum(seen.values())


def _state_tensors(model: torch.nn.Module, optimizer: Any) -> Iterator[Any]:
    for parameter in model.parameters():
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
    for states in getattr(innermost(optimizer), "state", {}).values():
        yield from (each for each in states.values() if isinstance(each, torch.Tensor) and _is_on_gpu(each, model))


def innermost(optimizer: Any) -> Any:
    """The optimizer inside the wrappers of accelerate and DeepSpeed: the one whose `step` runs."""
    while (inner := getattr(optimizer, "optimizer", None)) is not None:
        optimizer = inner
    return optimizer


def _is_on_gpu(tensor: torch.Tensor, model: torch.nn.Module) -> bool:
    return bool(tensor.device == next((each.device for each in model.parameters()), tensor.device))


def model_config(model: torch.nn.Module) -> dict[str, Any]:
    """The model's config.json; {} for a model that is not of transformers."""
    config = getattr(unwrapped(model), "config", None)
    if config is None or not hasattr(config, "to_dict"):
        return {}
    found: dict[str, Any] = config.to_dict()
    if not found.get("architectures"):
        inner = unwrapped(model)
        if hasattr(inner, "peft_config"):
            inner = getattr(inner.base_model, "model", inner)
        found["architectures"] = [type(inner).__name__.removeprefix("FSDP")]
    return found


def unwrapped(model: Any) -> Any:
    """The model inside of DDP's, FSDP1's, DeepSpeed's or the compiler's wrapper."""
    while isinstance(inner := getattr(model, "_orig_mod", getattr(model, "module", None)), torch.nn.Module):
        model = inner
    return model


def is_compiled(model: object) -> bool:
    """Whether `model` is the wrapper that `torch.compile` returns."""
    return isinstance(getattr(model, "_orig_mod", None), torch.nn.Module)


def model_keys(model: torch.nn.Module) -> dict[str, Any]:
    """The model's dtype, attention, adapter and quantisation, under the names of TRL's ModelConfig."""
    inner = unwrapped(model)
    config = getattr(inner, "config", None)
    keys: dict[str, Any] = {"dtype": str(_dtype_of_frozen(model)).removeprefix("torch.")}
    attention = getattr(config, "_attn_implementation", None)
    if attention:
        keys["attn_implementation"] = attention
    return {**keys, **_adapter_keys(inner), **_quantisation_keys(config)}


def _dtype_of_frozen(model: torch.nn.Module) -> Any:
    """The dtype of most frozen parameters; if none is frozen, of most parameters."""
    counts: dict[tuple[bool, Any], int] = {}
    for one in model.parameters():
        if one.dtype.is_floating_point:
            key = (not one.requires_grad, one.dtype)
            counts[key] = counts.get(key, 0) + _sizes(one)[0]
    frozen = {key: number for key, number in counts.items() if key[0]} or counts
    return max(frozen, key=lambda key: frozen[key])[1] if frozen else torch.float32


def _adapter_keys(inner: Any) -> dict[str, Any]:
    adapters = getattr(inner, "peft_config", None)
    if not isinstance(adapters, dict) or not adapters:
        return {}
    adapter = next(iter(adapters.values()))
    if str(getattr(adapter, "peft_type", "")).rpartition(".")[2] != "LORA":
        return {}
    targets = getattr(adapter, "target_modules", None)
    saved = getattr(adapter, "modules_to_save", None)
    return {
        "use_peft": True,
        "lora_r": adapter.r,
        "lora_alpha": adapter.lora_alpha,
        "lora_dropout": adapter.lora_dropout,
        "lora_target_modules": targets if isinstance(targets, str) else sorted(targets or ()),
        "use_rslora": bool(getattr(adapter, "use_rslora", False)),
        "use_dora": bool(getattr(adapter, "use_dora", False)),
        **({"lora_modules_to_save": list(saved)} if saved else {}),
    }


def _quantisation_keys(config: Any) -> dict[str, Any]:
    stated = getattr(config, "quantization_config", None)
    if stated is None:
        return {}
    values = stated if isinstance(stated, dict) else stated.to_dict()
    if values.get("load_in_4bit"):
        return {
            "load_in_4bit": True,
            "bnb_4bit_quant_type": values.get("bnb_4bit_quant_type", "fp4"),
            "use_bnb_nested_quant": bool(values.get("bnb_4bit_use_double_quant")),
        }
    return {"load_in_8bit": True} if values.get("load_in_8bit") else {}


def optimizer_keys(optimizer: Any) -> dict[str, Any]:
    """The optimizer by its class, as TrainingArguments would name it."""
    optimizer = innermost(optimizer)
    name = OPTIMIZERS.get(type(optimizer).__name__)
    if name is None:
        return {}
    fused = any(group.get("fused") for group in getattr(optimizer, "param_groups", ()))
    return {"optim": "adamw_torch_fused" if fused and name == "adamw_torch" else name}


def stage(arguments: object) -> str | None:
    """The stage of a TRL trainer, by the class of its arguments; "" for a plain Trainer, None for a TRL trainer that
    memlint cannot estimate."""
    names = (base.__name__ for base in type(arguments).__mro__ if base.__module__.startswith("trl."))
    name = next(names, "")
    return STAGES.get(name) if name else ""


def steps_by_tensor(model: torch.nn.Module, optimizer: Any) -> bool:
    """Whether PyTorch's optimizer updates one tensor at a time: by request, or for parameters outside of an accelerator
    (torch 2.13 optim/optimizer.py, _default_to_fused_or_foreach). The model has them: under ZeRO-3 the optimizer's
    groups are empty between steps (deepspeed 0.19.8 runtime/zero/stage3.py)."""
    asked = {group.get("foreach") for group in getattr(innermost(optimizer), "param_groups", ())}
    on_cpu = any(each.device.type == "cpu" for each in model.parameters())
    return False in asked or (True not in asked and on_cpu)


def versions() -> dict[str, str]:
    """The versions of the installed frameworks, without local parts such as "+cu126"."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            number = metadata.version(package).partition("+")[0]
            found |= {package: number} if is_version(number) else {}
        except metadata.PackageNotFoundError:
            continue
    return found


def card() -> str | None:
    """The card that this process uses: its name if memlint knows it, else its size; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    size = properties.total_memory / 2**30
    name = properties.name.removeprefix("NVIDIA ").replace("GeForce ", "")
    known = find(name)
    if known is not None and abs(known.nominal_bytes / 2**30 - size) < 0.1 * size:
        return known.name
    return f"{round(size)}GiB"


def world() -> tuple[int, int]:
    """(rank, number of ranks)."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
