"""A question about a run that no file describes. Every field but the model may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple  # _record's has at most 35 fields; no start imports this module


class Question(NamedTuple):
    """A training run, or with `inference` a model that answers requests. None and "": not stated, a default is taken.

    `question_of` makes one from plain values and checks them; its errors name the field.
    """

    model: str = ""  # a repository id, a short name (llama-3-8b), a folder with a config.json, or that file
    framework: str = ""  # llamafactory, trl: the framework whose files are written
    # Training.
    method: str = ""  # full, lora, qlora, dora, freeze
    stage: str = ""  # sft, pt, rm, dpo, kto, orpo, simpo
    length: int | None = None  # tokens of the longest sequence
    batch: int | None = None  # sequences per GPU and forward
    accumulation: int | None = None  # micro batches of a step
    optimizer: str = ""
    rank: int | None = None  # of the adapters
    dtype: str = ""  # bf16, fp16, fp32, pure_bf16; of inference: bf16, fp16, fp32
    bits: int | None = None  # of quantised frozen weights: 4 or 8
    attention: str = ""  # sdpa, eager, flash_attention_2, flash_attention_3
    checkpointing: bool | None = None  # activation checkpointing
    liger: bool | None = None  # Liger's kernels, with its fused loss
    packing: bool | None = None
    zero: int | None = None  # stage of DeepSpeed ZeRO: 0 to 3
    fsdp: int | None = None  # version of FSDP: 1 or 2
    offload: str = ""  # optimizer, all: what ZeRO or FSDP keeps in host memory
    # The card.
    gpu: str = ""
    gpus: int | None = None
    gpus_per_node: int | None = None
    # Dimensions typed by hand, instead of those of the model or as a model of their own.
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    ffn: int | None = None
    tied: bool | None = None  # the head shares the embedding's tensor
    # Inference.
    inference: bool = False
    context: int | None = None  # tokens of a request, prompt and answer together
    new_tokens: int | None = None  # tokens of the answer among them
    requests: int | None = None  # requests answered at once
    engine: str = ""  # transformers, vllm, sglang
    kv_dtype: str = ""  # of the KV cache: auto, fp8
    memory_share: float | None = None  # share of the card that vLLM or SGLang fills


class Default(NamedTuple):
    """A value that the question does not state. `why`: where the default comes from."""

    field: str
    value: object
    why: str


class QuestionFiles(NamedTuple):
    """The files that describe the run of a question. `main`: the path of the config among `contents` (path -> text).

    `taken`: the defaults that were used. `start`: the command that would start the run in the folder of these files.
    """

    main: str
    contents: Mapping[str, str]
    taken: tuple[Default, ...] = ()
    start: str = ""
