"""How an Axolotl file says what trains, what is quantised, what waits in host memory, and whether it evaluates.

Read in axolotl 0.19.0: utils/schemas/{peft,fsdp,config,validation}.py, core/builders/base.py, utils/trainer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.axolotl.parallel import shipped_deepspeed
from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED, new_section, placed
from memlint.run import Run
from memlint.source.document import Path

Place = tuple[str, Path]
Part = Callable[[Mapping[str, Any], Place, "dict[str, Any]"], "list[Edit] | None"]

_QUANTIZATION = ("method", "bits", "kind", "double_quant")


def _set(place: Place, key: str, value: Any) -> Edit:
    return Edit(place[0], (*place[1], key), "set", value)


def _gone(config: Mapping[str, Any], place: Place, *keys: str) -> list[Edit]:
    return [Edit(place[0], (*place[1], key), "remove") for key in keys if key in config]


def _adapter(config: Mapping[str, Any], place: Place, rest: dict[str, Any]) -> list[Edit] | None:
    """`adapter: lora`, or `qlora` with `load_in_4bit` (loaders/model.py, _set_quantization_config: NF4 with double
    quantisation unless `bnb_config_kwargs` says otherwise). What fuses or picks whole weights does not go with it."""
    kind, targets = rest.pop("method.kind", None), rest.pop("method.targets", None)
    quantized = {part: rest.pop(f"model.quantization.{part}", None) for part in _QUANTIZATION}
    if kind is None and targets is None and not any(quantized.values()):
        return []
    four = quantized["bits"] == 4
    if any(quantized.values()) and (not _is_nf4(config, quantized) or _loads_on_one_rank(config)):
        return None
    if kind not in (None, "lora") or (kind is None and config.get("adapter") not in ("lora", "qlora")):
        return None
    if any(config.get(key) for key in ("unfrozen_parameters", "relora", "model_quantization_config", "gptq")):
        return None
    edits = [_set(place, "adapter", "qlora" if four else "lora")]
    edits += [_set(place, "load_in_4bit", True)] if four or config.get("load_in_4bit") else []
    edits += [_set(place, "load_in_8bit", False)] if config.get("load_in_8bit") else []
    if kind == "lora":
        made = _targets(config, place, targets)
        if made is None or not _takes_an_adapter(config):
            return None
        edits += made
        rest.pop("method.reference_model", None)  # the adapter switched off: core/builders/rl.py:289
    elif targets is not None:
        return None
    return edits


def _is_nf4(config: Mapping[str, Any], quantized: Mapping[str, Any]) -> bool:
    return quantized["bits"] == 4 and quantized["kind"] in (None, "nf4") and not config.get("bnb_config_kwargs")


def _loads_on_one_rank(config: Mapping[str, Any]) -> bool:
    """validation.py:1266: FSDP2 takes no 4 bits that are loaded so."""
    section = config.get("fsdp_config")
    keys = ("cpu_ram_efficient_loading", "fsdp_cpu_ram_efficient_loading")
    return isinstance(section, dict) and any(section.get(key) for key in keys)


def _takes_an_adapter(config: Mapping[str, Any]) -> bool:
    """validation.py: fused MLPs, 1-bit models and `q_galore_adamw8bit` want whole weights."""
    fused = any(config.get(key) for key in ("flash_attn_fuse_mlp", "flash_attn_fuse_qkv", "use_onebitllms"))
    return not fused and config.get("optimizer") != "q_galore_adamw8bit"


def _targets(config: Mapping[str, Any], place: Place, targets: Any) -> list[Edit] | None:
    if targets is None:
        return []
    if tuple(targets) == ("all-linear",):
        return [_set(place, "lora_target_linear", True), *_gone(config, place, "lora_target_modules")]
    return [_set(place, "lora_target_modules", list(targets)), *_gone(config, place, "lora_target_linear")]


def _checkpoints(config: Mapping[str, Any], place: Place, rest: dict[str, Any]) -> list[Edit] | None:
    """`hidden_states`: checkpointing stays, and what checkpoints keep is on the host (validation.py:1648). `true`
    moves every activation in place of recomputing where adapters train (loaders/model.py:365), which is more."""
    offload = rest.pop("checkpointing.offload", None)
    if offload is None:
        return []
    blocked = ("selective_checkpointing", "layer_offloading", "activation_offloading")
    on = config.get("gradient_checkpointing") is True or rest.get("checkpointing.mode") == "full"
    if offload is not True or not on or any(config.get(key) for key in blocked):
        return None
    return [_set(place, "activation_offloading", "hidden_states")]


def _evaluation(config: Mapping[str, Any], place: Place, rest: dict[str, Any]) -> list[Edit] | None:
    """`val_set_size: 0`: with a set to evaluate on Axolotl evaluates before the first step whatever `eval_strategy`
    says (core/builders/base.py:531, `eval_on_start`). The samples held back are trained on then."""
    wanted = rest.pop("evaluation.enabled", None)
    if wanted is None:
        return []
    waits = ("test_datasets", "early_stopping_patience", "load_best_model_at_end", "do_bench_eval", "do_causal_lm_eval")
    if wanted or any(config.get(key) for key in waits) or config.get("save_strategy") == "best":
        return None
    gone = _gone(config, place, "eval_steps", "evals_per_epoch", "eval_strategy", "evaluation_strategy")
    return [_set(place, "val_set_size", 0), *gone]


_FSDP = {
    "parallelism.fsdp.cpu_offload": "offload_params",
    "parallelism.fsdp.reshard_after_forward": "reshard_after_forward",
}


def _fsdp(config: Mapping[str, Any], place: Place, rest: dict[str, Any]) -> list[Edit] | None:
    """Keys of `fsdp_config`, with their `fsdp_` where the file's others have it (utils/schemas/fsdp.py)."""
    wanted = {field: rest.pop(field) for field in [field for field in rest if field in _FSDP]}
    section = config.get("fsdp_config")
    optimizer = str(rest.get("optimizer.name", config.get("optimizer")))
    eight = "8bit" in optimizer and wanted.get("parallelism.fsdp.cpu_offload")  # validation.py:1236
    if wanted and (eight or not isinstance(section, dict)):
        return None
    prefix = "fsdp_" if section and all(str(key).startswith("fsdp_") for key in section) else ""
    path, pointer = place
    edits = []
    for field, value in wanted.items():
        if not isinstance(value, bool):
            return None
        edits.append(Edit(path, (*pointer, "fsdp_config", f"{prefix}{_FSDP[field]}"), "set", value))
    return edits


