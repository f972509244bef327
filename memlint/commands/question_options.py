"""The options that ask about a run without a file, and their conversion to a question."""

from __future__ import annotations

import argparse
import os

from memlint.commands import options
from memlint.errors import UsageError
from memlint.lint.request import StatedFacts
from memlint.question.check import CHOICES, option, question_of
from memlint.question.model import Question
from memlint.question.models import is_known

AUTO = -1  # `--gpus auto`
WITH_FILES = ("model", "gpu", "gpus", "gpus_per_node")  # options that also make sense with files


def cards(text: str) -> int:
    """A number of cards, or `auto`; for argparse."""
    return AUTO if text == "auto" else options.positive(text)


# The names that other calculators, vLLM and the frameworks use for the same options.
OTHER_WORDS = {
    **dict.fromkeys(("--seq-len", "--seq-length", "--sequence-length", "--max-seq-length", "--cutoff-len"), "--length"),
    **dict.fromkeys(("--max-length", "--seqlen", "--tokens", "--sequence-len"), "--length"),
    **dict.fromkeys(("--batch-size", "--micro-batch-size", "--bs", "--per-device-train-batch-size"), "--batch"),
    **dict.fromkeys(("--gradient-accumulation-steps", "--grad-accum"), "--accumulation"),
    **dict.fromkeys(
        ("--quantization", "--quant", "--quantize", "--load-in-4bit", "--load-in-8bit"), "--bits 4 or --bits 8"
    ),
    **{f"--{name}": f"--method {name}" for name in CHOICES["method"]},
    **dict.fromkeys(("--flash-attn", "--flash-attention", "--fa2"), "--attention flash_attention_2"),
    **dict.fromkeys(("--optim", "--optimiser"), "--optimizer"),
    **dict.fromkeys(("--lora-rank", "--lora-r", "-r"), "--rank"),
    **dict.fromkeys(("--precision", "--torch-dtype"), "--dtype"),
    **dict.fromkeys(("--bf16", "--fp16", "--fp32"), "--dtype bf16, fp16 or fp32"),
    **dict.fromkeys(("--gradient-checkpointing", "--grad-ckpt"), "--checkpointing"),
    **dict.fromkeys(("--context-length", "--ctx", "--ctx-size", "--max-model-len"), "--context"),
    **dict.fromkeys(("--concurrency", "--users", "--max-num-seqs", "--concurrent-requests"), "--requests"),
    **dict.fromkeys(("--kv-cache-dtype", "--kv-bits", "--cache-type-k"), "--kv-dtype"),
    **dict.fromkeys(("--tensor-parallel-size", "--tp", "--num-gpus", "--n-gpus", "--num-processes"), "--gpus"),
    **dict.fromkeys(("--gpu-memory-utilization", "--mem-fraction-static"), "--memory-share"),
    **dict.fromkeys(("--infer", "--serve", "--serving", "--predict"), "--inference"),
}


def add_question(to: options.Parser) -> None:
    """Adds the options of a question; each sets the field of `Question` with its name."""
    to.other_words = OTHER_WORDS
    ask = to.add_argument_group("ask without a file", "with --model, or with dimensions typed by hand")
    for field, metavar, about in (
        ("method", "NAME", f"{_listed('method')} (default: lora)"),
        ("stage", "NAME", f"{_listed('stage')} (default: sft)"),
        ("optimizer", "NAME", "adamw_torch, adamw_8bit, adafactor, ...: `memlint optimizers` lists them"),
        ("dtype", "NAME", _listed("dtype")),
        ("attention", "NAME", _listed("attention")),
        ("offload", "WHAT", "what ZeRO or FSDP keeps in host memory: optimizer, all"),
        ("framework", "NAME", f"whose files it stands for: {_listed('framework')}"),
    ):
        ask.add_argument(option(field), metavar=metavar, help=about)
    for field, about in (
        ("length", "tokens of the longest sequence (default: 2048)"),
        ("batch", "sequences per GPU and forward (default: 1)"),
        ("accumulation", "micro batches of a step (default: 1)"),
        ("rank", "rank of the adapters (default: 8)"),
        ("bits", "quantise the frozen weights to 4 or 8 bits"),
        ("zero", "stage of DeepSpeed ZeRO: 1, 2 or 3"),
    ):
        ask.add_argument(option(field), type=options.whole, metavar="N", help=about)
    ask.add_argument(
        "--fsdp", type=options.whole, nargs="?", const=2, metavar="VERSION", help="FSDP 1 or 2 (default: 2)"
    )
    for field, about in (
        ("checkpointing", "activation checkpointing (default: on)"),
        ("liger", "Liger's kernels with its fused loss"),
        ("packing", "pack samples to full length"),
    ):
        ask.add_argument(option(field), action=argparse.BooleanOptionalAction, default=None, help=about)
    ask.add_argument("--write-config", metavar="PLACE", help="write the files to a folder, or the config as PLACE.yaml")
    ask.add_argument(
        "--math", action="store_true", help="each component as a formula (of files: memlint explain --math)"
    )
    _add_dimensions(to)
    _add_inference(to)


