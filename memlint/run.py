"""The normalized schema: one training (or inference) run on one kind of GPU.

Every format turns its files into a `Run`. The estimator, the rules and the planner read nothing
else. Values are plain. `Run.origins` says where each came from, keyed by the dotted name that rules
use (`"batch.micro_batch_size"`). A value that cannot be known is `UNKNOWN`, never a guess.

All values here are `typing.NamedTuple`: frozen, typed, picklable, and 6 times cheaper to define
at start-up than frozen dataclasses (0.08 against 0.5 ms a class), which is what a cold start pays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeVar, Union

from memlint._record import NamedTuple

T = TypeVar("T")


class Unknown:
    """The type of `UNKNOWN`: falsy, equal only to itself, the same object after pickling."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()
Maybe = Union[T, Unknown]


class Origin(NamedTuple):
    """Where a value came from.

    `kind` is one of file, companion (a referenced file), default (of a framework), directive (a
    `# memlint:` comment), setting, command_line, catalog, inferred, framework (what its code does,
    whatever the config says), unknown. `detail` names the framework and version of a default, the
    reason of an inference, the source of a framework's behaviour, or why the value is unknown.
    `line` and `column` are 1-based, 0 where there is no place. `pointer` is the path inside the
    file (keys and list indexes).
    """

    kind: str
    path: str = ""
    line: int = 0
    column: int = 0
    pointer: tuple[str | int, ...] = ()
    detail: str = ""

    @property
    def is_stated(self) -> bool:
        """Whether somebody says the value: no default, and no inference."""
        return self.kind not in ("default", "inferred")


LAUNCH = "launch"  # key of `Run.origins`: the launch command in the repository that the run was read with
LAUNCH_OPTIONS = "launch.options"  # likewise: options of that command that the run was read without


class Quantization(NamedTuple):
    """Quantisation of the frozen base weights.

    `method`: none, bnb, torchao, gptq, awq, hqq, eetq, fp8, mxfp4, aqlm, quanto. `bits` per weight as
    computed on the GPU. `prequantized`: stored that way in the checkpoint (else quantised on load).
    """

    method: str = "none"
    bits: float = 16
    kind: str = ""  # nf4, fp4, int8, ...
    double_quant: bool = False
    storage_dtype: str = "uint8"
    prequantized: bool = False
    group_size: int = 0
    stacked_experts: bool = False  # experts stored as one 3-D tensor are quantised, too (Axolotl)
    experts_on_load: bool = False  # experts are quantised while loading, dequantised while their layer runs (Axolotl)
    skipped: tuple[str, ...] = ()  # modules not quantised; a config that names some must name the head too
    upcast_rest_to_fp32: bool = False  # peft.prepare_model_for_kbit_training
    vocabulary_to_bf16: bool = False  # then casts embeddings and head to bf16: trl's peft_module_casting_to_bf16


class Model(NamedTuple):
    """The model, its shapes and how its frozen weights are loaded."""

    name: str | Unknown = UNKNOWN
    architecture: Any = UNKNOWN  # architectures.model.Architecture
    weights_dtype: Maybe[str] = UNKNOWN  # dtype of the frozen weights after loading: float32, bfloat16, float16
    quantization: Quantization = Quantization()
    from_scratch: bool = False
    new_special_tokens: int = 0
    holds_speech: bool = False  # the modules that generate speech are loaded as well, frozen and never run


