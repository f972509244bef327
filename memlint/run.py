"""The normalized schema: one training (or inference) run on one kind of GPU.

Every format turns its files into a `Run`. The estimator, the rules and the planner read nothing
else. Values are plain. `Run.origins` says where each came from, keyed by the dotted name that rules
use (`"batch.micro_batch_size"`). A value that cannot be known is `UNKNOWN`, never a guess.

All values here are `typing.NamedTuple`: frozen, typed, picklable, and 6 times cheaper to define
at start-up than frozen dataclasses (0.08 against 0.5 ms a class), which is what a cold start pays.
"""

from __future__ import annotations

from collections.abc import Mapping
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


LAUNCH = "launch"  # key of `Run.origins`: the launch command in the repository that the run was read with


class Quantization(NamedTuple):
    """Quantisation of the frozen base weights.

    `method`: none, bnb, gptq, awq, hqq, eetq, fp8, mxfp4, aqlm, quanto. `bits` per weight as
    computed on the GPU. `prequantized`: stored that way in the checkpoint (else quantised on load).
    """

    method: str = "none"
    bits: float = 16
    kind: str = ""  # nf4, fp4, int8, ...
    double_quant: bool = False
    storage_dtype: str = "uint8"
    prequantized: bool = False
    group_size: int = 0
    stacked_experts: bool = False  # experts in one 3-D tensor are quantised as well (Axolotl)
    experts_on_load: bool = False  # quantised as they load, and dequantised while their layer runs (Axolotl)
    skipped: tuple[str, ...] = ()  # modules not quantised; a config that names some must name the head too
    upcast_rest_to_fp32: bool = False  # peft.prepare_model_for_kbit_training
    vocabulary_to_bf16: bool = False  # embeddings and head, after that: trl's peft_module_casting_to_bf16


class Model(NamedTuple):
    """The model, its shapes and how its frozen weights are loaded."""

    name: str | Unknown = UNKNOWN
    architecture: Any = UNKNOWN  # architectures.model.Architecture
    weights_dtype: Maybe[str] = UNKNOWN  # of frozen weights as loaded: float32, bfloat16, float16
    quantization: Quantization = Quantization()
    from_scratch: bool = False
    new_special_tokens: int = 0
    holds_speech: bool = False  # what turns answers into speech is loaded as well, frozen and never run


class Method(NamedTuple):
    """What trains. `kind`: full, freeze, lora, dora (flag below), oft, boft, ia3, prefix, none (inference)."""

    kind: str = "full"
    stage: str = "sft"  # pt, sft, rm, dpo, kto, orpo, cpo, simpo, ipo, ppo, grpo, online_dpo, gkd, predict, ...
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
    reference_model: str = "none"  # none, shared (adapter switched off), copy, precomputed, named; of gkd the teacher
    reward_model: str = "none"  # none, lora, full, api
    # The head in stage rm: "score", a linear layer that replaces the language-model head and gives one number per
    # sequence (transformers 5.23 modeling_layers.py, GenericForSequenceClassification), or "value", TRL's value head in
    # addition to the language-model head (LLaMA-Factory 0.9.5 train/rm/workflow.py:46, `add_valuehead=True`).
    reward_head: str = "score"
    # The language-model head is left out, or nothing runs it: rerankers and embeddings read the last hidden states.
    drops_language_head: bool = False
    # The framework lists "all" linear layers itself: the modules whose class is some `Linear` (LLaMA-Factory 0.9.5
    # model/model_utils/misc.py:28, find_all_linear_modules). PEFT then adds no adapter to experts that are stacked in
    # one parameter; its own "all-linear" does.
    targets_linear_only: bool = False
    num_generations: int = 1
    # Frozen models that are loaded as well, as `Model` values: first a named reference model, then a full reward model.
    # A copy of the trained model and an adapter are not among them.
    extra_models: tuple[Any, ...] = ()
    fsdp_shards_extra_models: bool = True  # else each card holds them whole under FSDP
    # Projections that run as one op with their adapter: qkv, o, mlp (Axolotl, Unsloth).
    fused_adapters: tuple[str, ...] = ()
    value_model: Any = None  # a `ValueModel` that trains beside the policy (PPO's critic), None without one


class ValueModel(NamedTuple):
    """PPO's critic: a model that gives one number for each token, and trains as the policy does.

    `length`: tokens of each row of its micro-batch; 0: the run's sequence length.
    """

    model: Model
    micro_batch_size: Maybe[int] = UNKNOWN
    length: Maybe[int] = 0
    checkpointed: bool = True
    offloads_weights: bool = False  # on the card during its own phases alone
    offloads_optimizer: bool = False
    trains_adapter: bool = False  # an adapter as the policy's, instead of the whole model
    trains_at_once: bool = False  # its update runs while the policy's does, each in a process of its own
    in_one_step: bool = False  # one forward and one backward of both, under one optimizer
    gpus: int = 0  # of its own, where it is not on the policy's cards


