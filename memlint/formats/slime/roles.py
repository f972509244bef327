"""The model, what stands beside the policy, and the engines that write answers.

Of the reference, a teacher and an older policy slime keeps copies in host memory and moves one after the other into the
policy's own parameters (0.3.1 slime/backends/megatron_utils/actor.py, _switch_model): none has memory of its own on the
card. With `colocate` policy and engines release their memory in turn (0.3.1 train.py, torch_memory_saver).
"""

from __future__ import annotations

from memlint.formats.base import named_model
from memlint.formats.fields import STATED_MODEL, Fields, as_number
from memlint.formats.megatron.model import architecture, why_unknown
from memlint.formats.slime.config import CHECKPOINT, SlimeConfig
from memlint.run import UNKNOWN, Origin

ESTIMATOR, LOSS = "advantage_estimator", "loss_type"
KL, KL_LOSS = "kl_coef", "use_kl_loss"
TOGETHER, GPUS, RANKS = "colocate", "rollout_num_gpus", "rollout_num_gpus_per_engine"
OFFLOAD, OFFLOAD_TRAIN, OFFLOAD_ROLLOUT = "offload", "offload_train", "offload_rollout"
SHARE = "sglang_mem_fraction_static"
_FROZEN = ("freeze_params_name_list", "only_train_params_name_list")


def read_model(fields: Fields, config: SlimeConfig) -> None:
    """What the arguments describe, where they do so with the vocabulary; else what the checkpoint's name says, which
    slime compares with them."""
    name = config.checkpoint or config.context.model_name
    if name:
        fields.put("model.name", name, config.origin(CHECKPOINT) if config.checkpoint else STATED_MODEL)
    reason = "FSDP takes the model from the checkpoint" if config.is_fsdp else why_unknown(config)
    described = None if reason else architecture(config)
    if described is not None and described.vocab_size:
        fields.put("model.architecture", described, Origin("inferred", detail="from the arguments"))
    elif name:
        found, origin = named_model(config.context, name, config.section.document.path)
        fields.put("model.architecture", UNKNOWN if found is None else found, origin)
    elif described is not None:
        words = "from the arguments, without the vocabulary"
        fields.put("model.architecture", described, Origin("inferred", detail=words))
    else:
        fields.unknown("model.name", config.why(CHECKPOINT))
        fields.unknown("model.architecture", reason)


def read_frozen(fields: Fields, config: SlimeConfig) -> None:
    key = next((name for name in _FROZEN if config.gives(name)), "")
    if key:
        fields.unknown("method.kind", f"`{key}`: which parameters train is not read")


def read_stage(fields: Fields, config: SlimeConfig) -> None:
    key = LOSS if config.text(LOSS) == "sft_loss" else ESTIMATOR
    stage = "sft" if key == LOSS else "ppo" if config.text(ESTIMATOR) == "ppo" else "grpo"
    fields.put("method.stage", stage, config.origin(key))


def compares(config: SlimeConfig) -> bool:
    """Whether a reference is loaded (0.3.1 slime/ray/placement_group.py: `with_ref`)."""
    return config.flag(KL_LOSS) or bool(config.number(KL))


def read_reference(fields: Fields, config: SlimeConfig) -> None:
    kind = "copy" if compares(config) else "none"
    fields.put("method.reference_model", kind, config.origin(KL_LOSS))
    fields.put("rollout.offloads_reference", kind == "copy", config.origin(KL_LOSS))


def read_generator(fields: Fields, config: SlimeConfig) -> None:
    """Engines on the policy's GPUs or on others; none in supervised training. Both release their memory in turn with
    `colocate`, unless the command says otherwise."""
    origin = config.origin(TOGETHER)
    if config.gives("debug_train_only") or config.text(LOSS) == "sft_loss":
        return
    together = config.flag(TOGETHER) and config.get(GPUS) != 0
    fields.put("rollout.generator", "vllm_colocate" if together else "vllm", origin)
    moves = _offloads(config, OFFLOAD_TRAIN, together)
    fields.put("rollout.offloads_weights", moves, origin)
    fields.put("rollout.offloads_optimizer", moves, origin)
    if together:
        fields.put("rollout.sleep_level", 2 if _offloads(config, OFFLOAD_ROLLOUT, together) else 0, origin)


def _offloads(config: SlimeConfig, key: str, together: bool) -> bool:
    """`--offload` is both; with `colocate` both are on unless said (0.3.1 slime/utils/arguments.py:1879-1906)."""
    if config.flag(OFFLOAD) or config.flag(key):
        return True
    return together and not config.flag(f"no_{key}")


def read_share(fields: Fields, config: SlimeConfig) -> None:
    """SGLang's share of the memory that is free when it starts."""
    if fields.get("rollout.generator", "") != "vllm_colocate":
        return
    share = as_number(config.get(SHARE))
    fields.put("rollout.share_of_free", True, Origin("framework", detail="SGLang's mem_fraction_static"))
    if share is not None and 0 < share <= 1:
        fields.put("rollout.share", float(share), config.origin(SHARE))
    else:
        reason = "SGLang chooses its share of the card by the card's size"
        fields.unknown("rollout.share", config.origin(SHARE).detail if config.written(SHARE) else reason)