class Method(NamedTuple):
    """What trains. `kind`: full, freeze, lora, dora (flag below), oft, boft, ia3, prefix, none (inference)."""

    kind: str = "full"
    # pt, sft, rm, dpo, kto, orpo, cpo, simpo, ipo, ppo, grpo, online_dpo, xpo, nash_md, gkd, predict, ...
    stage: str = "sft"
    rank: int = 0
    alpha: float = 0
    dropout: float = 0.0
    targets: tuple[str, ...] = ()  # module name suffixes; ("all-linear",) means every linear layer but the head
    target_parameters: tuple[str, ...] = ()
    exclude_modules: tuple[str, ...] = ()
    modules_to_save: Maybe[tuple[str, ...]] = ()
    rank_pattern: tuple[tuple[str, int], ...] = ()
    bias: str = "none"
    use_dora: bool = False
    use_rslora: bool = False
    adapter_dtype: str = "float32"  # dtype of trainable adapter weights
    layers_to_transform: tuple[int, ...] = ()
    oft_block_size: int = 0
    freeze_trainable_layers: Maybe[int] = 0  # >0 last n, <0 first n
    freeze_trainable_modules: Maybe[tuple[str, ...]] = ("all",)
    freeze_extra_modules: Maybe[tuple[str, ...]] = ()
    use_llama_pro: bool = False
    trainable_patterns: tuple[str, ...] = ()  # unfrozen parameter regexes (axolotl, ...)
    freeze_vision_tower: bool = True
    freeze_multi_modal_projector: bool = True
    freeze_language_model: bool = False
    # none, shared (the model with its adapter switched off), copy, precomputed, named. In stage gkd: the teacher.
    reference_model: str = "none"
    reward_model: str = "none"  # none, lora, full, api
    # The head in stage rm: "score", a linear layer that replaces the language-model head and gives one number per
    # sequence (transformers 5.23 modeling_layers.py, GenericForSequenceClassification), or "value", TRL's value head in
    # addition to the language-model head (LLaMA-Factory 0.9.5 train/rm/workflow.py:46, `add_valuehead=True`).
    reward_head: str = "score"
    # The language-model head is absent or never runs: rerankers and embedding models read the last hidden states.
    drops_language_head: bool = False
    # The framework lists "all" linear layers itself: the modules whose class is some `Linear` (LLaMA-Factory 0.9.5
    # model/model_utils/misc.py:28, find_all_linear_modules). PEFT then adds no adapter to experts that are stacked in
    # one parameter; its own "all-linear" does.
    targets_linear_only: bool = False
    num_generations: int = 1
    # Texts of one sample whose graphs live until the loss: an anchor, a positive, a negative (sentence-transformers).
    texts_per_sample: Maybe[int] = 1
    # The loss compares each sample with the others of its micro batch (in-batch negatives): of fewer it is another.
    compares_samples: bool = False
    # Other frozen models that are loaded, as `Model` values: first a named reference model, then a full reward model.
    # A reference that is a copy of the trained model, and a reward model that is an adapter, are not included.
    extra_models: Maybe[tuple[Any, ...]] = ()
    extra_models_stage: int = -1  # of ZeRO, for the extra models; -1: the run's
    fsdp_shards_extra_models: bool = True  # False: under FSDP each card holds them whole
    # Projections that run as one fused operation with their adapter: qkv, o, mlp (Axolotl, Unsloth).
    fused_adapters: tuple[str, ...] = ()
    value_model: Any = None  # the `ValueModel` that trains together with the policy (PPO's critic); None without one


class ValueModel(NamedTuple):
    """PPO's critic: a model with one output per token, trained like the policy.

    `length`: tokens of each sequence of its micro-batch; 0: the run's sequence length.
    """

    model: Model
    micro_batch_size: Maybe[int] = UNKNOWN
    length: Maybe[int] = 0
    checkpointed: bool = True
    offloads_weights: bool = False  # its weights are on the card only during its own phases
    offloads_optimizer: bool = False
    trains_adapter: bool = False  # it trains an adapter like the policy's instead of the whole model
    trains_at_once: bool = False  # its update runs at the same time as the policy's, in a separate process
    in_one_step: bool = False  # both share one forward, one backward and one optimizer
    gpus: int = 0  # the number of GPUs of its own; 0: it is on the policy's GPUs
    unpadded: bool = False  # its micro-batches have no padding, whether or not those of the policy have


class Rollout(NamedTuple):
    """How completions are generated between updates (PPO, GRPO), and what is offloaded from the card meanwhile.

    Engines such as vLLM and SGLang take `share` of each card while they generate. While the model trains, they keep
    all of it with `sleep_level` 0, move their weights to host memory with 1, and release everything with 2.
    """

    generator: str = ""  # model (the trained one itself), vllm (an engine on other GPUs), vllm_colocate (on the same)
    share: Maybe[float] = 0.0  # share of each card for the engine's weights and cache
    share_of_free: bool = False  # the share refers to the memory that is free when the engine starts (SGLang)
    sleep_level: Maybe[int] = 0
    tensor_parallel_size: Maybe[int] = 1  # GPUs that the engine's weights are split over
    max_model_len: Maybe[int] = 0  # tokens of the longest sequence that the engine accepts; 0: its own default
    sequences: Maybe[int] = 0  # completions that a GPU generates at once; 0: those of a micro-batch
    # Sequences per forward that computes the policy's log-probabilities before the update; 0: there is no such forward.
    log_prob_micro_batch_size: Maybe[int] = 0
    log_prob_length: Maybe[int] = 0  # tokens of each of these sequences; 0: the run's sequence length
    log_prob_entropy: str = "none"  # how the entropy is computed in that forward: values as in `loss.entropy`
    # The same two for the reference model; 0: its forward runs while the policy's graph is alive.
    reference_micro_batch_size: Maybe[int] = 0
    reference_length: Maybe[int] = 0
    offloads_weights: bool = False  # the trained model's weights are in host memory while completions are generated
    offloads_optimizer: bool = False  # the optimizer states are in host memory while completions are generated
    offloads_until_update: bool = False  # the states return only for the update, not for computing log-probabilities
    # A named reference (a teacher) is on the card during its own forward alone, all of it.
    swaps_reference: bool = False
    offloads_reference: bool = False  # a copied or named reference model is moved to the card layer by layer
    # When new weights are sent to the engine, it takes its whole share at once, while the trainer's copy is alive, too.
    wakes_at_once: bool = False
    own_process: bool = False  # the engine is a separate process with its own CUDA context
    # The trained model's frozen weights are the engine's own, in its share: they are on the card once (Unsloth).
    shares_weights: bool = False
    # The logits of all generated tokens are kept until their log-probabilities are computed.
    keeps_scores: bool = False
    # All parameters are gathered before the forward that computes log-probabilities.
    gathers_for_log_probs: bool = False
    model_processes: int = 0  # number of separate processes for frozen models and critics, each with a CUDA context
    # Parts in which weights that ZeRO-3 shards are gathered to be sent; 0: one parameter at a time, or all where
    # adapters are merged.
    gathered_parts: int = 0
    sync_bucket_bytes: int = 0  # size of the buffer through which new weights are sent to the engine


