"""What scripts and TRL do to a model in 4 or 8 bits before and after it gets its adapter.

Read in trl at the releases named here. `prepare_model_for_kbit_training` (peft utils/other.py) makes fp32 of every
half-precision parameter; `peft_module_casting_to_bf16` (trl/trainer/utils.py, trl/models/utils.py) turns the modules
`embed_tokens`, `wte`, `wpe` and `lm_head` into bf16 again where `bf16` is on, and adapters too before 0.9 (trl#1644).
"""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.fields import Fields
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.method import adapter_key
from memlint.formats.trainer.model import FIREFLY, is_firefly_qlora
from memlint.formats.training_arguments import Version
from memlint.source.document import StartedProgram

_Span = tuple[Version, Version]  # first release, first release without
_ALWAYS: Version = (99,)
# prepare_model_for_kbit_training in trl/trainer/<stage>_trainer.py (trl/experimental/ for what is called there today).
_UPCASTS: Mapping[str, _Span] = {
    "sft": ((0,), (0, 26)),
    "rm": ((0,), (0, 26)),
    "grpo": ((0, 22), (0, 26)),
    "dpo": ((0,), (0, 29)),
    "kto": ((0,), (1, 4)),
    **dict.fromkeys(("orpo", "cpo", "simpo"), ((0,), _ALWAYS)),
}
# The same for peft_module_casting_to_bf16; from 0.22 to 0.25 both are in prepare_peft_model (trl/models/utils.py).
_CASTS: Mapping[str, _Span] = {
    **_UPCASTS,
    "sft": ((0, 7, 5), (0, 26)),
    "dpo": ((0, 7, 8), (0, 29)),
    "rm": ((0, 22), (0, 26)),
}
# Before, they call prepare_model_for_int8_training, which checkpoints whatever the arguments say (trl 0.7.1
# trainer/sft_trainer.py:148; peft 0.4.0 utils/other.py, use_gradient_checkpointing=True).
_CHECKPOINTS_ALWAYS: Version = (0, 7, 2)
# The same for `is_sharded_qlora`: under FSDP and ZeRO-3 4-bit weights are not on the GPU, and neither is called.
_SKIPS_SHARDED: Mapping[str, _Span] = {"sft": ((0, 8), (0, 26)), "rm": ((0, 22), (0, 26)), "grpo": ((0, 22), (0, 26))}
_KEEPS_ADAPTERS: Version = (0, 9)
REFUSED = (
    "weights in {} bits have no gradients, and without an adapter the Trainer raises ValueError after the model is "
    "loaded"
)


# A folder, and a name that is known only by the model that it was tuned from (unsloth 2026.8 models/loader.py loads an
# adapter to be trained on; transformers 5.23.0 integrations/peft.py loads one beside its base model).
LOADED = "what the model is loaded from may hold an adapter, and a model in 4 or 8 bits trains with one alone"


def trains_quantised_weights(config: TrainerConfig) -> str:
    """The key that quantises the base model of a program whose trainer gets no adapter; "" where nothing is refused.

    source: transformers 5.23.0 trainer_utils.py:130-136.
    """
    return "" if config.architecture is None or config.may_be_adapter else _quantises_without_adapter(config)


def may_load_adapter(config: TrainerConfig) -> bool:
    """Whether such a program may load an adapter with its model."""
    return config.may_be_adapter and _quantises_without_adapter(config) != ""


def _quantises_without_adapter(config: TrainerConfig) -> str:
    """The key that quantises the model of a program that is not seen to make an adapter; "" where there is none.

    TRL's PPOTrainer does not start as a Trainer does, and one of another library may hide from it that the model is
    quantised (adapters 1.2.0 trainer.py:56-58).
    """
    start, value = config.section.document.start, config.section.value
    if (
        start is None
        or start.program.framework not in ("trl", "transformers")
        or start.program.unmodelled
        or start.program.freezes
        or start.program.task in ("", "ppo")
        or config.stage == "ppo"
    ):
        return ""
    if ("use_peft",) in start.values.unknown or adapter_key(config):
        return ""
    return next((key for key in ("load_in_4bit", "load_in_8bit") if value.get(key) is True), "")


def apply_preparation(fields: Fields, config: TrainerConfig) -> None:
    """Put dtypes as the script and TRL's trainer leave a quantised model. Call it after the engine, which may cast
    everything."""
    bits = fields.get("model.quantization.bits", 16)
    if fields.get("method.kind") != "lora" or _cast_by_deepspeed(fields):
        return
    if bits == 16:
        _apply_preparation_of_whole(fields, config)
    if bits not in (4, 8):
        return
    if fields.get("model.quantization.method", "") == "bnb":
        _apply_own_preparation(fields, config)
    if config.trl:
        _apply_preparation_of_trl(fields, config, bits)


_PREPARES = frozenset(("prepare_model_for_kbit_training", "prepare_model_for_int8_training"))