def _towers(config: Mapping[str, Any], place: Place, rest: dict[str, Any]) -> list[Edit] | None:
    """`freeze_mm_modules` freezes tower and projector alike."""
    parts = [rest.pop(f"method.freeze_{part}", None) for part in ("vision_tower", "multi_modal_projector")]
    if parts == [None, None]:
        return []
    return [_set(place, "freeze_mm_modules", True)] if parts == [True, True] else None


METHOD_PARTS: tuple[Part, ...] = (_adapter, _checkpoints, _evaluation, _fsdp, _towers)


def new_deepspeed(
    config: Mapping[str, Any], place: Place, run: Run, changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """`deepspeed:` takes a mapping as well as a file's name (utils/trainer.py:552), and one GPU (:564); tensor
    parallelism and DeepCompile open it as a file (validation.py:1287, :1321)."""
    blocked = ("deepspeed", "fsdp", "fsdp_config", "tensor_parallel_size", "deepcompile", "relora", "ple_cpu_offload")
    if any(config.get(key) for key in blocked) or run.parallelism.engine not in ("single", "ddp"):
        return None
    said = ("parallelism.engine", *FOLLOW_DEEPSPEED)
    section = new_section({field: value for field, value in changes.items() if field not in said})
    return None if section is None else (_set(place, "deepspeed", section),)


# Stage, and where optimizer states and parameters are, of the files that `axolotl fetch deepspeed_configs` writes.
_SHIPPED = {
    (1, "none", "none"): "zero1.json",
    (2, "cpu", "none"): "zero2.json",
    (3, "none", "none"): "zero3_bf16.json",
    (3, "cpu", "cpu"): "zero3_bf16_cpuoffload_all.json",
    (3, "none", "cpu"): "zero3_bf16_cpuoffload_params.json",
}


def shipped_deepspeed_edits(
    config: Mapping[str, Any], place: Place, run: Run, changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """Another file of Axolotl's folder in place of the one that is named; None where none of them says `changes`."""
    name = config.get("deepspeed")
    wanted = placed(run, changes)
    if not isinstance(name, str) or shipped_deepspeed(name) is None or wanted is None:
        return None
    other = _SHIPPED.get(wanted)
    if other is None or ("bf16" in other and run.precision.compute != "bfloat16"):
        return None
    return (_set(place, "deepspeed", name[: name.rindex("/") + 1] + other),)
