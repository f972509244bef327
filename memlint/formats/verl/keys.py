"""The keys of verl's `main_ppo` that bear on memory or on the run: `trainer/config/ppo_trainer.yaml` and the files that
it is composed of, read in verl 0.9.1. A dotted name leads through sections, as in an override on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.formats.fields import Fields, as_bool, as_int, value_at
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.role_keys import of_role
from memlint.formats.section_keys import path_of
from memlint.formats.verl import batches, model, other_models, parallel, rollout
from memlint.formats.verl.batches import ACTOR, REFERENCE, ROLLOUT
from memlint.formats.verl.config import VerlConfig
from memlint.formats.verl.engine_keys import megatron_keys, veomni_keys
from memlint.formats.verl.releases import imports_optimizers
from memlint.formats.verl.rollout import AGENT_LOOP, AGENT_LOOPS, MULTI_TURN

MODEL = "actor_rollout_ref.model"


def read_optimizer(fields: Fields, config: VerlConfig) -> None:
    """torch.optim.AdamW unless the file names another class (workers/config/optimizer.py, build_optimizer)."""
    section = "optim" if config.is_sft else f"{ACTOR}.optim"
    name, library = config.word(f"{section}.optimizer"), config.word(f"{section}.optimizer_impl")
    known = next((own for module, own in _OPTIMIZERS.items() if module in (library or _TORCH)), {})
    if name in known:
        fields.put("optimizer.name", known[name], config.origin(f"{section}.optimizer"))
    else:
        fields.unknown("optimizer.name", f"`{section}.optimizer: {library}.{name}` is not known here")
    if parallel.strategy(config) not in ("fsdp", "fsdp2") or not imports_optimizers(config):
        fields.infer("planning.fixed_optimizer", True, "FSDP of verl 0.6.1 and newer alone reads `optimizer_impl`")


_TORCH = "torch.optim"
_OF_TORCH = {"adamw": "adamw_torch", "adam": "adamw_torch", "sgd": "sgd", "nadam": "nadam"}
_OPTIMIZERS: Mapping[str, Mapping[str, str]] = {  # by module, by class
    _TORCH: _OF_TORCH,
    "bitsandbytes": {**_OF_TORCH, "adamw8bit": "adamw_8bit"},
    "torchao": {"adamw8bit": "adamw_torch_8bit"},
}


_WRITTEN = {  # by optimizer, its class and module
    "adamw_torch": ("AdamW", _TORCH),
    "adamw_8bit": ("AdamW8bit", "bitsandbytes.optim"),
    "adamw_torch_8bit": ("AdamW8bit", "torchao.optim"),
}


def write_optimizer(change: FieldChange) -> Written | None:
    """An optimizer by its class and module (0.6.1 workers/config/optimizer.py, build_optimizer)."""
    if change.value not in _WRITTEN or change.run.planning.fixed_optimizer:
        return None
    section = "optim" if change.run.method.stage == "sft" else f"{ACTOR}.optim"
    name, module = _WRITTEN[change.value]
    return {f"{section}.optimizer": name, f"{section}.optimizer_impl": module}


def _write_micro_batch(change: FieldChange) -> Written | None:
    """The key that the file has: for each GPU, or the older total of all GPUs."""
    return _sized(change, f"{ACTOR}.ppo_micro_batch_size")


def _sized(change: FieldChange, name: str) -> Written | None:
    each, total = f"{name}_per_gpu", name
    world = change.run.parallelism.data_parallel_size
    has_each = KEYS[each].spelling_in(change.section) is not None
    if not has_each and KEYS[total].spelling_in(change.section) is not None and isinstance(world, int):
        return {total: change.value * world}
    return {each: change.value}


def _write_log_probabilities(change: FieldChange) -> Written | None:
    return None if change.run.rollout.log_prob_length else _sized(change, f"{ROLLOUT}.log_prob_micro_batch_size")


def _write_reference(change: FieldChange) -> Written | None:
    return None if change.run.rollout.reference_length else _sized(change, f"{REFERENCE}.log_prob_micro_batch_size")


def _write_tokens(change: FieldChange) -> Written | None:
    """The bound on a GPU's tokens, which Ulysses multiplies."""
    degree = change.changes.get("parallelism.sequence_parallel_size", change.run.parallelism.sequence_parallel_size)
    return {f"{ACTOR}.ppo_max_token_len_per_gpu": change.value // degree}


def _write_critic_batch(change: FieldChange) -> Written | None:
    """A critic under `use_dynamic_bsz`, its own or the actor's, is bounded by tokens."""
    flags = (_value_at(change.section, f"{role}.use_dynamic_bsz", as_bool) for role in ("critic", ACTOR))
    dynamic = next((flag for flag in flags if flag is not None), False)
    return None if dynamic else _sized(change, "critic.ppo_micro_batch_size")


def _write_ulysses(change: FieldChange) -> Written | None:
    """GPUs that share a sequence, with the same tokens in a forward of all of them."""
    if change.field != "parallelism.sequence_parallel_size":
        return {}
    name, times = (
        f"{ACTOR}.ulysses_sequence_parallel_size",
        change.value // change.run.parallelism.sequence_parallel_size,
    )
    bounds = (f"{role}.{key}" for role, key in _BOUNDS)
    each = {bound: _value_at(change.section, bound, as_int) for bound in bounds}
    return {name: change.value} | {bound: size // times for bound, size in each.items() if isinstance(size, int)}


_BOUNDS = (
    (ACTOR, "ppo_max_token_len_per_gpu"),
    (ROLLOUT, "log_prob_max_token_len_per_gpu"),
    (REFERENCE, "log_prob_max_token_len_per_gpu"),
)


def _value_at(section: Any, name: str, convert: Callable[[Any], Any]) -> Any:
    return convert(value_at(section, path_of(name)))


def _write_sleep(change: FieldChange) -> Written | None:
    return {f"{ROLLOUT}.free_cache_engine": change.value > 0}


def _write_offload_policy(change: FieldChange) -> Written | None:
    """FSDP 2 alone reads the policy (verl 0.9.1 trainer/config/engine/fsdp.yaml); under FSDP 1 the strategy goes with
    it. A critic trains under its own of both."""
    sections = {f"{ACTOR}.fsdp_config": ACTOR}
    if change.run.method.value_model is not None:
        older = value_at(change.section, ("critic", "model", "fsdp_config")) is not None
        sections["critic.model.fsdp_config" if older else "critic.fsdp"] = "critic"
    policies = {f"{section}.offload_policy": change.value for section in sections}
    if change.run.parallelism.fsdp.version == 2:
        return policies
    return {**policies, **{f"{role}.strategy": "fsdp2" for role in sections.values()}}


def _write_adapter(change: FieldChange) -> Written | None:
    """`lora_rank` says both that an adapter trains and its rank."""
    if change.field == "method.kind" and change.value != "lora":
        return None
    rank = change.changes.get("method.rank", change.run.method.rank or 16)
    return {f"{MODEL}.lora_rank": rank}


def _write_targets(change: FieldChange) -> Written | None:
    names = list(change.value) if isinstance(change.value, (tuple, list)) else []
    if not names:
        return None
    return {f"{MODEL}.target_modules": names[0] if names == ["all-linear"] else names}


def _write_prompt(change: FieldChange) -> Written | None:
    return None if change.field == "sequence.length" else {"data.max_prompt_length": change.value}


LENGTHS = (
    Key(
        *("data.max_prompt_length", "whole", "sequence.max_prompt_length", 512),
        about="The longest prompt in tokens.",
        also=("sequence.length",),
        least=1,
        read=batches.read_lengths,
        write=_write_prompt,
    ),
    Key(
        *("data.max_response_length", "whole", "sequence.max_new_tokens", 512),
        about="The longest response in tokens.",
        least=1,
        read_with="data.max_prompt_length",
    ),
)


def _write_reference_rows(change: FieldChange) -> Written | None:
    if change.field == "rollout.reference_micro_batch_size":
        return _write_reference(change)
    return None


def _write_engine(change: FieldChange) -> Written | None:
    """The engine's name stays; its share and its sleep have keys of their own."""
    if change.field == "rollout.share":
        return {f"{ROLLOUT}.gpu_memory_utilization": change.value}
    return _write_sleep(change) if change.field == "rollout.sleep_level" else None


def _tiles_mlps(config: VerlConfig) -> bool:
    return config.flag(f"{MODEL}.tiled_mlp.enabled")


def _is_fsdp2(config: VerlConfig) -> bool:
    """FSDP-Turbo reads the section of FSDP 2 (verl 0.9.1 workers/engine/fsdp/fsdp_turbo_impl.py:38)."""
    return parallel.strategy(config) in ("fsdp2", "fsdp_turbo")


def read_stage(fields: Fields, config: VerlConfig) -> None:
    """`gae` is PPO with a critic; the others compare the responses to one prompt."""
    word = config.word("algorithm.adv_estimator")
    fields.put("method.stage", "ppo" if word == "gae" else "grpo", config.origin("algorithm.adv_estimator"))
    batches.read_critic(fields, config)


# How many sequences, or tokens, one forward for log-probabilities takes, of the policy and of the reference.
_LOG_PROBABILITIES = (
    Key(
        *("{role}.log_prob_micro_batch_size", "whole"),
        about="The same for all GPUs together, in older files.",
        least=1,
    ),
    Key(
        *("{role}.log_prob_use_dynamic_bsz", "flag"),
        about="Bound that forward of {noun} by its tokens; as the actor's unless said.",
    ),
    Key(
        *("{role}.log_prob_max_token_len_per_gpu", "whole"),
        about="Tokens of that forward of {noun} on a GPU; as the actor's unless said.",
        least=1,
    ),
)
# The rest of what one forward and backward takes, of the policy and of the critic.
_TOTAL_OF_UPDATE = Key(
    *("{role}.ppo_micro_batch_size", "whole"),
    about="The same for all GPUs together, in older files.",
    least=1,
)
KEYS = Keys(
    Key(
        *(f"{MODEL}.path", "text", "model.name"),
        about="The model: a name of the Hugging Face hub or a folder.",
        also=("model.architecture",),
        read=model.read_model,
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.model_dtype", "word", "model.weights_dtype", "fp32"),
        about="The dtype of parameters, gradients and optimizer states. Computations run in bfloat16 whatever it says.",
        also=("precision.trainable_dtype",),
        values={"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"},
        read=parallel.read_dtype,
        read_only=True,
    ),
    Key(
        *(f"{MODEL}.lora_rank", "whole", "method.rank", 0),
        about="The rank of a LoRA adapter; 0 trains all parameters.",
        also=("method.kind",),
        least=0,
        read=model.read_adapter,
        write=_write_adapter,
    ),
    Key(
        *(f"{MODEL}.lora_alpha", "whole", "method.alpha", 16),
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
        least=0,
        when=model.trains_adapter,
        invalid="default",
    ),
    Key(
        *(f"{MODEL}.target_modules", "words", "method.targets", "all-linear"),
        about="The linear layers that get an adapter.",
        when=model.trains_adapter,
        read=model.read_targets,
        write=_write_targets,
    ),
    Key(
        *(f"{ACTOR}.freeze_vision_tower", "flag", "method.freeze_vision_tower", False),
        about="Keep the vision tower of a model that sees as it is. Releases since 0.8 train it whatever this says.",
        also=("method.freeze_multi_modal_projector",),
        read=model.read_towers,
        read_only=True,
    ),
    Key(
        *(f"{MODEL}.exclude_modules", "any"),
        about="Modules that get no adapter: a pattern or names.",
        read_with=f"{ACTOR}.freeze_vision_tower",
    ),
    Key(
        *(f"{MODEL}.enable_gradient_checkpointing", "flag", "checkpointing.mode", True),
        earlier_default=((0, 2), False),  # v0.1 and v0.2 trainer/config/ppo_trainer.yaml
        about="Recompute each layer in the backward pass instead of keeping its activations.",
        values={True: "full", False: "none"},
    ),
    Key(
        *(f"{MODEL}.enable_activation_offload", "flag", "offload.activations", False),
        about="Keep activations in host memory between forward and backward.",
        values={True: "cpu", False: "none"},
    ),
    Key(
        *(f"{MODEL}.use_remove_padding", "flag", "sequence.unpadded", True),
        earlier_default=((0, 7), False),  # v0.6.1 and v0.7.0 trainer/config/model/hf_model.yaml
        about="Join the sequences of a micro-batch without padding.",
    ),
    Key(
        *(f"{MODEL}.use_liger", "flag", "loss.liger_kernels", False),
        about="Liger's kernels for norms and MLPs; verl leaves its fused loss out.",
    ),
    Key(
        *(f"{MODEL}.use_fused_kernels", "flag", "loss.kind", False),
        about="Compute log-probabilities in chunks of tokens: the whole logits never exist.",
        values={True: "chunked", False: "fused_ce"},
        older=(f"{ACTOR}.use_fused_kernels",),
        read=rollout.read_loss,
    ),
    Key(
        *(f"{MODEL}.override_config.attn_implementation", "word", "attention.implementation"),
        about="The attention kernel; FlashAttention 2 unless said.",
        read=parallel.read_attention,
        read_only=True,
    ),
    Key(
        *(f"{MODEL}.tiled_mlp.enabled", "flag", "", False),
        about="Run the MLPs in slices of the sequence.",
    ),
    Key(
        *(f"{MODEL}.tiled_mlp.num_shards", "whole", "checkpointing.mlp_tiles", 4),
        about="How many slices the MLPs run in.",
        least=1,
        when=_tiles_mlps,
        read_only=True,
    ),
    Key(
        *("trainer.n_gpus_per_node", "whole", "parallelism.gpus_per_node", 8),
        about="GPUs of each node.",
        also=("parallelism.world_size",),
        least=1,
        read=parallel.read_world,
        read_only=True,
    ),
    Key(
        *("trainer.val_only", "flag", "", False),
        about="Validate, and train nothing.",
    ),
    Key(
        *("trainer.nnodes", "whole", "", 1),
        about="Nodes.",
        least=1,
        read_with="trainer.n_gpus_per_node",
    ),
    Key(
        *(f"{ACTOR}.strategy", "word", "parallelism.engine", "fsdp"),
        about="The training engine: fsdp, fsdp2 or megatron.",
        also=("parallelism.fsdp.version",),
        read=parallel.read_engine,
        read_only=True,
    ),
    *veomni_keys(f"{ACTOR}.veomni", f"{ACTOR}.strategy"),
    Key(
        *(f"{ACTOR}.ulysses_sequence_parallel_size", "whole", "parallelism.sequence_parallel_size", 1),
        about="GPUs that share each sequence.",
        also=("parallelism.data_parallel_size",),
        least=1,
        read=parallel.read_ulysses,
        write=_write_ulysses,
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", "whole", "", 1),
        about="GPUs that share each sequence, since verl 0.8; the key below the actor wins where it is over 1.",
        least=1,
        read_with=f"{ACTOR}.ulysses_sequence_parallel_size",
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.reshard_after_forward", "flag", "parallelism.fsdp.reshard_after_forward", True),
        about="Free a layer's gathered parameters after its forward.",
        also=("parallelism.fsdp.strategy",),
        read=parallel.read_reshard,
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.fsdp_size", "whole", "parallelism.fsdp.shard_group_size", -1),
        about="GPUs that share one copy of the model; -1: all of them.",
        read_with=f"{ACTOR}.fsdp_config.reshard_after_forward",
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.forward_prefetch", "flag", "parallelism.fsdp.forward_prefetch", False),
        about="Gather the next layer while one computes.",
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.use_orig_params", "flag", "parallelism.fsdp.use_orig_params", False),
        about="Keep the names of parameters under FSDP 1.",
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.offload_policy", "flag", "parallelism.fsdp.cpu_offload", False),
        about="FSDP 2 keeps parameters, gradients and optimizer states in host memory.",
        when=_is_fsdp2,
        write=_write_offload_policy,
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.param_offload", "flag", "rollout.offloads_weights", False),
        about="Move the model's weights to host memory while it does not compute.",
    ),
    Key(
        *(f"{ACTOR}.fsdp_config.optimizer_offload", "flag", "rollout.offloads_optimizer", False),
        about="Keep optimizer states in host memory but for the update.",
    ),
    *LENGTHS,
    Key(
        *("data.train_batch_size", "whole", "", 1024),
        about="Prompts of one step.",
        least=1,
    ),
    Key(
        *(f"{ROLLOUT}.n", "whole", "method.num_generations", 1),
        about="Responses for each prompt.",
        least=1,
        invalid="default",
    ),
    Key(
        *(f"{ACTOR}.ppo_mini_batch_size", "whole", "batch.gradient_accumulation_steps", 256),
        about="Prompts of one update. With `rollout.n` responses each, and the micro-batch, it gives the accumulation.",
        least=1,
        read_only=True,
        read_with=f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    ),
    Key(
        *(f"{ACTOR}.ppo_micro_batch_size_per_gpu", "whole", "batch.micro_batch_size"),
        about="Sequences of one forward and backward on a GPU.",
        least=1,
        read=batches.read_batch,
        write=_write_micro_batch,
    ),
    *of_role((_TOTAL_OF_UPDATE,), ACTOR, "the policy", f"{ACTOR}.ppo_micro_batch_size_per_gpu"),
    Key(
        *(f"{ACTOR}.use_dynamic_bsz", "flag", "", False),
        about="Bound a micro-batch by its tokens instead of its sequences.",
        read_with=f"{ACTOR}.ppo_micro_batch_size_per_gpu",
    ),
    Key(
        *(f"{ACTOR}.ppo_max_token_len_per_gpu", "whole", "batch.max_tokens", 16384),
        about="Tokens of one forward and backward on a GPU under `use_dynamic_bsz`.",
        least=1,
        read_with=f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        write=_write_tokens,
    ),
    Key(
        *(f"{ACTOR}.entropy_coeff", "number", "loss.entropy", 0),
        about="The weight of the entropy in the loss; 0 leaves it out of the update.",
        also=("rollout.log_prob_entropy",),
        read=rollout.read_entropy,
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.calculate_entropy", "flag", "", False),
        about="Compute the entropy in the update although its weight is 0.",
        read_with=f"{ACTOR}.entropy_coeff",
    ),
    Key(
        *(f"{ACTOR}.entropy_checkpointing", "flag", "", False),
        about="Compute the entropy again in the backward pass.",
        read_with=f"{ACTOR}.entropy_coeff",
    ),
    Key(
        *(f"{ACTOR}.entropy_from_logits_with_chunking", "flag", "", False),
        about="Compute the entropy for 2,048 tokens at a time.",
        read_with=f"{ACTOR}.entropy_coeff",
    ),
    Key(
        *(f"{ACTOR}.use_torch_compile", "flag", "", True),
        about="Compile the entropy into one kernel.",
        read_with=f"{ACTOR}.entropy_coeff",
    ),
    Key(
        *(f"{ACTOR}.use_kl_loss", "flag", "method.reference_model", False),
        about="Compare with a reference model in the loss.",
        values={True: "copy", False: "none"},
        also=("rollout.reference_micro_batch_size", "rollout.reference_length"),
        read=batches.read_reference,
        write=_write_reference_rows,
    ),
    Key(
        *("algorithm.use_kl_in_reward", "flag", "", False),
        about="Compare with a reference model in the reward.",
        read_with=f"{ACTOR}.use_kl_loss",
    ),
    Key(
        *("algorithm.adv_estimator", "word", "method.stage", "gae"),
        about="How advantages are estimated. `gae` needs a critic, which trains beside the policy.",
        also=("method.value_model",),
        read=read_stage,
        read_only=True,
    ),
    Key(
        *(f"{ACTOR}.optim.optimizer", "text", "optimizer.name", "AdamW"),
        about="The optimizer's class.",
        read=read_optimizer,
        write=write_optimizer,
    ),
    Key(
        *(f"{ACTOR}.optim.optimizer_impl", "text", "", "torch.optim"),
        about="The module that has the optimizer's class.",
        read_with=f"{ACTOR}.optim.optimizer",
    ),
    Key(
        *(f"{ACTOR}.optim.lr", "number", "optimizer.learning_rate", 1e-06),
        about="The learning rate.",
        least=0,
        invalid="ignored",
    ),
    Key(
        *(f"{ROLLOUT}.name", "word", "rollout.generator"),
        about="What writes responses: vllm, sglang or hf.",
        also=("rollout.share", "rollout.sleep_level"),
        read=rollout.read_generator,
        write=_write_engine,
    ),
    Key(
        *(f"{ROLLOUT}.gpu_memory_utilization", "number", "rollout.share", 0.5),
        about="The share of each card that vLLM takes while it writes responses.",
        least=0,
        most=1,
        read_with=f"{ROLLOUT}.name",
    ),
    Key(
        *(f"{ROLLOUT}.free_cache_engine", "flag", "rollout.sleep_level", True),
        about="The engine gives its weights and its cache back while the model trains.",
        values={True: 2, False: 0},
        read_with=f"{ROLLOUT}.name",
        write=_write_sleep,
    ),
    Key(
        *(f"{ROLLOUT}.tensor_model_parallel_size", "whole", "rollout.tensor_parallel_size", 2),
        about="GPUs that share the engine's weights.",
        least=1,
    ),
    Key(
        *(f"{ROLLOUT}.max_model_len", "whole", "rollout.max_model_len", 0),
        about="Tokens of the longest sequence that the engine accepts.",
        least=0,
    ),
    Key(
        *(MULTI_TURN, "flag", "sequence.images_in_prompts", False),
        about="Tools answer between the turns of a response: their images are not bounded as those of prompts.",
        read=rollout.read_images,
        read_only=True,
    ),
    Key(
        *(AGENT_LOOP, "word", "", "single_turn_agent"),
        about="The agent loop of prompts that name none.",
        read_with=MULTI_TURN,
    ),
    Key(
        *(AGENT_LOOPS, "text", "", None),
        about="A file that lists agent loops of one's own.",
        read_with=MULTI_TURN,
    ),
    Key(
        *(f"{ROLLOUT}.temperature", "number", "loss.scales_logits", 1.0),
        about="The temperature of the responses. One other than 1 scales the logits into a copy.",
        read=rollout.read_temperature,
        read_only=True,
    ),
    Key(
        *(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", "whole", "rollout.log_prob_micro_batch_size"),
        about="Sequences of one forward that computes the policy's log-probabilities before the update.",
        also=("rollout.log_prob_length",),
        least=1,
        read=batches.read_log_probabilities,
        write=_write_log_probabilities,
    ),
    *of_role(_LOG_PROBABILITIES, ROLLOUT, "the policy", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu"),
    Key(
        *(f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes", "whole", "rollout.sync_bucket_bytes", 2048),
        about="The buffer through which new weights reach the engine, in MiB.",
        least=1,
        read=rollout.read_bucket,
        read_only=True,
    ),
    Key(
        *("actor_rollout_ref.hybrid_engine", "flag", "", True),
        about="Whether the engine shares the training cards.",
        read_with=f"{ROLLOUT}.name",
    ),
    Key(
        *(f"{REFERENCE}.log_prob_micro_batch_size_per_gpu", "whole"),
        about="Sequences of one forward of the reference model.",
        least=1,
        read_with=f"{ACTOR}.use_kl_loss",
    ),
    *of_role(_LOG_PROBABILITIES, REFERENCE, "the reference model", f"{ACTOR}.use_kl_loss"),
    Key(
        *("critic.enable", "flag"),
        about="Whether a critic trains; unless said, where advantages are `gae`.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.model.path", "text"),
        about="The model that the critic starts from.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.model.enable_gradient_checkpointing", "flag", "", True),
        earlier_default=((0, 2), False),  # as the actor's
        about="Recompute the critic's layers in the backward pass.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.model.use_remove_padding", "flag", "method.value_model.unpadded", False),
        about="Let the critic compute no padding, as it does in any case where the policy computes none.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.fsdp.model_dtype", "word", "", "fp32"),
        about="The dtype of the critic's parameters.",
        older=("critic.model.fsdp_config.model_dtype",),
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.fsdp.param_offload", "flag", "method.value_model.offloads_weights", False),
        about="Move the critic's weights to host memory while it does not compute.",
        older=("critic.model.fsdp_config.param_offload",),
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.fsdp.optimizer_offload", "flag", "method.value_model.offloads_optimizer", False),
        about="Keep the critic's optimizer states in host memory but for its update.",
        older=("critic.model.fsdp_config.optimizer_offload",),
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.ppo_micro_batch_size_per_gpu", "whole", "method.value_model.micro_batch_size"),
        about="Sequences of one forward and backward of the critic.",
        least=1,
        write=_write_critic_batch,
        read_with="algorithm.adv_estimator",
    ),
    *of_role((_TOTAL_OF_UPDATE,), "critic", "the critic", "algorithm.adv_estimator"),
    Key(
        *("critic.use_dynamic_bsz", "flag"),
        about="Bound the critic's micro-batch by its tokens; as the actor's unless said.",
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.ppo_mini_batch_size", "whole", "", None),
        about="Prompts of one step of the critic's optimizer, on all GPUs; the actor's unless said.",
        least=1,
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *("critic.ppo_max_token_len_per_gpu", "whole", "", 32768),
        about="Tokens of one forward and backward of the critic on a GPU.",
        least=1,
        read_with="algorithm.adv_estimator",
    ),
    Key(
        *(other_models.SERVED, "flag", "rollout.share", False),
        about="Score responses with a model behind an inference engine.",
        read=other_models.read_served,
        read_only=True,
    ),
    Key(
        *("reward.reward_model.enable_resource_pool", "flag", "", False),
        about="Give the reward model GPUs of its own.",
        read_with=other_models.SERVED,
    ),
    Key(
        *("reward.reward_model.rollout.gpu_memory_utilization", "number", "", 0.5),
        about="The share of each card that the reward model's engine takes while it scores.",
        least=0,
        most=1,
        read_with=other_models.SERVED,
    ),
    Key(
        *(other_models.TRAINED, "flag", "stack.unmodelled", False),
        also=("stack.unmodelled_adds",),
        about="Score responses with a model in a worker of its own (before 0.6, and PRIME, which trains it).",
        read=other_models.read_trained,
        read_only=True,
    ),
    Key(
        *(other_models.OF_PRIME, "word", "", None),
        about="When PRIME trains its reward model: `before` or `after` it scores.",
        read_with=other_models.TRAINED,
        read_only=True,
    ),
    Key(
        *(other_models.QAT, "flag", "stack.unmodelled", False),
        about="Train with weights rounded to NVFP4. What it keeps is not modelled.",
        read=other_models.read_fake_quantisation,
        read_only=True,
    ),
    Key(
        *(other_models.TEACHER, "flag", "stack.unmodelled", False),
        about="Learn from a teacher on GPUs of its own.",
        read=other_models.read_teacher,
        read_only=True,
    ),
    Key(
        *("distillation.distillation_loss.loss_mode", "word", "", "k3"),
        about="How far the policy is from the teacher: estimators of sampled words, or `forward_kl_topk`.",
        read_only=True,
    ),
    Key(
        *("distillation.distillation_loss.use_task_rewards", "flag", "", True),
        about="Learn from rewards as well: the update has both losses.",
        read_only=True,
    ),
    Key(
        *("distillation.distillation_loss.use_policy_gradient", "flag", "", False),
        about="The distance from the teacher is a reward.",
        read_only=True,
    ),
    Key(
        *("distillation.distillation_loss.use_chunked_topk", "flag", "", False),
        about="The teacher's likeliest words are picked from the logits in chunks of tokens.",
        read_only=True,
    ),
    *megatron_keys(f"{ACTOR}.optim", f"{ACTOR}.megatron", f"{ACTOR}.strategy"),
)
