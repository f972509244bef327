"""Combinations that Axolotl's validators refuse (axolotl 0.19.0 utils/schemas/; lines are those of validation.py).

They raise after the queue and before the first step. Warnings of the same validators are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.axolotl.config import NAME, Config
from memlint.formats.axolotl.families import NAMED_WITHOUT_CHECKPOINTING, NAMED_WITHOUT_FSDP
from memlint.formats.axolotl.model import fsdp_version
from memlint.formats.base import Issue
from memlint.formats.fields import as_bool, as_int, as_number


class Conflict(NamedTuple):
    """`keys`: where it is said, the first that is there; `refused`: whether Axolotl raises; `since`: the release that
    first looks, where older ones do something useful with such a file."""

    keys: str
    message: str
    refused: Callable[[Said], bool]
    since: tuple[int, ...] = ()


class Said:
    """What a file says, as the validators ask it: by Python's truth of the values as written."""

    __slots__ = ("config", "raw")

    def __init__(self, config: Config) -> None:
        self.config = config
        self.raw: Mapping[str, Any] = config.section.value

    def __call__(self, *keys: str) -> bool:
        """Whether all of `keys` are given and true."""
        return all(self.raw.get(key) for key in keys)

    def says(self, key: str, *values: Any) -> bool:
        value = self.raw.get(key)
        return (value.lower() if isinstance(value, str) else value) in values

    def inside(self, key: str, inner: str) -> Any:
        value = self.raw.get(key)
        return value.get(inner) if isinstance(value, dict) else None

    def held(self, *keys: str) -> bool:
        """Whether something else fills one of `keys` in."""
        return any(key in self.config.held for key in keys)

    def number(self, key: str, default: float = 0) -> float:
        value = as_number(self.raw.get(key))
        return default if value is None else value

    def fsdp(self, version: int) -> bool:
        return bool(self.raw.get("fsdp_config")) and fsdp_version(self.config) == version

    @property
    def trains(self) -> bool:
        return not (self("inference") or self("merge_lora"))


_BITS = ("load_in_8bit", "load_in_4bit")
_LORA = ("lora", "qlora")
_KERNELS = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel")
_LOSSES = ("cut_cross_entropy", "chunked_cross_entropy", "liger_cross_entropy", "liger_fused_linear_cross_entropy")
_FLAGS = tuple(f"{name}_attention" for name in ("xformers", "sage", "flex", "flash", "sdp", "eager"))
_UNSLOTH = tuple(
    f"unsloth_{name}" for name in ("cross_entropy_loss", "lora_mlp", "lora_qkv", "lora_o", "rms_norm", "rope")
)
_BNB = ("paged_adamw_8bit", "adamw_8bit", "adamw_bnb_8bit")


def _any(said: Said, keys: tuple[str, ...]) -> bool:
    return any(said(key) for key in keys)


def _reentrant(said: Said) -> bool:
    return bool(as_bool(said.inside("gradient_checkpointing_kwargs", "use_reentrant")))


def _offloads(said: Said) -> bool:
    return any(as_bool(said.inside("fsdp_config", key)) for key in ("offload_params", "fsdp_offload_params"))


def _loads_on_one_rank(said: Said) -> bool:
    return any(
        as_bool(said.inside("fsdp_config", key))
        for key in ("cpu_ram_efficient_loading", "fsdp_cpu_ram_efficient_loading")
    )


def _generations(said: Said) -> int:
    return as_int(said.inside("trl", "num_generations")) or 0


def _generation_batch(said: Said) -> int:
    asked = as_int(said.inside("trl", "generation_batch_size"))
    return asked or int(said.number("micro_batch_size", 1) or 1) * int(
        said.number("gradient_accumulation_steps", 1) or 1
    )


def _only_fsdp2(said: Said, *optimizers: str) -> bool:
    """Optimizers that refuse DeepSpeed, and FSDP but for its second version."""
    sharded = said("deepspeed") or (_any(said, ("fsdp", "fsdp_config")) and fsdp_version(said.config) != 2)
    return sharded and any(said.config.own.word("optimizer").startswith(name) for name in optimizers)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_broken(pattern: Any) -> bool:
    try:
        return isinstance(pattern, str) and len(pattern) < _LONGEST and not re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return True


_LONGEST = 1_000