def _apply_preparation_of_whole(fields: Fields, config: TrainerConfig) -> None:
    """A model without quantised weights whose script prepares it nevertheless: all its weights become fp32 (peft 0.21.2
    utils/other.py:205, "cast all non INT8 parameters to fp32")."""
    start = config.section.document.start
    if start is not None and start.program.quantized_preparation == "peft":
        if not _PREPARES.isdisjoint(config.context.repository.own_functions("peft/utils")):
            fields.unknown("model.weights_dtype", "what the copy of PEFT in this repository makes of the weights")
            return
        reason = f"{start.program.entry}: prepare_model_for_kbit_training makes fp32 of weights that are not quantised"
        fields.infer("model.weights_dtype", "float32", reason)


def _apply_own_preparation(fields: Fields, config: TrainerConfig) -> None:
    """What a script does to a quantised model before its trainer gets it."""
    start = config.section.document.start
    program = start.program if start is not None else StartedProgram(FIREFLY)
    prepared = program.quantized_preparation
    if prepared or is_firefly_qlora(config):
        reason = f"{program.entry}: prepare_model_for_kbit_training"
        fields.infer("model.quantization.upcast_rest_to_fp32", True, reason)
    if prepared == "qlora" and config.args.flag("bf16"):
        reason = f"{program.entry} casts embeddings, head and adapters to bf16"
        fields.infer("model.quantization.vocabulary_to_bf16", True, reason)
        fields.infer("method.adapter_dtype", "bfloat16", reason)


def _apply_preparation_of_trl(fields: Fields, config: TrainerConfig, bits: int) -> None:
    stage = config.stage
    if bits == 4 and _in(config, _SKIPS_SHARDED.get(stage)) and _sharded(fields):
        storage = fields.get("model.quantization.storage_dtype", "uint8")
        dtype = "float32" if storage == "uint8" else storage
        fields.infer("method.adapter_dtype", dtype, "peft gives adapters the dtype that 4-bit weights are stored in")
        return
    if _in(config, _UPCASTS.get(stage)):
        fields.infer("model.quantization.upcast_rest_to_fp32", True, "trl calls prepare_model_for_kbit_training")
        if config.trl < _CHECKPOINTS_ALWAYS:
            reason = "trl before 0.7.2 calls prepare_model_for_int8_training, which checkpoints each layer"
            fields.infer("checkpointing.mode", "full", reason)
            fields.infer("checkpointing.reentrant", True, reason)
    casts = bits == 4 and bool(config.args.flag("bf16")) and _in(config, _CASTS.get(stage))
    if casts:
        fields.infer("model.quantization.vocabulary_to_bf16", True, "trl's peft_module_casting_to_bf16")
    _adapter_dtype(fields, config, stage, casts)


def _adapter_dtype(fields: Fields, config: TrainerConfig, stage: str, casts: bool) -> None:
    """bf16 where TRL makes it so (sft_trainer.py, 0.26.0: `param.data.to(torch.bfloat16)`), else peft's fp32."""
    until = _UPCASTS.get(stage, (_ALWAYS, _ALWAYS))[1]
    if config.trl >= until and stage in _UPCASTS:
        fields.infer("method.adapter_dtype", "bfloat16", f"trl turns QLoRA's adapters into bf16 ({stage}_trainer.py)")
    elif casts and config.trl < _KEEPS_ADAPTERS:
        fields.infer("method.adapter_dtype", "bfloat16", "trl's peft_module_casting_to_bf16 before 0.9")


def _in(config: TrainerConfig, span: _Span | None) -> bool:
    """Whether the release lies in the span; `0.7` means its last patch release."""
    return span is not None and config.trl >= span[0][: len(config.trl)] and config.trl < span[1]


def _sharded(fields: Fields) -> bool:
    engine = fields.get("parallelism.engine")
    stage = fields.get("parallelism.zero.stage", None)
    return bool(engine == "fsdp" or (engine == "deepspeed" and stage == 3))


def _cast_by_deepspeed(fields: Fields) -> bool:
    """The engine turns the whole module into bf16 or fp16 (deepspeed engine.py, `module.bfloat16()`)."""
    halves = fields.get("precision.compute") in ("bfloat16", "float16")
    return bool(fields.get("parallelism.engine") == "deepspeed" and halves and not fields.get("precision.autocast"))


def under_zero3(fields: Fields, config: TrainerConfig) -> None:
    """trl 1.16 sft_trainer.py:878: adapters under ZeRO-3 need reentrant checkpointing, so it is forced."""
    adapters = fields.get("method.kind") == "lora" and fields.get("parallelism.zero.stage", None) == 3
    if adapters and config.trl >= (1, 16) and fields.get("checkpointing.mode") != "none":
        fields.infer("checkpointing.reentrant", True, "trl forces it for adapters under ZeRO-3")