def _listed(field: str) -> str:
    return ", ".join(CHOICES[field])


def _add_dimensions(to: argparse.ArgumentParser) -> None:
    group = to.add_argument_group("dimensions typed by hand", "a model of its own, or with --model that one changed")
    for field, about in (
        ("layers", "decoder layers"),
        ("hidden", "hidden size"),
        ("heads", "attention heads"),
        ("kv_heads", "heads of keys and values"),
        ("head_dim", "size of a head, where it is not hidden / heads"),
        ("vocab", "words of the vocabulary"),
        ("ffn", "inner size of the MLP"),
    ):
        group.add_argument(option(field), type=options.positive, metavar="N", help=about)
    group.add_argument(
        "--tied", action=argparse.BooleanOptionalAction, default=None, help="the head shares the embedding's tensor"
    )


def _add_inference(to: argparse.ArgumentParser) -> None:
    group = to.add_argument_group("a model that answers requests")
    group.add_argument("--inference", action="store_true", help="nothing trains: weights, KV cache, what is left")
    for field, about in (
        ("context", "tokens of a request, prompt and answer (default: 4096)"),
        ("new_tokens", "of these, the answer's"),
        ("requests", "answered at once (default: 1)"),
    ):
        group.add_argument(option(field), type=options.positive, metavar="N", help=about)
    group.add_argument("--engine", metavar="NAME", help=f"what answers: {_listed('engine')}")
    group.add_argument("--kv-dtype", metavar="NAME", help="of the KV cache: auto, fp8 (vLLM)")
    group.add_argument(
        "--memory-share", type=options.share, metavar="X", help="of the card, that vLLM or SGLang fills: 0.9"
    )


def asked(given: options.Options) -> Question | None:
    """The question that the options ask; None if files are named or there is no question. Raises UsageError."""
    for name in ("model", "gpu"):
        if getattr(given, name) is not None and not getattr(given, name).strip():
            raise UsageError(f"--{name}: the name is empty")
    values = {field: getattr(given, field, None) for field in Question._fields}
    values = {field: value for field, value in values.items() if value is not None and value is not False} | _flags(
        given
    )
    own = [field for field in values if field not in WITH_FILES]
    if given.paths:
        _refuse_name_as_path(given)
        if own:
            raise UsageError(
                f"{option(own[0])} asks about a run without a file; a file's values change with --set KEY=VALUE"
            )
        if given.math:
            raise UsageError("--math of files: memlint explain --math FILE")
        if given.write_config:
            raise UsageError("--write-config writes the files of a question, and none was asked: leave the paths out")
        return None
    if not own and not given.model:
        if given.write_config:
            raise UsageError("--write-config: ask a question first: --model llama-3-8b --method lora")
        return None
    if values.get("gpus") == AUTO:
        del values["gpus"]
    _refuse_options_of_files(given)
    return question_of(values)


def _refuse_name_as_path(given: options.Options) -> None:
    """Raises UsageError for a model's name in the place of a path."""
    for path in given.paths:
        if path != "-" and not os.path.exists(path) and is_known(path):
            raise UsageError(f"{path}: no such file or folder; of the model ask with --model {path}")


def _refuse_options_of_files(given: options.Options) -> None:
    """Raises UsageError for options about files, which have no meaning for a question."""
    of_files = (
        *(("--with", given.companions), ("--exclude", given.exclude), ("--list-files", given.list_files)),
        *(("--stdin-filename", given.stdin_filename), ("--force-exclude", given.force_exclude), ("--jobs", given.jobs)),
    )
    for name, value in of_files:
        if value:
            raise UsageError(f"{name} is about files, and a question without a file was asked")


def _flags(given: options.Options) -> dict[str, bool]:
    """The options that were switched off: `--no-checkpointing`."""
    names = ("checkpointing", "liger", "packing", "tied")
    return {name: False for name in names if getattr(given, name, None) is False}


def facts_of(given: options.Options) -> StatedFacts:
    """The facts for answering a question besides its own fields: releases, use of the hub, a named settings file."""
    return StatedFacts(
        hub=given.hub,
        settings_file=given.settings,
        isolated=given.settings is None,
        exact=given.exact,
        versions=options.versions(given.versions),
        images=given.images,
        longest_sample=given.longest_sample,
    )