ADAPTERS = (
    Conflict(  # peft.py:165
        "load_in_8bit load_in_4bit",
        "`load_in_8bit` and `load_in_4bit` need an `adapter` to train: name one, or load the model as it is",
        lambda s: _any(s, _BITS) and not s("adapter") and not s.held("adapter") and not s("inference"),
    ),
    Conflict(
        "load_in_8bit",
        "`adapter: qlora` cannot be loaded in 8 bits",
        lambda s: s.says("adapter", "qlora") and s.trains and s("load_in_8bit"),
    ),
    Conflict(
        "gptq",
        "`adapter: qlora` cannot be loaded from GPTQ",
        lambda s: s.says("adapter", "qlora") and s.trains and s("gptq"),
    ),
    Conflict(
        "adapter",
        "`adapter: qlora` requires `load_in_4bit: true`",
        lambda s: s.says("adapter", "qlora") and s.trains and not s("load_in_4bit") and not s.held("load_in_4bit"),
    ),
    Conflict(  # peft.py:240
        "lora_dropout",
        "`lora_dropout` must be 0 with `lora_target_parameters`",
        lambda s: s("lora_target_parameters") and s.number("lora_dropout") != 0,
    ),
    Conflict(  # 612
        "peft_layers_to_transform",
        "`peft_layers_to_transform` does not go with `unfrozen_parameters`",
        lambda s: s("adapter", "peft_layers_to_transform", "unfrozen_parameters"),
    ),
    Conflict(  # 625
        "peft_layers_pattern",
        "`peft_layers_pattern` requires `peft_layers_to_transform`",
        lambda s: s("peft_layers_pattern") and not s("peft_layers_to_transform"),
    ),
    Conflict(  # 633
        "flash_attn_fuse_mlp",
        "fused MLPs do not go with adapters",
        lambda s: s("flash_attn_fuse_mlp") and s.says("adapter", *_LORA),
    ),
    Conflict(
        "use_onebitllms", "1-bit models take no adapter", lambda s: s("use_onebitllms") and s.says("adapter", *_LORA)
    ),
    Conflict(  # 666
        "lora_mlp_kernel lora_qkv_kernel lora_o_kernel",
        "the LoRA kernels are not compatible with 8-bit LoRA",
        lambda s: _any(s, _KERNELS) and s.says("adapter", "lora") and s("load_in_8bit"),
    ),
    Conflict(  # 687
        "trust_remote_code",
        "the LoRA kernels are not compatible with `trust_remote_code`",
        lambda s: _any(s, _KERNELS) and s("trust_remote_code"),
    ),
    Conflict(  # config.py:1954
        "quantize_moe_experts",
        "`quantize_moe_experts` requires an adapter, 4 or 8 bits, and no `lora_target_linear`",
        lambda s: (
            s("quantize_moe_experts")
            and (s("lora_target_linear") or not s.says("adapter", *_LORA) or not _any(s, _BITS))
            and not s.held("adapter", *_BITS)
        ),
    ),
    Conflict(  # 605
        "lr_groups",
        "`lr_groups` and `loraplus_lr_ratio` cannot be used together",
        lambda s: s("lr_groups", "loraplus_lr_ratio"),
    ),
    Conflict(  # 474
        "unfrozen_parameters",
        "a partly frozen model needs `use_reentrant: false` in `gradient_checkpointing_kwargs`",
        lambda s: s("unfrozen_parameters") and _reentrant(s),
    ),
    Conflict(  # 1359
        "model_quantization_config",
        "`model_quantization_config` does not go with `load_in_8bit` or `load_in_4bit`",
        lambda s: s("model_quantization_config") and _any(s, _BITS),
    ),
    Conflict(  # config.py:2172
        "qat",
        "quantisation-aware training does not go with `peft`, `load_in_8bit` or `load_in_4bit`",
        lambda s: s("qat") and _any(s, ("peft", *_BITS)),
    ),
    Conflict(  # config.py:1764
        "ple_cpu_offload",
        "`ple_cpu_offload` requires bitsandbytes' QLoRA or 8-bit LoRA, and takes neither FSDP nor DeepSpeed",
        lambda s: (
            s("ple_cpu_offload")
            and (
                _any(s, ("fsdp", "fsdp_config", "deepspeed"))
                or not (
                    s("load_in_4bit" if s.says("adapter", "qlora") else "load_in_8bit") and s.says("adapter", *_LORA)
                )
            )
        ),
    ),
    Conflict(  # config.py:1807
        "lora_target_modules",
        "`lora_target_modules` has a pattern that is no regular expression",
        lambda s: any(_is_broken(item) for item in _listed(s.raw.get("lora_target_modules"))),
    ),
    Conflict("revision_of_model", "GPTQ models take no `revision_of_model`", lambda s: s("gptq", "revision_of_model")),
)