class Precision(NamedTuple):
    """`compute`: the dtype matmuls run in. `autocast`: torch.autocast around the forward.

    `trainable_dtype`: dtype of trainable parameters (and so of their gradients and states).
    `master_weights`: a separate fp32 copy kept by the engine (DeepSpeed, Megatron).
    `outputs_to_fp32`: accelerate's conversion of the model's outputs when mixed precision is on.
    """

    compute: Maybe[str] = UNKNOWN  # float32, bfloat16, float16
    autocast: Maybe[bool] = UNKNOWN
    trainable_dtype: Maybe[str] = UNKNOWN
    master_weights: Maybe[bool] = UNKNOWN
    master_dtype: str = "float32"
    outputs_to_fp32: Maybe[bool] = UNKNOWN
    upcast_layernorm: bool = False
    upcast_lmhead_output: bool = False
    embeddings_dtype: str = ""  # dtype of embeddings, head and norms; "" = that of the other weights
    # Implementation of fp8: none, torchao, te (Transformer Engine), te_rowwise (te without transposed copies, its
    # least), te_mxfp8 (one scale per 32 elements), msamp, deepspeed
    fp8: str = "none"
    grad_dtype: str = ""  # "" = trainable_dtype; DeepSpeed's data_types.grad_accum_dtype
    tf32: bool = False


class Batch(NamedTuple):
    """`auto_find`: the Trainer lowers the batch size after an out-of-memory error.

    `max_tokens`: if not 0, the size of a forward is limited by this number of tokens, over sequences joined without
    padding, instead of by `micro_batch_size` sequences.
    """

    micro_batch_size: Maybe[int] = UNKNOWN  # sequences per GPU and forward
    gradient_accumulation_steps: Maybe[int] = UNKNOWN
    auto_find: bool = False
    max_tokens: Maybe[int] = 0


class Sequence(NamedTuple):
    """`length`: tokens of the longest sequence that a GPU may process, including the image tokens that fit in it."""

    length: Maybe[int] = UNKNOWN
    packing: Maybe[bool] = False
    neat_packing: bool = False  # packed with block-diagonal attention
    max_prompt_length: Maybe[int] = UNKNOWN
    max_new_tokens: int = 0
    # The framework scales an image (or a video's frame) down to this many pixels before the processor, and truncates
    # tokens afterwards, so that the tower encodes the whole image (LLaMA-Factory 0.9.5 data/mm_plugin.py:219,
    # data/collator.py). 0: no such scaling.
    image_max_pixels: Maybe[int] = 0
    video_max_pixels: Maybe[int] = 0
    video_max_length: int = 0  # frames
    images: Maybe[int] = UNKNOWN  # images per sample; UNKNOWN: from none to as many as the sequence holds
    # Batches without an image get a dummy one, so that the tower always runs (LLaMA-Factory 0.9.5 data/collator.py,
    # MultiModalDataCollatorForSeq2Seq: 64 x 64 pixels).
    always_has_images: bool = False
    images_in_prompts: bool = False  # no image stands in a completion: `max_prompt_length` bounds their tokens
    shift_attention: bool = False  # LongLoRA
    rope_scaling: str = "none"
    length_is_bound: bool = True  # False: every sequence really has `length` (packing, pre-training)
    # The sequences of a micro-batch are joined without padding, so that a forward has only their real tokens. One of
    # them may have the full length; that all of them do is rare.
    unpadded: bool = False
    # Tokens that the encoder of an encoder-decoder reads, where `length` is what its decoder writes; 0: as many.
    source_length: Maybe[int] = 0


class Attention(NamedTuple):
    """`implementation`: eager, sdpa, flash_attention_2, flash_attention_3, flex_attention, ..."""

    implementation: Maybe[str] = UNKNOWN