class Rollout(NamedTuple):
    """How completions are written between updates (PPO, GRPO), and what leaves the card meanwhile.

    Engines such as vLLM and SGLang take `share` of each card while they generate. With `sleep_level` 0 they keep it
    while the model trains, with 1 their weights wait in host memory, with 2 they give back everything.
    """

    generator: str = ""  # model (the trained one itself), vllm (an engine on other GPUs), vllm_colocate (on the same)
    share: Maybe[float] = 0.0  # of each card, with the engine's weights and cache
    share_of_free: bool = False  # the share is one of what is free when the engine starts (SGLang)
    sleep_level: Maybe[int] = 0
    tensor_parallel_size: Maybe[int] = 1  # GPUs that share the engine's weights
    max_model_len: Maybe[int] = 0  # tokens of the longest sequence that the engine accepts; 0: its own default
    sequences: Maybe[int] = 0  # completions that a GPU writes at once; 0: those of a micro-batch
    # Sequences in one forward that computes the policy's log-probabilities before the update; 0: none is made for them.
    log_prob_micro_batch_size: Maybe[int] = 0
    log_prob_length: Maybe[int] = 0  # tokens of each of those rows; 0: the sequence's
    log_prob_entropy: str = "none"  # the entropy in that forward, as `loss.entropy`
    # The same for the reference model; 0: its forward runs while the policy's graph is alive.
    reference_micro_batch_size: Maybe[int] = 0
    reference_length: Maybe[int] = 0
    offloads_weights: bool = False  # the trained model's weights wait in host memory while completions are written
    offloads_optimizer: bool = False  # and so do its optimizer states
    offloads_until_update: bool = False  # optimizer states come back for the update, not for log-probabilities
    offloads_reference: bool = False  # a copied or named reference model is on the card layer by layer alone
    # The engine has all of its share back while new weights come to it, with a copy of the trainer's own beside them.
    wakes_at_once: bool = False
    own_process: bool = False  # the engine is a process of its own, with a CUDA context of its own
    # The logits of every token that is written are kept until its log-probability is computed.
    keeps_scores: bool = False
    model_processes: int = 0  # frozen models and critics in processes of their own, each with a CUDA context
    sync_bucket_bytes: int = 0  # of one buffer through which weights reach the engine


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
    embeddings_dtype: str = ""  # of embeddings, head and norms; "" = as the other weights
    # none, torchao, te, te_rowwise (te's least: no transposed copies), te_mxfp8 (a scale for 32 elements), msamp,
    # deepspeed
    fp8: str = "none"
    grad_dtype: str = ""  # "" = trainable_dtype; DeepSpeed's data_types.grad_accum_dtype
    tf32: bool = False


class Batch(NamedTuple):
    """`auto_find`: the Trainer lowers the batch size after an out-of-memory error.

    `max_tokens`: a bound on the tokens of one forward, over sequences joined without padding; it then counts instead of
    `micro_batch_size` sequences. 0: no such bound.
    """

    micro_batch_size: Maybe[int] = UNKNOWN  # sequences per GPU and forward
    gradient_accumulation_steps: Maybe[int] = UNKNOWN
    auto_find: bool = False
    max_tokens: Maybe[int] = 0


class Sequence(NamedTuple):
    """`length`: the longest sequence a GPU may see (tokens), images included where they fit in it."""

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
    images: Maybe[int] = UNKNOWN  # in a sample; UNKNOWN: between none and as many as the sequence holds
    # Batches without an image get a dummy one, so that the tower always runs (LLaMA-Factory 0.9.5 data/collator.py,
    # MultiModalDataCollatorForSeq2Seq: 64 x 64 pixels).
    always_has_images: bool = False
    shift_attention: bool = False  # LongLoRA
    rope_scaling: str = "none"
    length_is_bound: bool = True  # False: every sequence really has `length` (packing, pre-training)
    # The sequences of a micro-batch are joined without padding, so that a forward has as many tokens as they really
    # have: at least one may be of full length, and all of them seldom are.
    unpadded: bool = False


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
    mlp_tiles: int = 0  # MLPs run in at most this many slices of the sequence, and again in the backward