BATCHES = (
    Conflict(  # 277
        "batch_size",
        "`gradient_accumulation_steps` and `batch_size` both say how many samples a step has: keep one",
        lambda s: s("gradient_accumulation_steps", "batch_size"),
    ),
    Conflict(  # 222
        "batch_size",
        "`batch_size` alone does not say how it is divided: add `micro_batch_size`",
        lambda s: s("batch_size") and not _any(s, ("micro_batch_size", "gradient_accumulation_steps")),
    ),
    Conflict(  # 139
        "eval_table_size",
        "`eval_table_size` with `sample_packing` needs `eval_sample_packing: false`",
        lambda s: s("sample_packing", "eval_table_size") and s.raw.get("eval_sample_packing") is not False,
    ),
    Conflict(  # 706
        "sample_packing", "`sample_packing` does not work with `rl`", lambda s: s("sample_packing", "rl")
    ),
    Conflict(  # 1095
        "batch_flattening",
        "`batch_flattening` is not compatible with `sample_packing`",
        lambda s: s("batch_flattening", "sample_packing") and not s.says("batch_flattening", "auto"),
    ),
    Conflict(  # 829
        "trl",
        "GRPO needs at least two `num_generations`",
        lambda s: s.says("rl", "grpo") and _generations(s) == 1,
    ),
    Conflict(
        "trl",
        "GRPO's batch (`micro_batch_size` x `gradient_accumulation_steps`) must be a multiple of `num_generations`",
        lambda s: s.says("rl", "grpo") and _generations(s) > 1 and _generation_batch(s) % _generations(s) != 0,
    ),
)

CHECKPOINTING = (
    Conflict(  # 1596
        "activation_offloading",
        "`activation_offloading` requires `gradient_checkpointing`",
        lambda s: s("activation_offloading") and not s("gradient_checkpointing"),
    ),
    Conflict(  # 1602
        "selective_checkpointing",
        "`selective_checkpointing` requires `gradient_checkpointing` with `use_reentrant: false`",
        lambda s: s("selective_checkpointing") and (not s("gradient_checkpointing") or _reentrant(s)),
    ),
    Conflict(  # 1648
        "activation_offloading",
        "offloaded hidden states of a partly frozen model need `use_reentrant: false`",
        lambda s: s.says("activation_offloading", "hidden_states") and s("unfrozen_parameters") and _reentrant(s),
    ),
    Conflict(  # 1569
        "gradient_checkpointing",
        "`gradient_checkpointing` is refused for models with `mpt` in their name",
        lambda s: NAMED_WITHOUT_CHECKPOINTING in s.config.text("base_model").lower() and s("gradient_checkpointing"),
    ),
)

KERNELS = (
    Conflict(  # config.py:1563
        "attn_implementation",
        "`attn_implementation` does not go with the older flags (`flash_attention: true`): keep one",
        lambda s: s("attn_implementation") and _any(s, _FLAGS),
    ),
    Conflict(
        "scaling_softmax", "`scaling_softmax` requires flex attention", lambda s: s("scaling_softmax") and not _flex(s)
    ),
    Conflict(  # 63
        " ".join(_UNSLOTH),
        "Unsloth's kernels are gone: use `lora_mlp_kernel` and its like",
        lambda s: _any(s, _UNSLOTH),
    ),
    Conflict(  # 1117
        " ".join(_LOSSES), "only one cross entropy can be in force: keep one of them", lambda s: _count(s, _LOSSES) > 1
    ),
    Conflict(  # integrations/cut_cross_entropy/args.py
        "cut_cross_entropy",
        "cut cross entropy requires `bf16` or `fp16`, written out",
        lambda s: s("cut_cross_entropy") and not _any(s, ("bf16", "fp16")) and not s.held("bf16", "fp16"),
    ),
    Conflict(  # integrations/liger/args.py
        "liger_swiglu",
        "`liger_swiglu` and `liger_glu_activation` say the same: keep one",
        lambda s: s.raw.get("liger_swiglu") is not None is not s.raw.get("liger_glu_activation"),
    ),
    Conflict(
        "liger_rms_norm liger_fused_linear_cross_entropy",
        "Liger's norms and losses are incompatible with tensor parallelism",
        lambda s: (
            s.number("tensor_parallel_size", 1) > 1 and _any(s, ("liger_rms_norm", "liger_fused_linear_cross_entropy"))
        ),
    ),
    Conflict(  # config.py:1644
        "torch_compile_options",
        "`torch_compile_options` requires `torch_compile`",
        lambda s: s("torch_compile_options") and not s("torch_compile") and not s.held("torch_compile"),
    ),
    Conflict("fp8_config", "`fp8_config` requires `fp8: true`", lambda s: s("fp8_config") and not s("fp8")),  # 429
)