class Checkpointing(NamedTuple):
    """Activation checkpointing. `mode`: none, full (each decoder layer), selective, unsloth, every_n."""

    mode: Maybe[str] = UNKNOWN
    reentrant: bool = True
    offload: bool = False  # layer inputs kept in host memory
    every: int = 1
    # Only layers with trainable parameters are checkpointed, and each makes its own input require a gradient. Frozen
    # layers run without checkpointing, and no hook makes the embeddings' output require a gradient (LLaMA-Factory 0.9.5
    # model/model_utils/checkpointing.py:98). Else as in transformers (5.23 modeling_utils.py:2150): every layer is
    # checkpointed, and the outputs of all input embeddings require a gradient, a vision tower's too.
    skips_frozen_layers: bool = False
    # Under Unsloth checkpoints are offloaded to host memory, whatever the file says (LLaMA-Factory 0.9.5
    # model/model_utils/unsloth.py:77, `use_gradient_checkpointing="unsloth"`).
    unsloth_offloads: bool = False
    # selective: the results that a recomputed layer keeps: names of projections, and "attention"; (): not known.
    keeps: tuple[str, ...] = ()
    # The norms, the attention and the MLP of a layer are checkpointed one by one, so that each keeps its own input.
    by_parts: bool = False
    mlp_tiles: int = 0  # MLPs run in up to this many slices of the sequence, recomputed in the backward; 0: whole
    vision_tower: bool | None = None  # a vision tower's layers too; None: as the decoder's


class Loss(NamedTuple):
    """`kind`: plain (full logits), liger (fused linear cross entropy), chunked, cut, unsloth, fused_ce, fused_head.

    fused_ce fuses only the cross entropy, and the logits are kept. fused_head is TRL's, which makes tiles of logits.
    """

    kind: Maybe[str] = UNKNOWN
    chunk_tokens: int = 0
    upcast_logits: Maybe[bool] = UNKNOWN  # model code makes an fp32 copy of the logits
    # Log-probabilities are computed from an fp32 copy of the logits; False: in the dtype that the model returns (TRL).
    scores_in_fp32: bool = True
    in_logits_dtype: bool = False  # the trainer's cross entropy uses a shifted copy of the logits in their own dtype
    keeps_logits: bool = False  # outputs stay alive through backward
    label_smoothing: float = 0.0
    liger_kernels: bool = False  # other Liger kernels (norms, SwiGLU, rope) are patched in
    in_chunks: bool = False  # a plain loss over whole logits, computed in chunks
    # chunked: a chunk's logits and what is made of them stay until its gradients are there, that of a frozen head too,
    # beside the head's gradient of the chunk before.
    holds_chunks: bool = False
    # A plain loss whose logits are made, and scored, in so many parts of the tokens; 0: at once. Of each part the
    # log-softmax is kept until the backward. `logits_first`: all parts are made before the first is scored.
    parts: int = 0
    logits_first: bool = False
    # What is scored is compiled: the logits are kept in their own dtype, and no copy of them in fp32 is made.
    compiled: bool = False
    preference: str = ""  # sigmoid, ipo, orpo, simpo, ...
    fallback_reason: str = ""  # why a fused loss in the config has no effect
    # With log-probabilities: none, compiled, whole, chunked, recomputed. watched: chunked, and of no part in the loss.
    entropy: str = "none"
    prompt_logits: bool = False  # the logits of the prompts are computed although the loss only uses completions
    scales_logits: bool = False  # the logits are divided by a temperature into a copy
    divides_in_place: bool = False  # fused_ce: the logits are divided by a temperature, 1 or not, in their own memory
    # fused_ce over padded sequences: their tokens' logits are copied into one tensor, and the padded ones wait.
    joins_logits: bool = False
    # How the labels' log-probabilities are computed from the logits. "": a log-softmax of all logits. divided,
    # divided_in_place: a logsumexp of each row after division by a temperature, into a copy or in place. kernel: a
    # kernel that writes its gradient to a new tensor. With any but "", Liger's loss works on blocks of tokens and of
    # vocabulary entries, and the forwards before the update compute log-probabilities in the same way. rows: a
    # logsumexp of each row of the completions' logits, not divided (XPO, Nash-MD). shifted, shifted_copy: the same of
    # all tokens' logits, of both answers of a pair, or of a copy of these (DPO). compiled_chunks: a log-softmax of
    # `chunk_tokens` tokens at a time that torch.compile makes kernels of, in supervised training as well.
    selection: str = ""
    scores_completions: bool = False  # all logits are computed, but the log-softmax is only of the completions'
    # The most tokens of a row that a teacher and a student are compared by, those behind a prompt; 0: all. Without
    # `prompt_logits` the logits of others are never computed.
    compared_tokens: int = 0
    labels_beside_teacher: bool = False  # the labels' cross entropy is added to the comparison with a teacher
    reference_converted: bool = True  # accelerate converts the reference's logits to fp32, as it does the policy's
    likelihood_of_chosen: bool = False  # the preference loss includes the cross entropy of the chosen answers
    # The loss that compares a student with its teacher; "" for none. Over the whole vocabulary (stage gkd): mixture (of
    # both), forward, reverse, likelihood (in addition to the labels' cross entropy), few (of the teacher's likeliest
    # tokens, without a log-softmax of all), few_served (a server returns those). In any stage: likeliest, which
    # compares only the teacher's likeliest tokens, after a log-softmax of all. `in_row_chunks`: some rows at a time.
    divergence: str = ""
    in_row_chunks: bool = False
    gradient_apart: bool = False  # fused_ce writes its gradient to a new tensor instead of over the logits
    bytes_per_logit: int = 0  # what the loss holds at once for each logit at least, where there is a lower bound alone


