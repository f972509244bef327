"""The arguments of slime that bear on memory or on the run, beside those of Megatron-LM (0.1.0 to 0.3.1
slime/utils/arguments.py)."""

from __future__ import annotations

from memlint.formats.keys import Key, Keys
from memlint.formats.megatron.keys import KEYS as MEGATRON_KEYS
from memlint.formats.slime import backend, reading, roles
from memlint.formats.slime.config import BACKEND, CHECKPOINT

_CLUSTER = (
    Key(
        *(reading.GPUS, "whole", "parallelism.gpus_per_node", 8),
        also=("parallelism.world_size",),
        least=1,
        read=reading.read_world,
        read_only=True,
        about="GPUs of each node that the policy trains on.",
    ),
    Key(reading.NODES, "whole", "", 1, "Nodes that the policy trains on.", least=1, read_with=reading.GPUS),
    Key(
        *(BACKEND, "word", "parallelism.engine", "megatron"),
        read=backend.read_backend,
        read_only=True,
        about="megatron, or fsdp in 0.2.0 to 0.2.3: what trains the policy.",
    ),
)
_FSDP = (
    Key(
        *(backend.CHECKPOINTS, "flag", "checkpointing.mode", False),
        read=backend.read_checkpointing,
        read_only=True,
        about="FSDP: recompute each layer in the backward pass.",
    ),
    Key(
        *(backend.HOST, "flag", "parallelism.fsdp.cpu_offload", False),
        read=backend.read_host,
        read_only=True,
        about="FSDP: parameters, gradients and optimizer states are in host memory.",
    ),
)
_MODEL = (
    Key(
        *(CHECKPOINT, "text", "model.name"),
        also=("model.architecture",),
        read=roles.read_model,
        read_only=True,
        about="The model in Hugging Face's layout: for SGLang, the tokenizer, and to compare the arguments with.",
    ),
    Key(
        *("freeze_params_name_list", "any", "method.kind"),
        read=roles.read_frozen,
        read_only=True,
        about="Patterns of parameters that do not train.",
    ),
    Key(
        *("only_train_params_name_list", "any"),
        read_with="freeze_params_name_list",
        about="Patterns of the parameters that train, and no others.",
    ),
)
_BATCH = (
    Key(
        *(reading.ANSWER, "whole", "sequence.max_new_tokens"),
        also=("sequence.length", "sequence.max_prompt_length"),
        least=1,
        read=reading.read_lengths,
        read_only=True,
        about="The longest answer in tokens.",
    ),
    Key(reading.PROMPT, "whole", least=1, read_with=reading.ANSWER, about="The longest prompt; others are left out."),
    Key(reading.CONTEXT, "whole", least=1, read_with=reading.ANSWER, about="The longest prompt with its answer."),
    Key(
        *(reading.DYNAMIC, "flag", "batch.max_tokens", False),
        read_only=True,
        read_with=reading.MICRO,
        about="Fill each micro-batch up to `max_tokens_per_gpu`, in place of `micro_batch_size` sequences.",
    ),
    Key(
        *(reading.TOKENS, "whole"),
        least=1,
        read_with=reading.MICRO,
        about="Tokens of one micro-batch on a GPU; with context parallelism as many times more are shared.",
    ),
    Key(
        *(reading.FORWARD, "whole"),
        least=1,
        about="The same for log-probabilities: as many as in training unless given.",
    ),
    Key(
        *(reading.MICRO, "whole", "batch.micro_batch_size", 1),
        least=1,
        read=reading.read_batch,
        read_only=True,
        about="Sequences of one forward, without dynamic batches.",
    ),
    Key(
        *(reading.BATCH, "whole", "batch.gradient_accumulation_steps"),
        least=1,
        read_with=reading.MICRO,
        read_only=True,
        about="Sequences of one update on all GPUs.",
    ),
    Key(reading.STEPS, "whole", least=1, read_with=reading.MICRO, about="Updates of one rollout."),
    Key(reading.PROMPTS, "whole", least=1, read_with=reading.MICRO, about="Prompts of one rollout."),
    Key(
        *(reading.SAMPLES, "whole", "method.num_generations", 1),
        least=1,
        invalid="default",
        read_only=True,
        about="Answers to each prompt.",
    ),
)
_PRECISION = (
    Key(
        *("fp16", "flag", "precision.compute", False),
        also=(
            *("precision.trainable_dtype", "model.weights_dtype", "precision.grad_dtype"),
            "precision.master_weights",
        ),
        read=backend.read_precision,
        read_only=True,
        about="Parameters in fp16; in bf16 without it, whatever else is said. Gradients and the optimizer are in fp32.",
    ),
    Key("bf16", "flag", "", about="Of no effect: it is the other of `fp16`."),
)
_ROLES = (
    Key(
        *(roles.ESTIMATOR, "word", "method.stage", "grpo"),
        read=roles.read_stage,
        read_only=True,
        about="How advantages are estimated. `ppo` trains a critic on GPUs of its own, or in turn with the policy.",
    ),
    Key(roles.LOSS, "word", "", "policy_loss", read_with=roles.ESTIMATOR, about="`sft_loss` is supervised training."),
    Key(
        *(roles.KL_LOSS, "flag", "method.reference_model", False),
        also=("rollout.offloads_reference",),
        read=roles.read_reference,
        read_only=True,
        about="Compare with a reference in the loss. It waits in host memory, and takes the policy's place in turn.",
    ),
    Key(roles.KL, "number", "", 0.0, read_with=roles.KL_LOSS, about="The weight of a reference in the reward."),
    Key(
        *(roles.TOGETHER, "flag", "rollout.generator", False),
        also=("rollout.sleep_level", "rollout.offloads_weights", "rollout.offloads_optimizer"),
        read=roles.read_generator,
        read_only=True,
        about="Put the engines on the policy's GPUs. Each waits in host memory while the other computes.",
    ),
    Key(
        roles.GPUS, "whole", least=0, read_with=roles.TOGETHER, about="GPUs of the engines; the policy's if colocated."
    ),
    *(
        Key(name, "flag", "", read_with=roles.TOGETHER, about=about)
        for name, about in (
            (roles.OFFLOAD, "Both of these."),
            (roles.OFFLOAD_TRAIN, "The policy waits in host memory while answers are written."),
            (f"no_{roles.OFFLOAD_TRAIN}", "The policy stays on its GPUs."),
            (roles.OFFLOAD_ROLLOUT, "The engines release their memory while the policy trains."),
            (f"no_{roles.OFFLOAD_ROLLOUT}", "The engines keep their memory."),
        )
    ),
    Key(
        *(roles.SHARE, "number", "rollout.share"),
        least=0,
        most=1,
        read=roles.read_share,
        read_only=True,
        about="The share of each card that SGLang takes for weights and cache.",
    ),
    Key(
        *(roles.RANKS, "whole", "rollout.tensor_parallel_size", 1),
        least=1,
        read_only=True,
        about="GPUs that share the weights of one engine.",
    ),
    Key(
        *("lr", "number", "optimizer.learning_rate", 1e-6),
        least=0,
        invalid="ignored",
        read_only=True,
        about="The learning rate.",
    ),
)
# Megatron-LM's rows that have a meaning of their own here.
_OWN = frozenset(("num_layers", "micro_batch_size", "global_batch_size", "seq_length", "bf16", "fp16"))


def _of_megatron(row: Key) -> Key:
    """A row of Megatron-LM's table, which FSDP has no part in."""
    if row.name == "num_layers":
        return row._replace(field="", also=(), read=None, read_only=False, read_with=CHECKPOINT)
    read_with = {"num_layers": CHECKPOINT, "bf16": "fp16"}.get(row.read_with, row.read_with)
    return row._replace(when=backend.is_megatron, read_with=read_with)


KEYS = Keys(
    *_CLUSTER,
    *_FSDP,
    *(_of_megatron(row) for row in MEGATRON_KEYS if row.name not in _OWN - {"num_layers"}),
    *_MODEL,
    *_PRECISION,
    *_BATCH,
    *_ROLES,
)
