"""A question as LLaMA-Factory's YAML (0.9.5), for `llamafactory-cli train` and `llamafactory-cli chat`."""

from __future__ import annotations

import json
from typing import Any

from memlint.errors import UsageError
from memlint.question.model import Question
from memlint.question.optimizers import optimizer_keys
from memlint.question.sharding import deepspeed_name

ATTENTION = {"eager": "disabled", "sdpa": "sdpa", "flash_attention_2": "fa2", "flash_attention_3": "fa3"}
PREFERENCES = ("orpo", "simpo")  # losses of stage dpo
SERVERS = {"vllm": ("vllm_maxlen", "vllm_gpu_util"), "sglang": ("sglang_maxlen", "sglang_mem_fraction")}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def training_keys(question: Question, model: str) -> dict[str, Any]:
    """The keys of a training run; the question has its defaults. Raises UsageError."""
    found: dict[str, Any] = {"model_name_or_path": model}
    if question.bits:
        found["quantization_bit"] = question.bits
    if question.attention:
        found["flash_attn"] = ATTENTION[question.attention]
    found |= _method(question)
    found |= {"dataset": _dataset(question), "template": "default", "cutoff_len": question.length}
    if question.packing is not None:
        found["packing"] = question.packing
    found |= {"output_dir": "saves/run", "per_device_train_batch_size": question.batch}
    found["gradient_accumulation_steps"] = question.accumulation
    found |= _precision(question) | optimizer_keys(question)
    if question.checkpointing is False:
        found["disable_gradient_checkpointing"] = True
    if question.liger is not None:
        found["enable_liger_kernel"] = question.liger
    if deepspeed_name(question):
        found["deepspeed"] = deepspeed_name(question)
    return found


def _method(question: Question) -> dict[str, Any]:
    found: dict[str, Any] = {"stage": "dpo" if question.stage in PREFERENCES else question.stage, "do_train": True}
    if question.stage in PREFERENCES:
        found["pref_loss"] = question.stage
    kind = "lora" if question.method in ("qlora", "dora") else question.method
    found["finetuning_type"] = kind
    if kind == "lora":
        found |= {"lora_target": "all", "lora_rank": question.rank}
    if question.method == "dora":
        found["use_dora"] = True
    return found


def _dataset(question: Question) -> str:
    """A data set that LLaMA-Factory ships for this stage."""
    if question.stage in ("dpo", "rm", *PREFERENCES):
        return "dpo_en_demo"
    return {"kto": "kto_en_demo", "pt": "c4_demo"}.get(question.stage, "alpaca_en_demo")


def _precision(question: Question) -> dict[str, Any]:
    if question.dtype == "pure_bf16":
        return {"pure_bf16": True}
    return {question.dtype: True} if question.dtype != "fp32" else {"bf16": False, "fp16": False}


def inference_keys(question: Question, model: str) -> dict[str, Any]:
    """The keys of a model that answers requests: one after the other, a batch, or under a server."""
    context, new = question.context or 0, question.new_tokens or 0
    found: dict[str, Any] = {"model_name_or_path": model, "template": "default"}
    if question.bits:
        found["quantization_bit"] = question.bits
    if question.attention:
        found["flash_attn"] = ATTENTION[question.attention]
    if question.engine in SERVERS:
        longest, share = SERVERS[question.engine]
        found |= {"infer_backend": question.engine, longest: context, share: question.memory_share}
        found["infer_dtype"] = DTYPES.get(question.dtype, "auto")
        if question.kv_dtype == "fp8":
            found["vllm_config"] = json.dumps({"kv_cache_dtype": "fp8"})
        return {**found, "max_new_tokens": new}
    found |= {"cutoff_len": context - new, "max_new_tokens": new}
    if question.bits and (question.gpus or 1) > 1:
        if question.bits == 8:
            raise UsageError("--bits 8 on several cards: LLaMA-Factory puts 8-bit weights on one; take --bits 4")
        found["quantization_device_map"] = "auto"
    if question.requests == 1:
        return {**found, "infer_backend": "huggingface"}
    if (question.gpus or 1) > 1:
        raise UsageError("several requests at once on several cards: transformers has no way to; take --engine vllm")
    found |= {"stage": "sft", "do_predict": True, "predict_with_generate": True, "eval_dataset": "alpaca_en_demo"}
    return {**found, "output_dir": "saves/run", "per_device_eval_batch_size": question.requests}