def liger_rows(stage: str, length: int) -> int:
    """The number of tokens whose logits Liger's loss holds at once in a preference or rollout stage.

    `length`: tokens of a sequence, in grpo of a completion. dpo: both sequences of a pair; kto, grpo: one (liger_kernel
    0.8.5 chunked_loss/fused_linear_{preference,unpaired_preference,ppo}.py, `chunk_size=1`). 0 for other stages, whose
    chunks depend on the vocabulary.
    """
    return {"dpo": 2, "kto": 1, "grpo": 1}.get(stage, 0) * length


class Optimizer(NamedTuple):
    """`name` is a key of memory/state/optimizers.json (`adamw_torch`, `adamw_torch_fused`, `paged_adamw_8bit`, ...)."""

    name: Maybe[str] = UNKNOWN
    foreach: bool | None = None
    state_dtype: str = ""  # "" = as in memory/state/optimizers.json
    rank: int = 0  # GaLore / APOLLO projection rank
    targets: tuple[str, ...] = ()
    layerwise: bool = False  # each parameter is updated during the backward, and its gradient freed at once
    badam_mode: str = ""  # layer, ratio
    momentum: float = 0.0
    max_grad_norm: float = 1.0
    engine: str = "torch"  # torch, deepspeed (its own implementation), bitsandbytes, torchao
    weight_decay: float = 0.0
    projection: str = ""  # APOLLO: random, svd; "" = random
    # With "all linear layers" as targets, GaLore and APOLLO project the head as well (transformers 5.23
    # trainer_optimizer.py:130-152). LLaMA-Factory's own list leaves it out (0.9.5 train/trainer_utils.py:186-197).
    projects_head: bool = True
    # 8-bit optimizers of bitsandbytes keep the states of embeddings in 32 bits: the Trainer asks for that (transformers
    # 5.23 trainer.py:1328), a loop without it does not.
    embeddings_in_32_bits: bool = True
    learning_rate: Maybe[float] = UNKNOWN  # only for the planner, which raises it when it adds adapters


class Zero(NamedTuple):
    """DeepSpeed ZeRO. Counts are elements, as in the JSON; UNKNOWN for an `auto` that cannot be filled in."""

    stage: Maybe[int] = 0
    reduce_bucket_size: Maybe[int] = 500_000_000
    allgather_bucket_size: Maybe[int] = 500_000_000
    overlap_comm: Maybe[bool] = False
    contiguous_gradients: bool = True
    reduce_scatter: bool = True
    prefetch_bucket_size: Maybe[int] = 50_000_000
    param_persistence_threshold: Maybe[int] = 100_000
    model_persistence_threshold: int = 2**63 - 1
    max_live_parameters: Maybe[int] = 1_000_000_000
    max_reuse_distance: Maybe[int] = 1_000_000_000
    sub_group_size: Maybe[int] = 1_000_000_000
    hpz_partition_size: int = 1
    quantized_weights: bool = False
    quantized_gradients: bool = False
    mics_shard_size: int = -1
    gather_16bit_weights_on_model_save: bool = False
    leaf_modules: tuple[str, ...] = ()
    # The dtype in which stage 3 keeps and reduces a bucket of gradients; "" is their own.
    communication_dtype: str = ""
    memory_efficient_linear: bool = True  # linear layers run DeepSpeed's own autograd function (stage 3)
    shards_on_load: bool = True  # weights are divided while they load; else after each GPU has all of them (stage 3)
    gathers_for_generation: bool = True  # each GPU gathers the whole model to generate (stage 3)


class Fsdp(NamedTuple):
    """PyTorch FSDP, version 1 or 2, as accelerate sets it up."""

    version: int = 0  # 0: no FSDP
    strategy: str = "FULL_SHARD"  # FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD, HYBRID_SHARD_ZERO2, NO_SHARD
    reshard_after_forward: bool = True
    wrap: str = "transformer"  # transformer (a unit per decoder layer), size, none
    min_num_params: int = 0
    wrapped_classes: tuple[str, ...] = ()
    backward_prefetch: str = "BACKWARD_PRE"  # BACKWARD_PRE, BACKWARD_POST, NONE
    forward_prefetch: bool = False
    use_orig_params: bool = True
    cpu_offload: bool = False
    cpu_ram_efficient_loading: bool = True
    loads_packed_on_host: bool = False  # quantised weights are loaded in host memory, and only shards go to the card
    state_dict_type: str = "SHARDED_STATE_DICT"
    activation_checkpointing: bool = False
    shard_group_size: int = 0  # hybrid: GPUs in one shard group; 0 = one node
    param_dtype: str = ""  # mixed precision policy; "" follows precision.compute
    reduce_dtype: str = ""
    output_dtype: str = ""  # FSDP2: what a layer returns is cast to it, and to `param_dtype` again by the next layer
    upcasts_trainable: bool = True  # accelerate turns low-precision trainable parameters into fp32
    reduces_each_backward: bool = False  # gradients are reduced after each micro-batch (without `no_sync`)
    # FSDP2: embedding, last norm and head are left to the root, whose parameters stay gathered and whose gradients are
    # reduced at the end; accelerate gives them groups of their own.
    root_holds_ends: bool = False
    embedding_apart: bool = False  # with `root_holds_ends`: an untied embedding has a group of its own
    root_reshards: bool = False  # with `root_holds_ends`: the root's parameters are freed as well when its forward ends
    # Each process loads the whole model onto its card before it is divided.
    loads_whole: bool = False
    # The framework itself lets one process of all read the checkpoint, whatever the release of transformers does.
    one_reads: bool = False


