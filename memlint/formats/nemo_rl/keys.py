"""The keys of NeMo-RL that bear on memory or on the run (0.7.0 nemo_rl/models/policy/__init__.py, examples/configs;
those of 0.2 to 0.6 beside them). A dotted name leads through sections, as in an override on the command line. Its code
has hardly any defaults: a file that a run reads has every key, or inherits it."""

from __future__ import annotations

from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.nemo_rl import batches, megatron, placement, rollout, training
from memlint.formats.nemo_rl.batches import DYNAMIC, GLOBAL, LENGTH, MICRO, PACKING, SCORED
from memlint.formats.nemo_rl.config import MODEL, NemoConfig
from memlint.formats.nemo_rl.placement import COLOCATED, EACH, NODES, OWN_GPUS, OWN_NODES
from memlint.formats.nemo_rl.training import ADAPTER, ARGUMENTS, AUTOMODEL, COPIES, OPTIMIZER, PRECISION
from memlint.formats.verl import model

_DTENSOR = "policy.dtensor_cfg"
_MEGATRON = "policy.megatron_cfg"
_MICRO_FIELD = "batch.micro_batch_size"


def _write_tokens(change: FieldChange) -> Written | None:
    """The tokens of a micro-batch, of whichever of the two ways to fill it is switched on. One sequence has to fit."""
    length = change.changes.get("sequence.length", change.run.sequence.length)
    fits = isinstance(length, int) and isinstance(change.value, int) and change.value >= length
    packs = not change.run.sequence.length_is_bound
    return {f"{PACKING if packs else DYNAMIC}.train_mb_tokens": change.value} if fits else None


def _divides(change: FieldChange) -> bool:
    """Whether a rank's part of the global batch is a multiple of the micro-batch, which NeMo-RL asks for (0.7.0
    nemo_rl/distributed/batched_data_dict.py:831), and the accumulation follows from both."""
    steps, rows = change.run.batch.gradient_accumulation_steps, change.run.batch.micro_batch_size
    if not isinstance(steps, int) or not isinstance(rows, int) or change.run.batch.max_tokens:
        return False
    return isinstance(change.value, int) and steps * rows % change.value == 0


def _write_of_vllm(change: FieldChange) -> Written | None:
    """vLLM's own section says nothing to SGLang, whose share is of what is free."""
    keys = {"rollout.share": rollout.SHARE, "rollout.tensor_parallel_size": rollout.ENGINE_RANKS}
    return None if change.run.rollout.share_of_free else {keys[change.field]: change.value}


def _writes_here(config: NemoConfig) -> bool:
    return rollout.writes_here(config)