def _flex(said: Said) -> bool:
    return said.says("attn_implementation", "flex_attention") or said("flex_attention")


def _count(said: Said, keys: tuple[str, ...]) -> int:
    return sum(said(key) for key in keys)


SHARDING = (
    Conflict("fsdp", "`deepspeed` and `fsdp` cannot be used together", lambda s: s("deepspeed", "fsdp")),  # 1352
    Conflict(  # 1236
        "optimizer",
        "FSDP's offload is not compatible with 8-bit optimizers",
        lambda s: s.fsdp(1) and _offloads(s) and "8bit" in s.config.own.word("optimizer"),
    ),
    Conflict(  # 1249
        "optimizer",
        "FSDP2 is not compatible with bitsandbytes' 8-bit AdamW: use `adamw_torch_8bit`",
        lambda s: s.fsdp(2) and s.says("optimizer", "adamw_8bit", "adamw_bnb_8bit"),
    ),
    Conflict(  # 1178
        "fsdp_version",
        "FSDP2 does not take 4 or 8 bits with this `rl`: use DeepSpeed or FSDP1",
        lambda s: s.raw.get("fsdp_version") == 2 and s.says("rl", "dpo", "kto", "orpo", "ipo") and _any(s, _BITS),
    ),
    Conflict(  # 1266
        "load_in_4bit",
        "FSDP2 with 4 bits needs `cpu_ram_efficient_loading: false`",
        lambda s: s.fsdp(2) and s("load_in_4bit") and _loads_on_one_rank(s),
    ),
    Conflict(  # 1161
        "fsdp_config",
        "`cpu_offload_pin_memory: false` requires FSDP2 and `offload_params`",
        lambda s: s.inside("fsdp_config", "cpu_offload_pin_memory") is False and not (s.fsdp(2) and _offloads(s)),
    ),
    Conflict("fp32_norms", "`fp32_norms` requires FSDP2", lambda s: s("fp32_norms") and not s.fsdp(2)),
    Conflict(  # 1563
        "fsdp",
        "FSDP is refused for Falcon",
        lambda s: NAMED_WITHOUT_FSDP in s.config.text("base_model").lower() and s("fsdp"),
    ),
    Conflict(  # 1696
        "model_quantization_config",
        "Mxfp4Config does not go with `cpu_ram_efficient_loading`",
        lambda s: s.raw.get("model_quantization_config") == "Mxfp4Config" and _loads_on_one_rank(s),
    ),
    Conflict(  # 1785
        "context_parallel_size sequence_parallel_degree",
        "context parallelism requires `attn_implementation: flash_attention_2`",
        lambda s: _context(s) > 1 and not _flash2(s) and not s("use_glm_dsa_kernels"),
    ),
    Conflict(
        "micro_batch_size",
        "context parallelism with `sample_packing` requires `micro_batch_size: 1`",
        lambda s: _context(s) > 1 and s("sample_packing") and s.number("micro_batch_size", 1) > 1,
    ),
    Conflict(  # 1928
        "optimizer",
        "tensor parallelism does not take bitsandbytes' 8-bit AdamW",
        lambda s: s.number("tensor_parallel_size", 1) > 1 and s.says("optimizer", *_BNB),
    ),
    Conflict(  # 931, 1058
        "optimizer",
        "this optimizer takes neither DeepSpeed nor FSDP1",
        lambda s: _only_fsdp2(s, "muon", "polora", "q_galore_adamw8bit", "flash_"),
    ),
    Conflict(  # 947
        "optimizer",
        "polora updates the factors of adapters alone: it needs `adapter: lora` or `qlora`",
        lambda s: s.says("optimizer", "polora") and not s.says("adapter", *_LORA) and not s.held("adapter"),
    ),
    Conflict(  # 1016
        "optimizer",
        "q_galore_adamw8bit trains whole weights: it takes no `adapter`",
        lambda s: s.says("optimizer", "q_galore_adamw8bit") and s("adapter"),
    ),
    Conflict(  # 1340
        "max_memory",
        "`max_memory` and `gpu_memory_limit` are mutually exclusive",
        lambda s: s("max_memory", "gpu_memory_limit"),
    ),
    Conflict(  # 1316
        "deepcompile",
        "DeepCompile requires DeepSpeed",
        lambda s: s("deepcompile") and not s("deepspeed") and not s.held("deepspeed"),
    ),
)


