"""What writes completions in verl, and what its log-probabilities cost beside the logits."""

from __future__ import annotations

from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields, as_number
from memlint.formats.verl.batches import ACTOR, ROLLOUT
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.families import SCALES_LOGITS
from memlint.formats.verl.releases import (
    divides_in_place,
    has_actor_of_its_own,
    has_fused_kernels,
    is_before_0_4,
    sleeps_in_any_case,
)
from memlint.run import UNKNOWN, Entailed, Origin

_MIB = 1 << 20
MULTI_TURN = f"{ROLLOUT}.multi_turn.enable"
_UNPADDED = "actor_rollout_ref.model.use_remove_padding"
AGENT_LOOP, AGENT_LOOPS = f"{ROLLOUT}.agent.default_agent_loop", f"{ROLLOUT}.agent.agent_loop_config_path"


def read_generator(fields: Fields, config: VerlConfig) -> None:
    """vLLM or SGLang on the training cards unless the file gives them nodes of their own (`rollout.nnodes` above 0 and
    `hybrid_engine: false`); `hf` generates with the model itself."""
    key = f"{ROLLOUT}.name"
    if config.word(key) == "hf":
        fields.put("rollout.generator", "model", config.origin(key))
        return
    elsewhere = config.raw("actor_rollout_ref.hybrid_engine") is False
    fields.put("rollout.generator", "vllm" if elsewhere else "vllm_colocate", config.origin(key))
    if elsewhere:
        return
    share = config.get(f"{ROLLOUT}.gpu_memory_utilization")
    number = as_number(share)
    if number is not None and 0 < number <= 1:
        fields.put("rollout.share", float(number), config.origin(f"{ROLLOUT}.gpu_memory_utilization"))
    else:
        fields.unknown("rollout.share", "the engine's share of the card is not known")
    if config.word(key) == "sglang":
        source = "verl sglang_rollout/async_sglang_server.py:317: mem_fraction_static, a share of what is free"
        fields.infer("rollout.share_of_free", True, source)
    _read_sleep(fields, config)
    if is_before_0_4(config):
        _before_0_4(fields)


def _read_sleep(fields: Fields, config: VerlConfig) -> None:
    key = f"{ROLLOUT}.free_cache_engine"
    if not config.flag(key) and sleeps_in_any_case(config):
        fields.infer(
            "rollout.sleep_level", 1, "verl 0.3 to 0.4 put the engine to sleep whatever `free_cache_engine` says"
        )
        return
    fields.put("rollout.sleep_level", 2 if config.flag(key) else 0, config.origin(key))


def _before_0_4(fields: Fields) -> None:
    """The engine ran in the trainer's process and woke as a whole before it got the weights of a sharded state dict
    (verl 0.3.0 workers/sharding_manager/fsdp_vllm.py:86-97)."""
    fields.infer("rollout.own_process", False, "verl before 0.4")
    fields.infer("rollout.wakes_at_once", True, "verl before 0.4")


def read_bucket(fields: Fields, config: VerlConfig) -> None:
    """Weights reach the engine through a buffer of this size (bucketed_weight_transfer.py)."""
    key = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
    fields.put("rollout.sync_bucket_bytes", (config.integer(key) or 0) * _MIB, config.origin(key))


def read_entropy(fields: Fields, config: VerlConfig) -> None:
    """When the entropy is computed: in the update where it is asked for, before the update always
    (trainer/ppo/v1/trainer_base.py:1653). In chunks it saves memory only where no gradient is needed. Padded sequences
    have neither chunks nor a compiled kernel (transformer_impl.py:1491). Until 0.3 each update had it (0.3.0
    workers/actor/dp_actor.py:286)."""
    unpadded = config.flag(_UNPADDED)
    chunks = unpadded and config.flag(f"{ACTOR}.entropy_from_logits_with_chunking")
    compiled = unpadded and config.flag(f"{ACTOR}.use_torch_compile")
    plain = "compiled" if compiled else "whole"
    weight = config.get(f"{ACTOR}.entropy_coeff")
    asked = config.flag(f"{ACTOR}.calculate_entropy") or (weight is not UNKNOWN and (as_number(weight) or 0) != 0)
    asked = asked or is_before_0_4(config)
    update = "recomputed" if config.flag(f"{ACTOR}.entropy_checkpointing") else "whole" if chunks else plain
    fields.put("loss.entropy", update if asked else "none", config.origin(f"{ACTOR}.entropy_coeff"))
    fields.infer("rollout.log_prob_entropy", "chunked" if chunks else plain, "verl computes it before the update")
    if chunks:
        fields.put("loss.chunk_tokens", 2048, Origin("default", detail="verl: entropy_from_logits_chunk_size"))


