"""The checks of Axolotl that the rules of rules/axolotl state, and which releases and copies have them.

A release before a check accepts what the rule calls refused, and so does a fork whose own schemas do not have it.
"""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.axolotl.issues import checks_of_copies, has_copy
from memlint.formats.axolotl.releases import NAME, Version, axolotl_versions
from memlint.formats.base import Context
from memlint.formats.fields import root
from memlint.source.document import Document

_OLDEST = (0, 5)  # or before
# Rule -> the functions of Axolotl that make the check, each enough, and the first minor release that has one of them
# (src/axolotl/utils of 0.5.2, 0.6.0, 0.7.0, 0.8.1, 0.9.2, 0.10.0, 0.11.0, 0.12.2, 0.13.2, 0.14.0 to 0.21.0).
CHECKS: Mapping[str, tuple[tuple[str, ...], Version]] = {
    "AXO001": (("validate_adapter",), _OLDEST),
    "AXO002": (("validate_qlora",), _OLDEST),
    "AXO003": (("validate_qlora",), _OLDEST),
    "AXO004": (("validate_qlora",), _OLDEST),
    "AXO005": (("validate_lora_target_parameters_dropout",), (0, 15)),
    "AXO006": (("check_frozen",), _OLDEST),
    "AXO007": (("check_peft_layers_pattern",), _OLDEST),
    "AXO008": (("check_fused_lora",), _OLDEST),
    "AXO009": (("check_onebitllms_lora",), (0, 17)),
    "AXO010": (("check_lora_kernels_8bit",), (0, 12)),
    "AXO011": (("check_lora_kernels_trust_remote_code",), (0, 15)),
    "AXO012": (("check_quantize_moe_experts",), (0, 15)),
    "AXO013": (("check_lr_groups",), (0, 8)),
    "AXO014": (("check_use_reentrant_mismatch",), _OLDEST),
    "AXO015": (("check_model_quantization_config_vs_bnb",), (0, 12)),
    "AXO016": (("check_qat_config",), (0, 10)),
    "AXO017": (("check_ple_cpu_offload",), (0, 19)),
    "AXO018": (("check_lora_target_modules_regex",), (0, 16)),
    "AXO019": (("check_gptq_w_revision",), _OLDEST),
    "AXO020": (("check_gas_bsz",), _OLDEST),
    "AXO021": (("check_batch_size_fields",), _OLDEST),
    "AXO022": (("check_eval_packing",), _OLDEST),
    "AXO023": (("check_sample_packing_w_rl",), _OLDEST),
    "AXO024": (("check_batch_flattening_fa",), (0, 7)),
    "AXO025": (("check_grpo_batch_size_divisibility",), (0, 17)),
    "AXO026": (("check_grpo_batch_size_divisibility",), (0, 17)),
    "AXO027": (("check_activation_offloading_wo_gc",), (0, 12)),
    "AXO028": (("check_selective_checkpointing",), (0, 18)),
    "AXO029": (("check_hidden_states_offloading",), (0, 18)),
    "AXO030": (("check_mpt_checkpointing",), _OLDEST),
    "AXO031": (("normalize_attn_implementation",), (0, 17)),
    "AXO032": (("check_scaling_softmax_requires_flex",), (0, 13)),
    "AXO033": (("check_deprecated_unsloth_fields",), (0, 17)),
    "AXO034": (("check_cross_entropy_conflicts",), (0, 13)),
    "AXO035": (("check_dtype_is_half",), (0, 6)),
    "AXO036": (("check_deprecated_swiglu",), _OLDEST),
    "AXO037": (
        ("check_liger_rms_norm_tensor_parallel", "check_tensor_parallel_size_liger_fused_linear_cross_entropy"),
        (0, 12),
    ),
    "AXO038": (("check_torch_compile_options_requires_compile",), (0, 18)),
    "AXO039": (("check_fp8_config",), (0, 12)),
    "AXO040": (("check_fsdp_deepspeed",), _OLDEST),
    "AXO041": (("check_fsdp_offload_w_8bit_optimizer",), _OLDEST),
    "AXO042": (("check_fsdp2_w_8bit_optimizer",), (0, 12)),
    "AXO043": (("check_fsdp2_base_model_quant_rl",), (0, 12)),
    "AXO044": (("check_fsdp2_cpu_ram_efficient_loading_w_4bit",), (0, 19)),
    "AXO045": (("check_fsdp2_cpu_offload_pin_memory",), (0, 13)),
    "AXO046": (("check_fp32_norms",), (0, 17)),
    "AXO047": (("check_falcon_fsdp",), _OLDEST),
    "AXO048": (("check_gpt_oss_fsdp_loading",), (0, 12)),
    "AXO049": (("check_context_parallel_size",), (0, 12)),
    "AXO050": (("check_context_parallel_size",), (0, 12)),
    "AXO051": (("check_tensor_parallel_optimizer",), (0, 12)),
    "AXO052": (
        ("check_muon_deepspeed_fsdp", "check_polora", "check_qgalore", "check_flashoptim_deepspeed_fsdp"),
        (0, 8),
    ),
    "AXO053": (("check_polora",), (0, 19)),
    "AXO054": (("check_qgalore",), (0, 17)),
    "AXO055": (("check_mem_mismatch",), _OLDEST),
    "AXO056": (("check_deepcompile",), (0, 12)),
    "AXO057": (("check_dataset_or_pretraining_dataset",), _OLDEST),
    "AXO058": (("check_push_ds_auth",), _OLDEST),
    "AXO059": (("check_val_w_test_datasets",), _OLDEST),
    "AXO060": (("check_pretraining_w_max_steps", "check_streaming_w_max_steps"), _OLDEST),
    "AXO061": (("check_pretraining_w_val_set_size", "check_streaming_w_val_set_size"), (0, 13)),
    "AXO062": (("check_streaming_w_multiple_datasets",), (0, 13)),
    "AXO063": (("check_warmup",), _OLDEST),
    "AXO064": (("check_saves",), _OLDEST),
    "AXO065": (("check_saves",), _OLDEST),
    "AXO066": (("check_evals",), _OLDEST),
    "AXO067": (("check_evals",), _OLDEST),
    "AXO068": (("check_evals",), _OLDEST),
    "AXO069": (("check_evals",), _OLDEST),
    "AXO070": (("check_evals",), _OLDEST),
    "AXO071": (("check_early_stopping",), _OLDEST),
    "AXO072": (("check_save_strategy_best_requires_metric",), (0, 16)),
    "AXO073": (("check_causal_lm_evals",), _OLDEST),
    "AXO074": (("validate_neftune_noise_alpha",), _OLDEST),
    "AXO075": (("check_kto_config",), (0, 6)),
    "AXO076": (("check_dpo",), (0, 17)),
    "AXO077": (("check_dpo_use_liger_kernel",), (0, 19)),
    "AXO078": (("check_simpo_warmup",), _OLDEST),
    "AXO079": (("check_gdpo",), (0, 13)),
    "AXO080": (("check_grpo_liger_sequence_parallel", "check_grpo_liger_context_parallel"), (0, 9)),
    "AXO081": (("check_ebft_config_required",), (0, 16)),
    "AXO082": (("check_relora",), _OLDEST),
    "AXO083": (("check_dataset_or_pretraining_dataset",), _OLDEST),
    "AXO084": (("check_fp8_config",), (0, 12)),
    "AXO087": (("check_ebft_torch_compile",), (0, 16)),
    "AXO089": (("validate_adapter",), _OLDEST),
    "AXO090": (("check_better_transformers",), _OLDEST),
    "AXO091": (("check_mistral_common_incompatible_options",), (0, 10)),
    "AXO092": (("check_deduplication_with_skip_prepare",), (0, 15)),
    "AXO093": (("validate_qlora",), _OLDEST),
    "AXO094": (("check_multigpu_lora_kernels",), (0, 9)),
    "AXO095": (("check_chat_template_config",), _OLDEST),
    "AXO096": (("validate_size_based_wrap",), (0, 18)),
    "AXO097": (("pretrain_with_tps",), (0, 11)),
    "AXO098": (("check_rl_config_gradient_checkpointing",), (0, 8)),
    "AXO099": (("check_neftune",), (0, 11)),  # before, the branch that refuses was never reached
    "AXO100": (("check_multipack_buffer_size",), (0, 13)),
    "AXO101": (("reject_reserved_processor_kwargs",), (0, 17)),
    "AXO102": (("check_multigpu_unsloth",), _OLDEST),
    "AXO103": (("check_fsdp_version",), (0, 20)),
}
# Rule -> the first minor release that does not make the check (src/axolotl/utils of 0.19.0, 0.20.0 and 0.21.0).
_UNTIL: Mapping[str, Version] = {"AXO041": (0, 20), "AXO077": (0, 21), "AXO094": (0, 20)}
_LATER: Version = (9,)


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """Whether the release that the file is for, or the repository's own copy of Axolotl, does not make the check."""
    if rule not in CHECKS or not isinstance(document.value, dict):
        return False
    functions, since = CHECKS[rule]
    if has_copy(context):
        return checks_of_copies(context).isdisjoint(functions)
    release = axolotl_versions(root(document), context.versions)[0][NAME]
    return release < since or release >= _UNTIL.get(rule, _LATER)