def _context(said: Said) -> float:
    return said.number("context_parallel_size") or said.number("sequence_parallel_degree")


def _flash2(said: Said) -> bool:
    return said("flash_attention") or str(said.raw.get("attn_implementation", "")).startswith("flash_attention_2")


_WITHOUT_DATA = frozenset(("LigerPlugin", "CutCrossEntropyPlugin", "SpectrumPlugin", "LLMCompressorPlugin"))

DATA = (
    Conflict(  # 83
        "base_model",
        "either `datasets` or `pretraining_dataset` is required",
        lambda s: (
            s.raw.get("datasets") is None is s.raw.get("pretraining_dataset")
            and not s.held("datasets")
            and set(s.config.plugins) <= _WITHOUT_DATA
        ),
        since=(0, 5),  # cc3cebfa7, February 2024; before it a file for axolotl.cli.inference needs none
    ),
    Conflict(  # 104
        "push_dataset_to_hub",
        "`push_dataset_to_hub` requires `hf_use_auth_token: true`",
        lambda s: s("push_dataset_to_hub") and s.raw.get("hf_use_auth_token") is not True,
    ),
    Conflict(  # 116
        "val_set_size", "`val_set_size` does not go with `test_datasets`", lambda s: s("test_datasets", "val_set_size")
    ),
    Conflict(  # 1480, 1536
        "pretraining_dataset streaming",
        "a streamed data set has no length: `max_steps` must be set",
        lambda s: _any(s, ("pretraining_dataset", "streaming")) and not s("max_steps") and not s.held("max_steps"),
    ),
    Conflict(  # 1516, 1526
        "val_set_size",
        "`val_set_size` cannot be taken off a streamed data set: use `test_datasets`",
        lambda s: _any(s, ("pretraining_dataset", "streaming")) and s("val_set_size"),
    ),
    Conflict(  # 1546
        "streaming",
        "`sample_packing` of several streamed data sets is not supported",
        lambda s: (
            s("streaming", "sample_packing") and isinstance(s.raw.get("datasets"), list) and len(s.raw["datasets"]) > 1
        ),
    ),
)