class Parallelism(NamedTuple):
    """`world_size`: GPUs over all nodes, the product of the degrees; `data_parallel_size` follows from the others."""

    world_size: Maybe[int] = UNKNOWN
    gpus_per_node: Maybe[int] = UNKNOWN
    data_parallel_size: Maybe[int] = UNKNOWN
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    # Layers of the first and the last stage where these have others than the stages between them; 0: as many.
    first_stage_layers: int = 0
    last_stage_layers: int = 0
    context_parallel_size: int = 1
    sequence_parallel_size: int = 1  # Ulysses
    expert_parallel_size: int = 1
    expert_tensor_parallel_size: int = 0  # GPUs that share each expert; 0: as many as share other matrices
    # single, ddp, deepspeed, fsdp, megatron, device_map (whole layers on each card); for inference also vllm, sglang
    engine: str = "single"
    zero: Zero = Zero()
    fsdp: Fsdp = Fsdp()
    ddp_bucket_view: bool = False
    # Each data-parallel rank has all optimizer states of its share of the model (Megatron-LM without its distributed
    # optimizer).
    replicates_optimizer: bool = False
    divides_embedding: bool = False  # tensor parallelism under FSDP divides the input embedding as well
    find_unused_parameters: bool = False
    started_processes: int = 0  # by the command, even where another number of GPUs is asked about; 0: it does not say


class Offload(NamedTuple):
    """Devices: none, cpu, nvme. Host buffers under nvme are DeepSpeed's (0.19.8 runtime/zero/offload_config.py)."""

    optimizer: str = "none"
    optimizer_pinned: bool = False
    optimizer_ratio: float = 1.0
    optimizer_buffer_count: int = 4  # number of buffers, each with the size of the largest sub-group
    parameters: str = "none"
    parameters_pinned: bool = False
    parameters_buffer_count: int = 5
    parameters_buffer_size: int = 100_000_000  # elements of one buffer
    parameters_max_in_cpu: int = 1_000_000_000  # trainable elements that stay in host memory under nvme
    activations: str = "none"


class Evaluation(NamedTuple):
    """Evaluation between training steps. In a run with purpose "inference": the generation itself."""

    enabled: Maybe[bool] = False
    batch_size: Maybe[int] = UNKNOWN
    accumulation_steps: int | None = None
    predict_with_generate: bool = False
    keeps_logits: bool = False  # metrics are computed from the logits of all samples
    fused_loss: bool = False  # Liger's models skip the logits in evaluation too
    max_new_tokens: int = 0
    num_beams: int = 1
    samples: Maybe[int] = UNKNOWN


SERVERS = ("vllm", "sglang")  # engines that fill a share of each card and answer many requests at once


class Serving(NamedTuple):
    """How an inference run answers requests."""

    uses_cache: bool = True  # there is a KV cache
    memory_share: Maybe[float] = 0.0  # share of each card that is filled with weights and cache (vLLM, SGLang)
    cache_dtype: str = ""  # dtype of the KV cache; "" = precision.compute


class Saving(NamedTuple):
    """`only_model`: checkpoints without optimizer states. `gathers_full_weights`: sharded weights are gathered first.
    `copies_on_each_rank`: every rank copies unsharded weights to the host, although only the first one writes them."""

    enabled: bool = True
    only_model: bool = False
    gathers_full_weights: bool = False
    copies_on_each_rank: bool = False


# The newest release that is modelled, which a run is read with where nothing states another.
TRANSFORMERS: tuple[int, ...] = (5, 24)


class Stack(NamedTuple):
    """Framework versions that change memory, as tuples of ints; empty tuple = the newest that memlint models."""

    framework: str = ""  # llamafactory, trainer, trl, axolotl, ...
    framework_version: tuple[int, ...] = ()
    transformers: tuple[int, ...] = TRANSFORMERS
    torch: tuple[int, ...] = (2, 13)
    deepspeed: tuple[int, ...] = (0, 19, 8)
    peft: tuple[int, ...] = (0, 21)
    trl: tuple[int, ...] = (1, 16)
    accelerate: tuple[int, ...] = (1, 15)
    expandable_segments: bool = False
    use_unsloth: bool = False
    unsloth: tuple[int, ...] = ()  # empty = any release
    use_ktransformers: bool = False
    compile: bool = False
    unmodelled: str = ""  # a feature whose memory is not modelled, and its effect, in words
    unmodelled_adds: bool = False  # that feature does not reduce weights, gradients and optimizer states
    # The layers are the framework's own code: what transformers' keep is the most, with fused norms the least.
    own_layers: bool = False
    expert_kernel: str = ""  # the kernel for stacked experts that replaces transformers' own code: scattermoe
    linear_attention: str = ""  # kernels installed: torch (none), fla (the gated delta rule), kernels (Mamba 2 too)