KEYS = Keys(
    Key(
        *(MODEL, "text", "model.name"),
        about="The model: a name of the Hugging Face hub or a folder.",
        also=("model.architecture",),
        read=model.read_model,
        read_only=True,
    ),
    Key(
        *(EACH, "whole", "parallelism.world_size"),
        about="GPUs of each node. Without colocation some of them, or whole nodes, write completions alone.",
        also=("parallelism.gpus_per_node", "parallelism.data_parallel_size"),
        least=1,
        read=placement.read_world,
        read_only=True,
    ),
    Key(*(NODES, "whole", "", 1), about="Nodes.", least=1, read_with=EACH),
    Key(
        *(COLOCATED, "flag", "", True),
        about="Completions are written on the GPUs that train.",
        read_with=EACH,
    ),
    Key(
        *(OWN_GPUS, "whole"),
        about="On one node, its GPUs that write completions where those that train do not.",
        least=1,
        read_with=EACH,
    ),
    Key(
        *(OWN_NODES, "whole"),
        about="On several nodes, those that write completions.",
        least=1,
        read_with=EACH,
    ),
    Key(
        *(f"{_DTENSOR}.tensor_parallel_size", "whole", "parallelism.tensor_parallel_size", 1),
        about="GPUs that share each matrix under DTensor. What a layer keeps then is not modelled: a lower bound.",
        least=1,
        read_with=EACH,
        read_only=True,
    ),
    Key(
        *(f"{_DTENSOR}.context_parallel_size", "whole", "parallelism.context_parallel_size", 1),
        about="GPUs that share each sequence.",
        least=1,
        read_with=EACH,
        read_only=True,
    ),
    Key(
        *(f"{_DTENSOR}.expert_parallel_size", "whole", "parallelism.expert_parallel_size", 1),
        about="GPUs that share the experts.",
        least=1,
        read_with=EACH,
        read_only=True,
    ),
    Key(
        *(f"{_MEGATRON}.tensor_model_parallel_size", "whole", "", 1),
        about="GPUs that share each matrix under Megatron-LM.",
        least=1,
        read_with=EACH,
    ),
    Key(
        *(f"{_MEGATRON}.pipeline_model_parallel_size", "whole", "parallelism.pipeline_parallel_size", 1),
        about="Stages that the layers are divided among.",
        least=1,
        read_with=EACH,
        read_only=True,
    ),
    Key(
        *(f"{_MEGATRON}.context_parallel_size", "whole", "", 1),
        about="GPUs that share each sequence under Megatron-LM.",
        least=1,
        read_with=EACH,
    ),
    Key(
        *(f"{_MEGATRON}.expert_model_parallel_size", "whole", "", 1),
        about="GPUs that share the experts under Megatron-LM.",
        least=1,
        read_with=EACH,
    ),
    Key(
        *(f"{_DTENSOR}.enabled", "flag", "parallelism.engine", False),
        about="Train with FSDP2 over transformers' models, in fp32 shards.",
        also=("parallelism.fsdp.version", "model.weights_dtype", "precision.trainable_dtype"),
        read=training.read_engine,
        read_only=True,
    ),
    Key(
        *(f"{_MEGATRON}.enabled", "flag", "", False),
        about="Train with Megatron-LM: a lower bound.",
        read_with=f"{_DTENSOR}.enabled",
    ),
    Key(
        *(f"{_DTENSOR}._v2", "flag", "rollout.gathers_for_log_probs", False),
        about="NeMo Automodel makes the model. Without it all parameters are gathered before log-probabilities.",
        read_with=f"{_DTENSOR}.enabled",
        read_only=True,
    ),
    Key(
        *(PRECISION, "word", "precision.compute"),
        about="The dtype of gathered parameters and of computations: float32, bfloat16, float16.",
        also=("precision.autocast", "parallelism.fsdp.param_dtype"),
        read_with=f"{_DTENSOR}.enabled",
        read_only=True,
    ),
    Key(
        *(COPIES, "whole", "parallelism.fsdp.shard_group_size", 1),
        about="Copies of the model, each of which the other data-parallel ranks share.",
        also=("parallelism.fsdp.strategy",),
        least=1,
        read_with=f"{_DTENSOR}.enabled",
        read_only=True,
    ),
    Key(
        *(f"{_DTENSOR}.cpu_offload", "flag", "parallelism.fsdp.cpu_offload", False),
        about="Shards, gradients and optimizer states are in host memory.",
        can_write=lambda change: change.run.parallelism.engine == "fsdp",
    ),
    Key(
        *(f"{_DTENSOR}.activation_checkpointing", "flag", "checkpointing.mode", False),
        about="Recompute layers in the backward pass. The first worker, and releases before 0.6, recompute norms, "
        "attention and MLP one by one, so that four inputs of each layer are kept.",
        also=("checkpointing.by_parts", "checkpointing.reentrant"),
        read=training.read_recomputation,
        values={True: "full", False: "none"},
        can_write=lambda change: change.run.parallelism.engine == "fsdp" and change.field == "checkpointing.mode",
    ),
    Key(
        *(f"{_MEGATRON}.activation_checkpointing", "flag", "checkpointing.mode", False),
        about="Recompute layers in the backward pass of Megatron-LM.",
        values={True: "full", False: "none"},
        read_with=f"{_DTENSOR}.activation_checkpointing",
        can_write=lambda change: change.run.parallelism.engine == "megatron",
    ),
    Key(
        *("loss_fn.reference_policy_kl_penalty", "number", "method.reference_model"),
        about="The weight of the distance to a reference, whose weights wait in host memory.",
        also=("method.stage",),
        least=0,
        read=training.read_stage,
        read_only=True,
    ),
    Key(
        *(f"{ADAPTER}.enabled", "flag", "method.kind", False),
        about="Train a LoRA adapter (with `_v2`). Its kernels are not modelled: a lower bound.",
        also=("method.adapter_dtype",),
        read=training.read_adapter,
        read_only=True,
    ),
    Key(
        *(f"{ADAPTER}.dim", "whole", "method.rank", 8),
        about="The rank of the adapter.",
        least=1,
        read_with=f"{ADAPTER}.enabled",
        read_only=True,
    ),
    Key(
        *(f"{ADAPTER}.target_modules", "words", "method.targets"),
        about="The linear layers that get an adapter.",
        read_with=f"{ADAPTER}.enabled",
        read_only=True,
    ),
    Key(
        *(f"{ADAPTER}.match_all_linear", "flag", "", True),
        about="All linear layers get an adapter.",
        read_with=f"{ADAPTER}.enabled",
    ),
    Key(
        *(LENGTH, "whole", "sequence.length"),
        about="The longest sequence in tokens, prompt and completion together.",
        least=1,
        read=batches.read_length,
    ),
    Key(
        *(f"policy.{training.OVERRIDES}.max_position_embeddings", "whole", "sequence.rope_scaling"),
        about="Positions of the model, in place of those of its config.",
        least=1,
        read=training.read_positions,
        read_only=True,
    ),
    Key(
        *(f"{PACKING}.enabled", "flag", "attention.implementation", False),
        about="Join sequences without padding, up to `train_mb_tokens`, to which a micro-batch is padded.",
        also=("sequence.length_is_bound",),
        read_with=LENGTH,
        read_only=True,
    ),
    Key(
        *(MICRO, "whole", _MICRO_FIELD),
        about="Sequences of one forward and backward on a GPU; pairs of preferences count as one.",
        least=1,
        read=batches.read_batch,
        can_write=_divides,
    ),
    Key(
        *(GLOBAL, "whole", "batch.gradient_accumulation_steps"),
        about="Sequences of one update on all GPUs, a multiple of the micro-batch on each rank.",
        least=1,
        read_with=MICRO,
        read_only=True,
    ),
    Key(
        *(f"{PACKING}.train_mb_tokens", "whole", "batch.max_tokens"),
        about="Tokens of a packed micro-batch.",
        least=1,
        read_with=MICRO,
        write=_write_tokens,
    ),
    Key(
        *(f"{DYNAMIC}.enabled", "flag", "", False),
        about="Fill micro-batches with as many sequences as `train_mb_tokens` allows.",
        read_with=MICRO,
    ),
    Key(
        *(f"{DYNAMIC}.train_mb_tokens", "whole"),
        about="Tokens of such a micro-batch, padding included.",
        least=1,
        read_with=MICRO,
    ),
    Key(
        *(SCORED, "whole", "rollout.log_prob_micro_batch_size"),
        about="Sequences of one forward for log-probabilities.",
        least=1,
        read=batches.read_log_probabilities,
        when=lambda config: config.algorithm() in placement.WRITING,
    ),
    Key(
        *(f"{PACKING}.logprob_mb_tokens", "whole", "rollout.log_prob_length"),
        about="Tokens of a packed forward for log-probabilities.",
        least=1,
        read_with=SCORED,
        read_only=True,
    ),
    Key(
        *(f"{DYNAMIC}.logprob_mb_tokens", "whole"),
        about="Tokens of such a forward under dynamic batching.",
        least=1,
        read_with=SCORED,
    ),
    Key(
        *(OPTIMIZER, "text", "optimizer.name"),
        about="The optimizer's class, with its module.",
        also=("optimizer.foreach",),
        read=training.read_optimizer,
        read_only=True,
    ),
    Key(*(f"{ARGUMENTS}.fused", "flag"), about="torch's fused kernel for all parameters.", read_with=OPTIMIZER),
    Key(
        *(f"{ARGUMENTS}.foreach", "flag"),
        about="torch's step over all parameters at once, which is its default; false: one by one.",
        read_with=OPTIMIZER,
    ),
    Key(
        *(f"{ARGUMENTS}.lr", "number", "optimizer.learning_rate"),
        about="The learning rate.",
        least=0,
        invalid="ignored",
    ),
    Key(
        *("policy.max_grad_norm", "number", "optimizer.max_grad_norm"),
        about="Gradients are scaled down to this norm; null: they are not.",
        least=0,
        invalid="ignored",
    ),
    Key(
        *(rollout.BACKEND, "word", "rollout.generator", "vllm"),
        about="The engine that writes completions: vllm, sglang, or Megatron-LM itself.",
        also=("rollout.offloads_weights", "rollout.offloads_optimizer", "rollout.offloads_until_update"),
        read=rollout.read_generator,
        read_only=True,
    ),
    Key(
        *(rollout.SHARE, "number", "rollout.share"),
        about="The share of each card that vLLM takes while it writes completions.",
        least=0,
        most=1,
        read_with=rollout.BACKEND,
        write=_write_of_vllm,
    ),
    Key(
        *(rollout.SHARE_OF_SGLANG, "number", "rollout.share_of_free"),
        about="The share of the free memory that SGLang takes.",
        least=0,
        most=1,
        read_with=rollout.BACKEND,
        read_only=True,
    ),
    Key(
        *(rollout.WAITS, "flag", "", False),
        about="The optimizer's states wait in host memory while log-probabilities are computed. Under colocation they "
        "do in any case.",
        read_with=rollout.BACKEND,
    ),
    Key(
        *(rollout.ENGINE_RANKS, "whole", "rollout.tensor_parallel_size", 1),
        about="GPUs that share the engine's weights.",
        least=1,
        when=_writes_here,
        write=_write_of_vllm,
    ),
    Key(
        *(rollout.LONGEST, "whole", "rollout.max_model_len"),
        about="Tokens of the longest sequence that the engine accepts.",
        least=1,
        when=_writes_here,
        read_only=True,
    ),
    Key(
        *("sft.val_period", "whole", "evaluation.enabled"),
        about="Steps between two validations of SFT.",
        read=training.read_validation,
        read_only=True,
    ),
    Key(
        *("sft.val_micro_batch_size", "whole", "evaluation.batch_size"),
        about="Sequences of one forward of the validation.",
        least=1,
        read_with="sft.val_period",
    ),
    Key(
        *(training.ALLOCATOR, "text", "stack.expandable_segments"),
        about="Options of PyTorch's allocator in the workers.",
        read=training.read_allocator,
        read_only=True,
    ),
    Key(
        *(f"{AUTOMODEL}.force_hf", "flag", "stack.unmodelled", False),
        about="Take transformers' code where NeMo Automodel has its own, which is not modelled.",
        also=("stack.unmodelled_adds",),
        read=training.read_unmodelled,
        read_only=True,
    ),
    Key(
        *(f"{AUTOMODEL}.use_liger_kernel", "flag", "", False),
        about="Liger's kernels in the model: a lower bound.",
        read_with=f"{AUTOMODEL}.force_hf",
    ),
    Key(*("policy.quant_cfg", "text"), about="Quantisation in training.", read_with=f"{AUTOMODEL}.force_hf"),
    Key(
        *(f"{megatron.OPTIMIZER}.optimizer", "word", "", "adam"),
        about="Megatron-LM's optimizer.",
        read_with=OPTIMIZER,
    ),
    Key(
        *(f"{megatron.OPTIMIZER}.use_distributed_optimizer", "flag", "parallelism.replicates_optimizer", True),
        about="Data-parallel ranks share the optimizer's states.",
        values={True: False, False: True},
        read_with=OPTIMIZER,
        read_only=True,
    ),
    Key(
        *(f"{megatron.OPTIMIZER}.use_precision_aware_optimizer", "flag", "precision.master_dtype", False),
        about="Moments and fp32 parameters in dtypes of their own.",
        read_with=OPTIMIZER,
        read_only=True,
    ),
    Key(
        *(f"{megatron.OPTIMIZER}.optimizer_cpu_offload", "flag", "offload.optimizer", False),
        about="Optimizer states in host memory.",
        values={True: "cpu", False: "none"},
        read_with=OPTIMIZER,
        read_only=True,
    ),
    Key(
        *(f"{megatron.OPTIMIZER}.optimizer_offload_fraction", "number", "offload.optimizer_ratio"),
        about="The share of them that is.",
        least=0,
        most=1,
        read_with=OPTIMIZER,
        read_only=True,
    ),
    Key(
        *(megatron.REDUCES_IN_FP32, "flag", "precision.grad_dtype", False),
        about="Gradients are summed in fp32.",
        values={True: "float32", False: ""},
        read_with=f"{_DTENSOR}.enabled",
        read_only=True,
    ),
    Key(
        *(megatron.OWN_FSDP, "flag", "", False),
        about="Megatron's FSDP divides parameters: no bound.",
        read_with=f"{_DTENSOR}.enabled",
    ),
    Key(
        *(f"{_MEGATRON}.num_layers_in_first_pipeline_stage", "whole"),
        about="Layers of the first stage where stages have different numbers: no bound.",
        read_with=f"{_DTENSOR}.enabled",
    ),
    Key(
        *(f"{_MEGATRON}.num_layers_in_last_pipeline_stage", "whole"),
        about="Layers of the last stage.",
        read_with=f"{_DTENSOR}.enabled",
    ),
    Key(
        *(f"{_MEGATRON}.sequence_parallel", "flag", "", False),
        about="Tensor parallel ranks divide norms and residuals, too.",
        read_with=f"{_DTENSOR}.enabled",
    ),
    Key(*(megatron.ADAPTER, "flag", "", False), about="Train an adapter.", read_with=f"{_DTENSOR}.enabled"),
    Key(*(f"{megatron.FP8}.enabled", "flag", "", False), about="Compute in fp8.", read_with=f"{_DTENSOR}.enabled"),
    Key(*(f"{megatron.FP8}.fp8_param", "flag", "", False), about="Keep fp8 weights.", read_with=f"{_DTENSOR}.enabled"),
    # What the checks at the start read.
    Key(
        *(f"{_DTENSOR}.sequence_parallel", "flag", "", False),
        about="Norms and residuals are divided as well, among the GPUs that share a matrix.",
    ),
    Key(*(f"{ADAPTER}.use_triton", "flag", "", False), about="Triton's kernels for LoRA, on whole matrices alone."),
    Key(
        *("loss_fn.force_on_policy_ratio", "flag", "", False),
        about="One update for each batch of completions, whose log-probabilities are then those of the update.",
    ),
    Key(
        *("policy.fsdp_offload_enabled", "flag", "", False),
        about="Of releases up to 0.2: FSDP1's offload where DTensor is off.",
    ),
    Key(
        *("policy.activation_checkpointing_enabled", "flag", "", False),
        about="Of releases up to 0.2: recomputation under FSDP1.",
    ),
)