class Loss(NamedTuple):
    """`kind`: plain (full logits), liger (fused linear cross entropy), chunked, cut, unsloth, fused_ce, fused_head.

    fused_ce fuses the cross entropy alone: the logits are kept. fused_head is TRL's: tiles of logits.
    """

    kind: Maybe[str] = UNKNOWN
    chunk_tokens: int = 0
    upcast_logits: Maybe[bool] = UNKNOWN  # model code makes an fp32 copy of the logits
    in_logits_dtype: bool = False  # the trainer's own cross entropy reads a shifted copy of the logits in their dtype
    keeps_logits: bool = False  # outputs stay alive through backward
    label_smoothing: float = 0.0
    liger_kernels: bool = False  # other Liger kernels (norms, SwiGLU, rope) are patched in
    in_chunks: bool = False  # a plain loss over whole logits, computed in chunks
    preference: str = ""  # sigmoid, ipo, orpo, simpo, ...
    fallback_reason: str = ""  # why a fused loss in the config has no effect
    entropy: str = "none"  # with log-probabilities: none, compiled, whole, chunked, recomputed
    prompt_logits: bool = False  # a loss over completions alone computes the logits of the prompts as well
    scales_logits: bool = False  # by a temperature, into a copy
    # How the labels' log-probabilities come from the logits: "" a log-softmax of all of them; a logsumexp of each row
    # of logits that a temperature has divided, into a copy (divided) or in place (divided_in_place); kernel, which
    # writes its gradient into a tensor of its own. Liger's loss takes blocks of tokens and words then, and the forwards
    # before the update select in that way.
    selection: str = ""
    scores_completions: bool = False  # log-softmax of the completions' logits alone, where all are computed
    likelihood_of_chosen: bool = False  # a preference loss has the cross entropy of the chosen answers as well
    # What compares a student with its teacher over the whole vocabulary (stage gkd): mixture (of both), forward,
    # reverse, likelihood (beside the labels' cross entropy), few (of the teacher's likeliest words, without a
    # log-softmax of all), few_served (a server tells them); of any stage likeliest, which compares the teacher's
    # likeliest words alone, after a log-softmax of all; "" for no such loss. `in_row_chunks`: some rows at a time.
    divergence: str = ""
    in_row_chunks: bool = False
    gradient_apart: bool = False  # fused_ce writes its gradient into a tensor of its own, not over the logits


def liger_rows(stage: str, length: int) -> int:
    """Tokens whose logits Liger's loss of preferences or rollouts holds at once: those of a pair, a sequence or, where
    `length` is that of a completion, a completion (liger_kernel 0.8.5 chunked_loss/fused_linear_{preference,
    unpaired_preference,ppo}.py, `chunk_size=1`); 0 for other stages, whose chunks follow from the vocabulary."""
    return {"dpo": 2, "kto": 1, "grpo": 1}.get(stage, 0) * length


class Optimizer(NamedTuple):
    """`name` is a key of memory/optimizers.json (`adamw_torch`, `adamw_torch_fused`, `paged_adamw_8bit`, ...)."""

    name: Maybe[str] = UNKNOWN
    foreach: bool | None = None
    state_dtype: str = ""  # "" = as the table says
    rank: int = 0  # GaLore / APOLLO projection rank
    targets: tuple[str, ...] = ()
    layerwise: bool = False  # optimizer step fused into backward, gradients freed at once
    badam_mode: str = ""  # layer, ratio
    momentum: float = 0.0
    max_grad_norm: float = 1.0
    engine: str = "torch"  # torch, deepspeed (its own implementation), bitsandbytes, torchao
    weight_decay: float = 0.0
    projection: str = ""  # APOLLO: random, svd; "" = random
    # With "all linear layers" as targets, GaLore and APOLLO project the head as well (transformers 5.23
    # trainer_optimizer.py:130-152). LLaMA-Factory's own list leaves it out (0.9.5 train/trainer_utils.py:186-197).
    projects_head: bool = True
    learning_rate: Maybe[float] = UNKNOWN  # for the planner, which raises it with adapters: no estimate reads it


class Zero(NamedTuple):
    """DeepSpeed ZeRO. Counts are elements, as in the JSON; UNKNOWN where `auto` cannot be filled."""

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
    memory_efficient_linear: bool = True  # linear layers by DeepSpeed's own function (stage 3)
    gathers_for_generation: bool = True  # the whole model on each GPU while it generates (stage 3)


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
    loads_packed_on_host: bool = False  # quantised weights reach a card as shards alone
    state_dict_type: str = "SHARDED_STATE_DICT"
    activation_checkpointing: bool = False
    shard_group_size: int = 0  # hybrid: GPUs in one shard group; 0 = one node
    param_dtype: str = ""  # mixed precision policy; "" follows precision.compute
    reduce_dtype: str = ""
    upcasts_trainable: bool = True  # accelerate turns low-precision trainable parameters into fp32
    reduces_each_backward: bool = False  # each micro-batch's gradients are reduced at once: no `no_sync`