class Amount(NamedTuple):
    """A stated amount of memory: bytes (`size`), or a share of some whole."""

    size: int = 0
    share: float = 0.0

    def of(self, whole: int) -> int:
        """The amount in bytes, with `whole` as the bytes that the share refers to."""
        return self.size + int(self.share * whole)

    def __str__(self) -> str:
        if self.share:
            return f"{100 * self.share:g} %"
        return f"{self.size / 2**30:g} GiB" if self.size >= 2**30 else f"{self.size / 2**20:g} MiB"


class Hardware(NamedTuple):
    """The card that the run is estimated for. `gpu`: a hardware.Gpu, None if no card is known.

    `context`, `communication`, `fragmentation`: values from the settings that replace memlint's own; None: its own.
    """

    gpu: Any = None
    memory_budget_bytes: int = 0  # 0 = the card's usable memory
    optimizer_budget_bytes: int = 0  # how much of it optimizer states may take; 0 = no limit stated
    host_bytes: int = 0  # 0 = unknown
    context: Amount | None = None  # CUDA context with its kernels; a share is of the card's memory
    communication: Amount | None = None  # NCCL's buffers if there are several ranks; a share is of the card's memory
    fragmentation: Amount | None = None  # what the allocator reserves beyond tensors; a share is of the tensors' bytes


class Entailed(NamedTuple):
    """What a framework makes of a change: a run that gets all the values in `given` (dotted fields) gets those in
    `changes` as well."""

    given: tuple[tuple[str, Any], ...]
    changes: tuple[tuple[str, Any], ...]


class Planning(NamedTuple):
    """Facts about the framework for the planner: the effects of its options, and what its config can express.

    Estimates do not read them.
    """

    # How activation checkpoints are offloaded to host memory: "layer_inputs" (transformers 5.23 modeling_utils.py:3151,
    # `save_on_cpu`; Axolotl 0.19 docs/gradient_checkpointing.qmd, `hidden_states`), "unsloth" (LLaMA-Factory 0.9.5
    # model/model_utils/checkpointing.py:43, `hidden_states.to("cpu")`), "saved_tensors" (trl 1.16
    # trainer/sft_config.py:291, `activation_offloading`).
    checkpoint_offload: str = "layer_inputs"
    # How to start DeepSpeed on one GPU, in words; "" if nothing special is needed (transformers
    # docs/source/en/deepspeed.md).
    single_gpu_launch: str = "start it with torchrun, deepspeed or accelerate launch"
    lora_dropout: float = 0.0  # default dropout of adapters that a plan adds
    liger_kernels_apart: bool = False  # Liger's loss and its other kernels have separate options
    freezes_projector_apart: bool = True  # a vision tower can be frozen while its projector trains
    # Whether 4-bit weights can be stored in tensors of the compute dtype: "" (no), "asked" (the config can say
    # `bnb_4bit_quant_storage`), "always" (the framework does so in bfloat16, whatever the config says).
    stores_4_bits_in_half: str = ""
    quantizer: str = "bnb"  # what quantises a base to 4 bits where the config asks for it: bnb, torchao
    # The version of FSDP that the config can turn on to share 4-bit weights as they are packed; 0 if it cannot.
    starts_fsdp: int = 0
    # The keys that say so, in words: {offload} where they name the offload, or {offloads}, true or false.
    fsdp_keys: str = "`fsdp: full_shard auto_wrap{offload}`, `fsdp_config: {{cpu_ram_efficient_loading: true}}`"
    # What the start says of FSDP where a launch file of accelerate alone can turn it on, in words; "" if nobody tried.
    fsdp_by_launch_file: str = ""
    packs_by_layer: bool = False  # under FSDP the config can have weights packed one layer at a time
    pins_transformers: bool = False  # the framework's release decides the release of transformers
    deepspeed_expands_segments: bool = False  # the launcher of DeepSpeed sets `expandable_segments:True`
    # The field of the run for the number of GPUs that share each sequence; "" if no file can set it.
    sequence_sharing: str = ""
    all_share_sequences: bool = False  # the GPUs that share a sequence have to be all of them
    critic_has_own_batch: bool = False  # PPO's critic has a micro-batch of its own in the config
    shares_images: bool = False  # sequences with images can be shared in this way, too
    sequence_sharing_needs: str = ""  # the package that sharing sequences requires
    offloads_under_fsdp2: bool = False  # FSDP's shards can only be offloaded to host memory with FSDP2
    # Options that no edit writes, as the framework calls them: by the field that they say, and those that are not given
    # and lower what layers keep, which a lower bound does not count.
    option_names: tuple[tuple[str, str], ...] = ()
    spares_activations: tuple[str, ...] = ()
    # What to state for a fused loss to be written whose key an older release ignores, in words; "" if nothing.
    fused_loss_where_stated: str = ""
    fuses_log_probabilities: bool = False  # the config can ask for log-probabilities without whole logits
    # The keys with which vLLM writes the completions on the same cards, in words, with {ranks} and {share}; "" if none.
    colocated_engine: str = ""
    least_micro_batch: int = 1  # the framework refuses a smaller one
    fixed_optimizer: bool = False  # the config can name no other optimizer
    half_optimizer: str = ""  # the AdamW of a full training in bfloat16, where the config can ask for both; else ""
    loss_parts: int = 0  # parts in which the config can have a plain loss computed; 0 if it cannot
    updates_in_backward: bool = False  # the config can have the optimizer step in the backward, without accumulation
    tokens_of_a_tile: int = 0  # tokens that a tile of the MLP takes, where the config gives no number of tiles
    # What follows from a change in this file, such as the options of adapters that it has and does not use. A later one
    # decides where two speak of one field.
    entails: Iterable[Entailed] = ()