def read_loss(fields: Fields, config: VerlConfig) -> None:
    """Log-probabilities by FlashAttention's cross entropy, or by verl's fused kernel, which takes 512 tokens at a time
    (utils/experimental/torch_functional.py, FusedLinearForPPO)."""
    key = "actor_rollout_ref.model.use_fused_kernels"
    if config.flag(key):
        fields.put("loss.kind", "chunked", config.origin(key))
        fields.put("loss.chunk_tokens", *_FUSED_CHUNK)
    else:
        fields.put("loss.kind", "fused_ce", config.origin(key))
        _read_padded(fields, config)
    if has_fused_kernels(config) and _is_plain_head(fields.get("model.architecture", None)):
        fields.infer("planning.fuses_log_probabilities", True, "verl 0.4 and newer: `use_fused_kernels`")
        fused = Entailed((("loss.kind", "chunked"),), (("loss.chunk_tokens", _FUSED_CHUNK[0]),))
        put_entailed(fields, lambda _: (fused,), _FUSED_CHUNK[1].detail)


def _read_padded(fields: Fields, config: VerlConfig) -> None:
    """Of padded sequences verl's actor reads the logits of the answers alone (0.7.1 workers/actor/dp_actor.py:299), and
    its engine copies those of all tokens (0.9.1 workers/engine/fsdp/transformer_impl.py:1502)."""
    if divides_in_place(config):
        fields.infer("loss.divides_in_place", True, "verl until 0.8: logits.div_(temperature)")
    if config.flag(_UNPADDED):
        return
    if has_actor_of_its_own(config):
        fields.infer("loss.scores_completions", True, "verl until 0.7: logits[:, -response_length - 1 : -1]")
    else:
        fields.infer("loss.joins_logits", True, "verl 0.9.1 workers/engine/fsdp/transformer_impl.py:1502")


_FUSED_CHUNK = 512, Origin("default", detail="verl: FusedLinearForPPO, chunk_size")


def _is_plain_head(architecture: object) -> bool:
    """verl's fused kernels multiply by the head's weight alone: capped or scaled logits would be others (verl 0.9.1
    models/transformers/dense_common.py:60)."""
    capped = getattr(architecture, "logits_softcap", True)
    return not capped and getattr(architecture, "family", "") not in SCALES_LOGITS


def read_temperature(fields: Fields, config: VerlConfig) -> None:
    """Logits are divided by a temperature other than 1 into a copy (transformer_impl.py:100), until 0.8 in place."""
    number = as_number(config.get(f"{ROLLOUT}.temperature"))
    copies = number not in (None, 1) and not divides_in_place(config)
    fields.put("loss.scales_logits", copies, config.origin(f"{ROLLOUT}.temperature"))


def read_images(fields: Fields, config: VerlConfig) -> None:
    """Images stand in prompts, whose tokens a filter or an error bounds (verl 0.9.1 utils/dataset/rl_dataset.py,
    `maybe_filter_out_long_prompts` counts them as the processor fills them in), unless tools or an agent loop of one's
    own may answer with images."""
    is_plain = not config.flag(MULTI_TURN) and config.word(AGENT_LOOP) == "single_turn_agent"
    alone = is_plain and not config.raw(AGENT_LOOPS) and not _has_loop_of_its_own(config)
    fields.put("sequence.images_in_prompts", alone, config.origin(MULTI_TURN))


def _has_loop_of_its_own(config: VerlConfig) -> bool:
    return bool(getattr(config.architecture, "towers", ())) and config.context.repository.fills_context()
