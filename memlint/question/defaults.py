"""The defaults for the fields that a question leaves out, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from memlint.formats.llamafactory.families import AUTO_IS_FLASH_2_OR_EAGER
from memlint.hardware.named import named_gpu
from memlint.question.model import Default, Question
from memlint.question.models import ModelChoice

LENGTH = {"llamafactory": (2048, "LLaMA-Factory's `cutoff_len`"), "trl": (1024, "TRL's `max_length`")}
RANK = {"llamafactory": (8, "LLaMA-Factory's `lora_rank`"), "trl": (16, "TRL's `lora_r`")}
ADAPTERS = ("lora", "qlora", "dora")
WHOLE_MODEL = (
    "galore",
    "apollo",
    "badam",
    "adam_mini",
    "muon",
    "lomo",
    "adalomo",
)  # with none of them do adapters train
MOST_NEW_TOKENS = 256
_TURNED = ("fp8", "mxfp4")  # LLaMA-Factory 0.9.5 model/model_utils/quantization.py:101


_ANY_MODEL = ModelChoice("")


def with_defaults(question: Question, model: ModelChoice = _ANY_MODEL) -> tuple[Question, tuple[Default, ...]]:
    """The question with a value for each field that its files need, and the defaults that were taken."""
    taken: list[Default] = []
    for rules in (
        _general,
        partial(_inference if question.inference else _training, model),
        partial(_of_family, model.family),
    ):
        open_ = (one for one in reversed(tuple(rules(question))) if getattr(question, one.field) in (None, ""))
        found = tuple(reversed({one.field: one for one in open_}.values()))  # the first default of each field
        values: dict[str, Any] = {one.field: one.value for one in found}
        question = question._replace(**values)
        taken += found
    shown = (one for one in taken if not (one.field == "framework" and question.inference))
    return question, tuple(shown)


def _general(question: Question) -> Iterator[Default]:
    gpu, count = named_gpu(question.gpu)
    yield Default("framework", "llamafactory", "its files can say every option here")
    if count:
        yield Default("gpus", count, f"a {question.gpu} has them")
    if question.gpus_per_node:
        yield Default("gpus", question.gpus_per_node, "one machine")
    yield Default("gpus", 1, "one card")
    if question.inference:
        return
    if gpu is not None and not gpu.bf16:
        yield Default("dtype", "fp16", f"{gpu.name} has no bf16")
    yield Default("dtype", "bf16", "mixed precision: what trains is kept in fp32")


def _training(model: ModelChoice, question: Question) -> Iterator[Default]:
    if question.optimizer in WHOLE_MODEL:
        yield Default("method", "full", f"{question.optimizer} is for training every weight")
    yield Default("method", "lora", "LLaMA-Factory's `finetuning_type`")
    yield Default("stage", "sft", "supervised fine-tuning")
    length, why = LENGTH[question.framework]
    if 0 < model.positions < length:
        length, why = model.positions, "the positions that the model has"
    yield Default("length", length, why)
    yield Default("batch", 1, "the smallest")
    yield Default("accumulation", 1, "both frameworks' default")
    yield Default("optimizer", "adamw_torch", "AdamW in PyTorch")
    if (question.method or "lora") in ADAPTERS:
        yield Default("rank", *RANK[question.framework])
    yield Default("checkpointing", True, "both frameworks' default")
    if question.method == "qlora":
        yield Default("bits", 4, "QLoRA's NF4")


def _inference(model: ModelChoice, question: Question) -> Iterator[Default]:
    several = (question.requests or 1) > 1 and (question.gpus or 1) > 1
    if question.kv_dtype == "fp8":
        yield Default("engine", "vllm", "an fp8 cache is vLLM's")
    if several and not question.bits:
        yield Default("engine", "vllm", "it answers several requests on several cards")
    if question.memory_share is not None:
        yield Default("engine", "vllm", "a share of the card is what a server fills")
    loads = (
        f"; it turns the {model.stored} weights into bf16, vllm and sglang do not" if model.stored in _TURNED else ""
    )
    yield Default("engine", "transformers", f"LLaMA-Factory's `infer_backend`{loads}")
    longest, why = 4096, "4,096 tokens of prompt and answer"
    if 0 < model.positions < longest:
        longest, why = model.positions, "the positions that the model has"
    yield Default("context", longest, why)
    context = question.context or longest
    yield Default("new_tokens", max(1, min(MOST_NEW_TOKENS, context // 4)), "the part of the context that is generated")
    yield Default("requests", 1, "one at a time")
    if question.engine in ("vllm", "sglang") or question.kv_dtype == "fp8" or several:
        yield Default("memory_share", 0.9, "of the card, for weights and KV cache")


def _of_family(family: str, question: Question) -> Iterator[Default]:
    """Attention, where LLaMA-Factory's own choice depends on what is installed (model_utils/attention.py:46)."""
    if (
        family in AUTO_IS_FLASH_2_OR_EAGER
        and question.framework == "llamafactory"
        and question.engine in ("", "transformers")
    ):
        yield Default("attention", "eager", f"what LLaMA-Factory takes for {family} where flash-attn is not installed")
