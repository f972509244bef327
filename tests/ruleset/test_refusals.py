"""No refusal of Axolotl or LLaMA-Factory is lost: what CFG008 once said of their files, and the rule that says it."""

from __future__ import annotations

import re

import pytest

from memlint.expressions.render import Template
from memlint.ruleset.shipped import shipped

ONCE = """
AXO001 `load_in_8bit` and `load_in_4bit` need an `adapter` to train: name one, or load the model as it is
AXO002 `adapter: qlora` cannot be loaded in 8 bits
AXO003 `adapter: qlora` cannot be loaded from GPTQ
AXO004 `adapter: qlora` requires `load_in_4bit: true`
AXO005 `lora_dropout` must be 0 with `lora_target_parameters`
AXO006 `peft_layers_to_transform` does not go with `unfrozen_parameters`
AXO007 `peft_layers_pattern` requires `peft_layers_to_transform`
AXO008 fused MLPs do not go with adapters
AXO009 1-bit models take no adapter
AXO010 the LoRA kernels are not compatible with 8-bit LoRA
AXO011 the LoRA kernels are not compatible with `trust_remote_code`
AXO012 `quantize_moe_experts` requires an adapter, 4 or 8 bits, and no `lora_target_linear`
AXO013 `lr_groups` and `loraplus_lr_ratio` cannot be used together
AXO014 a partly frozen model needs `use_reentrant: false` in `gradient_checkpointing_kwargs`
AXO015 `model_quantization_config` does not go with `load_in_8bit` or `load_in_4bit`
AXO016 quantisation-aware training does not go with `peft`, `load_in_8bit` or `load_in_4bit`
AXO017 `ple_cpu_offload` requires bitsandbytes' QLoRA or 8-bit LoRA, and takes neither FSDP nor DeepSpeed
AXO018 `lora_target_modules` has a pattern that is no regular expression
AXO019 GPTQ models take no `revision_of_model`
AXO020 `gradient_accumulation_steps` and `batch_size` both say how many samples a step has: keep one
AXO021 `batch_size` alone does not say how it is divided: add `micro_batch_size`
AXO022 `eval_table_size` with `sample_packing` needs `eval_sample_packing: false`
AXO023 `sample_packing` does not work with `rl`
AXO024 `batch_flattening` is not compatible with `sample_packing`
AXO025 GRPO needs at least two `num_generations`
AXO026 GRPO's batch (`micro_batch_size` x `gradient_accumulation_steps`) must be a multiple of `num_generations`
AXO027 `activation_offloading` requires `gradient_checkpointing`
AXO028 `selective_checkpointing` requires `gradient_checkpointing` with `use_reentrant: false`
AXO029 offloaded hidden states of a partly frozen model need `use_reentrant: false`
AXO030 `gradient_checkpointing` is refused for models with `mpt` in their name
AXO031 `attn_implementation` does not go with the older flags (`flash_attention: true`): keep one
AXO032 `scaling_softmax` requires flex attention
AXO033 Unsloth's kernels are gone: use `lora_mlp_kernel` and its like
AXO034 only one cross entropy can be in force: keep one of them
AXO035 cut cross entropy requires `bf16` or `fp16`, written out
AXO036 `liger_swiglu` and `liger_glu_activation` say the same: keep one
AXO037 Liger's norms and losses are incompatible with tensor parallelism
AXO038 `torch_compile_options` requires `torch_compile`
AXO039 `fp8_config` requires `fp8: true`
AXO040 `deepspeed` and `fsdp` cannot be used together
AXO041 FSDP's offload is not compatible with 8-bit optimizers
AXO042 FSDP2 is not compatible with bitsandbytes' 8-bit AdamW: use `adamw_torch_8bit`
AXO043 FSDP2 does not take 4 or 8 bits with this `rl`: use DeepSpeed or FSDP1
AXO044 FSDP2 with 4 bits needs `cpu_ram_efficient_loading: false`
AXO045 `cpu_offload_pin_memory: false` requires FSDP2 and `offload_params`
AXO046 `fp32_norms` requires FSDP2
AXO047 FSDP is refused for Falcon
AXO048 Mxfp4Config does not go with `cpu_ram_efficient_loading`
AXO049 context parallelism requires `attn_implementation: flash_attention_2`
AXO050 context parallelism with `sample_packing` requires `micro_batch_size: 1`
AXO051 tensor parallelism does not take bitsandbytes' 8-bit AdamW
AXO052 this optimizer takes neither DeepSpeed nor FSDP1
AXO053 polora updates the factors of adapters alone: it needs `adapter: lora` or `qlora`
AXO054 q_galore_adamw8bit trains whole weights: it takes no `adapter`
AXO055 `max_memory` and `gpu_memory_limit` are mutually exclusive
AXO056 DeepCompile requires DeepSpeed
AXO057 either `datasets` or `pretraining_dataset` is required
AXO058 `push_dataset_to_hub` requires `hf_use_auth_token: true`
AXO059 `val_set_size` does not go with `test_datasets`
AXO060 a streamed data set has no length: `max_steps` must be set
AXO061 `val_set_size` cannot be taken off a streamed data set: use `test_datasets`
AXO062 `sample_packing` of several streamed data sets is not supported
AXO063 `warmup_steps` and `warmup_ratio` are mutually exclusive
AXO064 `save_steps` requires `save_strategy: steps`
AXO065 `save_steps` and `saves_per_epoch` are mutually exclusive
AXO066 `eval_steps` requires `eval_strategy: steps`
AXO067 `val_set_size: 0` leaves nothing to evaluate on
AXO068 `eval_steps` and `evals_per_epoch` are mutually exclusive
AXO069 `evals_per_epoch` requires `eval_strategy: steps`, or none
AXO070 `do_bench_eval` requires `evals_per_epoch` or `eval_steps`
AXO071 `early_stopping_patience` requires `save_steps` and `eval_steps`
AXO072 `save_strategy: best` requires `metric_for_best_model`
AXO073 `do_causal_lm_eval` requires `eval_sample_packing: false`
AXO074 `neftune_noise_alpha` must be above 0
AXO075 `rl: kto` requires `remove_unused_columns: false`
AXO076 `dpo_loss_type` and `dpo_loss_weights` are for `rl: dpo`
AXO077 Liger's DPO loss does not know `ipo`
AXO078 `rl: simpo` takes no `warmup_ratio`
AXO079 `rl: gdpo` does not sum before it normalizes
AXO080 GRPO with Liger's loss does not take context parallelism
AXO081 `rl: ebft` requires an `ebft` section
AXO082 ReLoRA requires an adapter and `jagged_restart_steps`, and takes neither FSDP nor DeepSpeed
AXO083 either `datasets` or `pretraining_dataset` is required
LLF009 adapters are only valid with `finetuning_type: lora`
LLF010 a quantised model can only be tuned with LoRA or OFT
LLF011 PiSSA cannot start from a quantised model
LLF012 the embeddings of a quantised model cannot be resized
LLF013 no new adapter can be made upon a quantised model with an adapter
LLF014 a quantised model takes a single adapter: merge them first
LLF015 stage ppo needs a `reward_model`
LLF016 a lora reward model needs `finetuning_type: lora`
LLF017 label smoothing works with `pref_loss: sigmoid` alone
LLF018 LLaMA Pro needs freeze or LoRA tuning
LLF019 LoRA cannot be combined with GaLore, APOLLO or BAdam
LLF020 GaLore, APOLLO and BAdam exclude each other
LLF021 PiSSA cannot be used in a stage with a reference model
LLF022 `pissa_init` works with LoRA alone
LLF022 `use_dora` works with LoRA alone
LLF022 `use_rslora` works with LoRA alone
LLF023 `loraplus_lr_ratio` works with LoRA alone
LLF024 `val_size` needs a `dataset`
LLF025 `val_size` and `eval_dataset` exclude each other
LLF026 `max_samples` does not work with streaming
LLF027 `mask_history` and `train_on_prompt` exclude each other
LLF028 `image_max_pixels` is smaller than `image_min_pixels`
LLF029 `kt_cpu_activation` needs `use_kt: true`
LLF030 `mask_history` works in stage sft alone
LLF030 `neat_packing` works in stage sft alone
LLF030 `predict_with_generate` works in stage sft alone
LLF030 `train_on_prompt` works in stage sft alone
LLF031 stages rm and ppo cannot load the best model at the end
LLF032 stage ppo does not work with shift_attn
LLF033 streaming needs `max_steps`
LLF034 where FlashAttention 2 runs, neat_packing takes one sequence a batch (`per_device_train_batch_size: 1`)
LLF035 `group_by_length` does not work with streaming
LLF036 training needs a `dataset`
LLF037 evaluation needs `eval_dataset` or `val_size`
LLF038 `predict_with_generate` does not work under DeepSpeed ZeRO-3
LLF039 `compute_accuracy` and `predict_with_generate` exclude each other
LLF040 a quantised model with a device map cannot train
LLF041 `pissa_init` does not work under DeepSpeed ZeRO-3
LLF041 `pure_bf16` does not work under DeepSpeed ZeRO-3
LLF041 `use_kt` does not work under DeepSpeed ZeRO-3
LLF041 `use_unsloth` does not work under DeepSpeed ZeRO-3
LLF042 `apollo_layerwise` works on a single GPU alone
LLF042 `galore_layerwise` works on a single GPU alone
LLF043 on several GPUs BAdam needs `badam_mode: layer` and DeepSpeed ZeRO-3
LLF044 `use_apollo` does not work with DeepSpeed
LLF044 `use_galore` does not work with DeepSpeed
LLF045 KTransformers trains with LoRA or whole
LLF046 FP8 training does not work with quantisation
LLF047 vLLM and SGLang serve inference, they cannot train
LLF048 ZeRO-3 and FSDP do not work with 8-bit models, HQQ or EETQ
LLF049 ZeRO-3 and FSDP do not work with a checkpoint that is quantised already
LLF050 bitsandbytes quantises to 4 or 8 bits
LLF051 EETQ quantises to 8 bits
LLF052 `use_galore` takes only adamw_torch, adamw_bnb_8bit, adamw_8bit, paged_adamw_8bit, adafactor
LLF053 `use_apollo` takes only adamw_torch
LLF054 `apollo_layerwise` works without gradient accumulation alone
LLF054 `galore_layerwise` works without gradient accumulation alone
"""
REFUSALS = [tuple(line.split(" ", 1)) for line in ONCE.strip().splitlines()]
RULES = {rule.id: rule for rule in shipped()}
_FRAMEWORK = {"AXO": "axolotl", "LLF": "llamafactory"}


def written(message: Template) -> str:
    return "".join(part for part in message if isinstance(part, str))


@pytest.mark.parametrize(("name", "message"), REFUSALS)
def test_a_rule_says_what_cfg008_said(name: str, message: str) -> None:
    rule = RULES[name]
    said = f"{written(rule.body().message)} {rule.texts().when} {rule.at} {rule.texts().title}"
    keys = {key for key in re.findall(r"`(\w+)[:`]", message) if key not in said}

    assert rule.formats == (_FRAMEWORK[name[:3]],)
    assert "refuses this" in written(rule.body().message)
    assert keys == set()


# Rules that were never part of CFG008.
NEWER = {f"AXO{number:03}" for number in range(84, 104)}


def test_every_rule_of_axolotls_files_is_in_the_table() -> None:
    assert {name for name in RULES if name.startswith("AXO")} == {
        name for name, _ in REFUSALS if name.startswith("AXO")
    } | NEWER