SCHEDULE = (
    Conflict(  # 299
        "warmup_ratio",
        "`warmup_steps` and `warmup_ratio` are mutually exclusive",
        lambda s: s("warmup_steps", "warmup_ratio"),
    ),
    Conflict(  # 306
        "save_strategy",
        "`save_steps` requires `save_strategy: steps`",
        lambda s: s("save_strategy", "save_steps") and not s.says("save_strategy", "steps"),
    ),
    Conflict(
        "saves_per_epoch",
        "`save_steps` and `saves_per_epoch` are mutually exclusive",
        lambda s: s("saves_per_epoch", "save_steps"),
    ),
    Conflict(  # 334
        "eval_strategy",
        "`eval_steps` requires `eval_strategy: steps`",
        lambda s: s("eval_strategy", "eval_steps") and not s.says("eval_strategy", "steps"),
    ),
    Conflict(
        "eval_steps eval_strategy",
        "`val_set_size: 0` leaves nothing to evaluate on",
        lambda s: (
            s.raw.get("val_set_size") == 0
            and _any(s, ("eval_steps", "eval_strategy"))
            and not s("test_datasets")
            and not s.says("eval_strategy", "no")
        ),
    ),
    Conflict(
        "evals_per_epoch",
        "`eval_steps` and `evals_per_epoch` are mutually exclusive",
        lambda s: s("evals_per_epoch", "eval_steps"),
    ),
    Conflict(
        "eval_strategy",
        "`evals_per_epoch` requires `eval_strategy: steps`, or none",
        lambda s: s("evals_per_epoch", "eval_strategy") and not s.says("eval_strategy", "steps"),
    ),
    Conflict(
        "do_bench_eval",
        "`do_bench_eval` requires `evals_per_epoch` or `eval_steps`",
        lambda s: s("do_bench_eval") and not _any(s, ("evals_per_epoch", "eval_steps")),
    ),
    Conflict(  # 1766
        "early_stopping_patience",
        "`early_stopping_patience` requires `save_steps` and `eval_steps`",
        lambda s: s("early_stopping_patience") and not s("save_steps", "eval_steps"),
    ),
    Conflict(  # config.py:1790
        "save_strategy",
        "`save_strategy: best` requires `metric_for_best_model`",
        lambda s: s.says("save_strategy", "best") and not s("metric_for_best_model"),
    ),
    Conflict(  # 502
        "do_causal_lm_eval",
        "`do_causal_lm_eval` requires `eval_sample_packing: false`",
        lambda s: s("do_causal_lm_eval", "eval_sample_packing"),
    ),
    Conflict(  # 1711
        "neftune_noise_alpha",
        "`neftune_noise_alpha` must be above 0",
        lambda s: as_number(s.raw.get("neftune_noise_alpha")) is not None and s.number("neftune_noise_alpha") <= 0,
    ),
)

PREFERENCES = (
    Conflict(  # 713
        "rl",
        "`rl: kto` requires `remove_unused_columns: false`",
        lambda s: s.says("rl", "kto") and s.raw.get("remove_unused_columns") is not False,
    ),
    Conflict(  # 773
        "dpo_loss_type dpo_loss_weights",
        "`dpo_loss_type` and `dpo_loss_weights` are for `rl: dpo`",
        lambda s: not s.says("rl", "dpo") and not s.held("rl") and _any(s, ("dpo_loss_type", "dpo_loss_weights")),
    ),
    Conflict(  # 806
        "dpo_use_liger_kernel",
        "Liger's DPO loss does not know `ipo`",
        lambda s: s("dpo_use_liger_kernel") and (s.says("rl", "ipo") or s.raw.get("dpo_loss_type") == ["ipo"]),
    ),
    Conflict(  # 1724
        "warmup_ratio", "`rl: simpo` takes no `warmup_ratio`", lambda s: s.says("rl", "simpo") and s("warmup_ratio")
    ),
    Conflict(  # 760
        "trl",
        "`rl: gdpo` does not sum before it normalizes",
        lambda s: s.says("rl", "gdpo") and s.inside("trl", "multi_objective_aggregation") == "sum_then_normalize",
    ),
    Conflict(  # 724
        "trl",
        "GRPO with Liger's loss does not take context parallelism",
        lambda s: s.says("rl", "grpo") and _context(s) > 1 and bool(s.inside("trl", "use_liger_loss")),
    ),
    Conflict("rl", "`rl: ebft` requires an `ebft` section", lambda s: s.says("rl", "ebft") and not s("ebft")),  # 1943
    Conflict(  # 1732
        "relora",
        "ReLoRA requires an adapter and `jagged_restart_steps`, and takes neither FSDP nor DeepSpeed",
        lambda s: (
            s("relora")
            and (
                not s("jagged_restart_steps")
                or not s.says("adapter", *_LORA)
                or _any(s, ("fsdp", "fsdp_config", "deepspeed"))
            )
        ),
    ),
)

CONFLICTS = (*ADAPTERS, *BATCHES, *CHECKPOINTING, *KERNELS, *SHARDING, *DATA, *SCHEDULE, *PREFERENCES)


def conflicts(config: Config) -> Iterator[Issue]:
    said = Said(config)
    stated = NAME in config.context.versions
    for conflict in CONFLICTS:
        if (not stated or config.release >= conflict.since) and conflict.refused(said):
            keys = conflict.keys.split()
            key = next((key for key in keys if said.raw.get(key)), keys[0])
            older = "" if stated or not conflict.since else ".".join(map(str, conflict.since))
            message = f"Axolotl refuses this: {conflict.message}" + (
                f"; releases before {older} take it" if older else ""
            )
            yield config.section.issue("conflict", message, key, severity="warning" if older else "error")