class Parallelism(NamedTuple):
    """`world_size`: GPUs over all nodes. Degrees multiply to it; `data_parallel_size` is what is left."""

    world_size: Maybe[int] = UNKNOWN
    gpus_per_node: Maybe[int] = UNKNOWN
    data_parallel_size: Maybe[int] = UNKNOWN
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    context_parallel_size: int = 1
    sequence_parallel_size: int = 1  # Ulysses
    expert_parallel_size: int = 1
    # single, ddp, deepspeed, fsdp, megatron, device_map (whole layers on each card); of inference: vllm, sglang
    engine: str = "single"
    zero: Zero = Zero()
    fsdp: Fsdp = Fsdp()
    ddp_bucket_view: bool = False
    find_unused_parameters: bool = False


class Offload(NamedTuple):
    """Devices: none, cpu, nvme. Host buffers under nvme are DeepSpeed's (0.19.8 runtime/zero/offload_config.py)."""

    optimizer: str = "none"
    optimizer_pinned: bool = False
    optimizer_ratio: float = 1.0
    optimizer_buffer_count: int = 4  # of the largest sub-group each
    parameters: str = "none"
    parameters_pinned: bool = False
    parameters_buffer_count: int = 5
    parameters_buffer_size: int = 100_000_000  # elements of one buffer
    parameters_max_in_cpu: int = 1_000_000_000  # trainable elements that stay in host memory
    activations: str = "none"


class Evaluation(NamedTuple):
    """Evaluation between training steps. In a run with purpose "inference": the generation itself."""

    enabled: Maybe[bool] = False
    batch_size: Maybe[int] = UNKNOWN
    accumulation_steps: int | None = None
    predict_with_generate: bool = False
    keeps_logits: bool = True  # prediction_loss_only false and metrics computed
    fused_loss: bool = False  # Liger's models skip the logits in evaluation too
    max_new_tokens: int = 0
    num_beams: int = 1
    samples: Maybe[int] = UNKNOWN


SERVERS = ("vllm", "sglang")  # engines that fill a share of each card and answer many requests at once


class Serving(NamedTuple):
    """How a run that trains nothing answers requests."""

    uses_cache: bool = True  # keys and values of earlier tokens are kept
    memory_share: Maybe[float] = 0.0  # of each card, filled with weights and cache (vLLM, SGLang)
    cache_dtype: str = ""  # of keys and values in the cache; "" = precision.compute


class Saving(NamedTuple):
    """`only_model`: checkpoints without optimizer states. `gathers_full_weights`: weights are gathered to be saved.
    `copies_on_each_rank`: every process copies weights that are not divided to the host, the first one writes them."""

    enabled: bool = True
    only_model: bool = False
    gathers_full_weights: bool = False
    copies_on_each_rank: bool = False


class Stack(NamedTuple):
    """Framework versions that change memory, as tuples of ints; empty tuple = the newest that memlint models."""

    framework: str = ""  # llamafactory, trainer, trl, axolotl, ...
    framework_version: tuple[int, ...] = ()
    transformers: tuple[int, ...] = (5, 23)
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
    unmodelled: str = ""  # a feature whose memory is not modelled, and what it does
    unmodelled_adds: bool = False  # that feature takes nothing from weights, gradients and optimizer states
    expert_kernel: str = ""  # what multiplies stacked experts instead of transformers' own code: scattermoe
    linear_attention: str = ""  # kernels installed: torch (none), fla (the gated delta rule), kernels (Mamba 2 too)


class Amount(NamedTuple):
    """Memory that somebody states: bytes, or a share of what it is about."""

    size: int = 0
    share: float = 0.0

    def of(self, whole: int) -> int:
        """Bytes, where the share is one of `whole`."""
        return self.size + int(self.share * whole)

    def __str__(self) -> str:
        if self.share:
            return f"{100 * self.share:g} %"
        return f"{self.size / 2**30:g} GiB" if self.size >= 2**30 else f"{self.size / 2**20:g} MiB"