class Reading(NamedTuple):
    """Another way in which the same files may run, if something that decides it is not stated (such as the launcher).

    `reason`: what is not stated. `label`, `itself`: words for what happens under this reading, and in the run itself.
    `changes`: dotted fields of the run and their values under this reading. They only apply while the fields in `given`
    have these values: a run that was changed there (by a plan) may have settled the question. `settled`,
    `settled_itself`: what makes this reading hold, or the run itself, in words; "" where nothing is told.
    """

    reason: str
    label: str
    itself: str
    changes: tuple[tuple[str, Any], ...]
    given: tuple[tuple[str, Any], ...] = ()
    only_where_over: bool = False  # only used if the run itself is out of memory: then it may weaken that verdict
    settled: str = ""
    settled_itself: str = ""


class Run(NamedTuple):
    """One run. `related`: paths of other files that took part. `origins`: where values came from, by dotted name."""

    format: str
    path: str
    model: Model = Model()
    method: Method = Method()
    precision: Precision = Precision()
    batch: Batch = Batch()
    sequence: Sequence = Sequence()
    attention: Attention = Attention()
    checkpointing: Checkpointing = Checkpointing()
    loss: Loss = Loss()
    rollout: Rollout = Rollout()
    optimizer: Optimizer = Optimizer()
    parallelism: Parallelism = Parallelism()
    offload: Offload = Offload()
    evaluation: Evaluation = Evaluation()
    saving: Saving = Saving()
    serving: Serving = Serving()
    stack: Stack = Stack()
    hardware: Hardware = Hardware()
    planning: Planning = Planning()
    purpose: str = "train"  # train, inference, export, partial (a fragment such as a lone DeepSpeed JSON)
    related: tuple[str, ...] = ()
    origins: Mapping[str, Origin] = {}
    readings: tuple[Reading, ...] = ()


def stack_name(run: Run) -> str:
    """A label for the software that runs the config: the framework, or the format if it is unknown (DeepSpeed JSON)."""
    return run.stack.framework or run.format


GENERATING_STAGES = ("ppo", "grpo", "online_dpo", "xpo", "nash_md")


def writes_completions(run: Run) -> bool:
    """Whether the run generates completions between steps."""
    return run.method.stage in GENERATING_STAGES or (run.method.stage == "gkd" and run.rollout.generator != "")


def get(run: Run, name: str) -> Any:
    """The value at a dotted name: `get(run, "batch.micro_batch_size")`."""
    return attrgetter(name)(run)


def replace(run: Run, changes: Mapping[str, object]) -> Run:
    """A copy of `run` with the fields in `changes` (dotted names) set. Lists become tuples.

    If a whole part ("loss") and fields of it ("loss.kind") are set, the fields are set in the new part.
    """
    changed: Run = _replace_fields(run, changes)
    return changed


def _replace_fields(record: Any, changes: Mapping[str, object]) -> Any:
    """A copy of any record with the fields in `changes` set, by names that are relative to it."""
    values: dict[str, object] = {}
    of_parts: dict[str, dict[str, object]] = {}
    for name, value in changes.items():
        part, _, field = name.partition(".")
        if field:
            of_parts.setdefault(part, {})[field] = value
        else:
            values[part] = tuple(value) if isinstance(value, list) else value  # rule files have lists
    for part, fields in of_parts.items():
        values[part] = _replace_fields(values.get(part, getattr(record, part)), fields)
    return record._replace(**values)


def differences(run: Run, other: Run, sections: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """The fields of `sections` in which `other` differs from `run`, dotted, with the values of `other`."""
    found = []
    for section in sections:
        mine, theirs = getattr(run, section), getattr(other, section)
        pairs = zip(mine._fields, mine, theirs)
        found += [(f"{section}.{field}", value) for field, before, value in pairs if before != value]
    return tuple(found)