class Hardware(NamedTuple):
    """The card that the run is estimated for. `gpu` is a hardware.Gpu, None where no card is known.

    `context`, `communication`, `fragmentation`: what is stated in place of memlint's own figures; None = those.
    """

    gpu: Any = None
    memory_budget_bytes: int = 0  # 0 = the card's usable memory
    optimizer_budget_bytes: int = 0  # what optimizer states may take of it; 0 = nobody says
    host_bytes: int = 0  # 0 = unknown
    context: Amount | None = None  # CUDA context with its kernels; a share is of the card's memory
    communication: Amount | None = None  # buffers of NCCL where there are several ranks; a share as above
    fragmentation: Amount | None = None  # what the allocator holds beyond tensors; a share is of the tensors


class Planning(NamedTuple):
    """What the planner must know of the framework: effects of its options, and what its config can express.

    No estimate reads it.
    """

    # How activation checkpoints are offloaded to host memory: "layer_inputs" (transformers 5.23 modeling_utils.py:3151,
    # `save_on_cpu`; Axolotl 0.19 docs/gradient_checkpointing.qmd, `hidden_states`), "unsloth" (LLaMA-Factory 0.9.5
    # model/model_utils/checkpointing.py:43, `hidden_states.to("cpu")`), "saved_tensors" (trl 1.16
    # trainer/sft_config.py:291, `activation_offloading`).
    checkpoint_offload: str = "layer_inputs"
    # What starts DeepSpeed on one GPU; "" where nothing is needed (transformers docs/source/en/deepspeed.md).
    single_gpu_launch: str = "start it with torchrun, deepspeed or accelerate launch"
    lora_dropout: float = 0.0  # default dropout of adapters that a change adds
    liger_kernels_apart: bool = False  # Liger's loss and its other kernels have separate options
    freezes_projector_apart: bool = True  # a vision tower can be frozen while its projector trains
    stores_4_bits_in_half: bool = False  # the config can say `bnb_4bit_quant_storage`
    pins_transformers: bool = False  # the framework's release decides the release of transformers
    deepspeed_expands_segments: bool = False  # what starts DeepSpeed sets `expandable_segments:True`
    # The field that says how many GPUs share each sequence, where the framework can do it and a file can say it.
    sequence_sharing: str = ""
    critic_has_own_batch: bool = False  # PPO's critic has a micro-batch of its own in the config
    shares_images: bool = False  # and so can those with images
    sequence_sharing_needs: str = ""  # what has to be installed for it
    offloads_under_fsdp2: bool = False  # FSDP's shards go to host memory under its second version alone
    fuses_log_probabilities: bool = False  # the config can ask for log-probabilities without whole logits


class Reading(NamedTuple):
    """Another way in which the same files may run, where nobody says which one holds.

    `changes`: dotted fields of the run and their values under this reading. They hold while the fields in `given` are
    what they were when the reading was made; a changed run may have settled the question. `reason`: what nobody says.
    `label` and `itself`: what happens under this reading, and in the run as it stands.
    """

    reason: str
    label: str
    itself: str
    changes: tuple[tuple[str, Any], ...]
    given: tuple[tuple[str, Any], ...] = ()
    only_where_over: bool = False  # asked only where the run as it stands does not fit: it may take that verdict back


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
    """A label for what runs the config: the framework, or the format where none is known (a DeepSpeed JSON)."""
    return run.stack.framework or run.format


def get(run: Run, name: str) -> Any:
    """The value at a dotted name: `get(run, "batch.micro_batch_size")`."""
    value: Any = run
    for part in name.split("."):
        value = getattr(value, part)
    return value


def replace(run: Run, changes: Mapping[str, object]) -> Run:
    """A copy of `run` with the fields in `changes` (dotted names) set. A list becomes the tuple that a field holds.
    Where a whole part is set as well as fields of it, these are set in the new part."""
    replaced: Run = _replace(run, changes)
    return replaced


def differences(run: Run, other: Run, sections: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """The fields of `sections` in which `other` differs from `run`, dotted, with the values of `other`."""
    found = []
    for section in sections:
        mine, theirs = getattr(run, section), getattr(other, section)
        pairs = zip(mine._fields, mine, theirs)
        found += [(f"{section}.{field}", value) for field, before, value in pairs if before != value]
    return tuple(found)


def _replace(node: Any, changes: Mapping[str, object]) -> Any:
    """A copy of a record: each part of it that changes is made once, however many of its fields do."""
    own: dict[str, Any] = {}
    of_parts: dict[str, dict[str, object]] = {}
    for name, value in changes.items():
        part, _, field = name.partition(".")
        if field:
            of_parts.setdefault(part, {})[field] = value
        else:
            own[part] = tuple(value) if isinstance(value, list) else value  # a list: of a rule file
    for part, fields in of_parts.items():
        own[part] = _replace(own.get(part, getattr(node, part)), fields)
    return node._replace(**own)
