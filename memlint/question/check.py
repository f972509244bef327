"""Makes a checked `Question` from plain values. Errors name the field as its option, and what was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.hardware.named import named_gpu
from memlint.question.model import Question
from memlint.question.optimizers import optimizer_name
from memlint.run import SERVERS

CHOICES: Mapping[str, tuple[str, ...]] = {
    "framework": ("llamafactory", "trl"),
    "method": ("full", "lora", "qlora", "dora", "freeze"),
    "stage": ("sft", "pt", "rm", "dpo", "kto", "orpo", "simpo"),
    "dtype": ("bf16", "fp16", "fp32", "pure_bf16"),
    "attention": ("sdpa", "eager", "flash_attention_2", "flash_attention_3"),
    "offload": ("optimizer", "all"),
    "engine": ("transformers", "vllm", "sglang"),
    "kv_dtype": ("auto", "fp8"),
}
# Other words for the same thing.
SAME: Mapping[str, Mapping[str, str]] = {
    "framework": {"llama-factory": "llamafactory", "llama_factory": "llamafactory", "lf": "llamafactory"},
    "method": {"full_finetune": "full", "full-finetune": "full", "fft": "full", "sft": "full"},
    "dtype": {
        "bfloat16": "bf16",
        "float16": "fp16",
        "half": "fp16",
        "float32": "fp32",
        "float": "fp32",
        "pure-bf16": "pure_bf16",
    },
    "attention": {"fa2": "flash_attention_2", "flash": "flash_attention_2", "fa3": "flash_attention_3"},
    "engine": {"hf": "transformers", "huggingface": "transformers"},
    "kv_dtype": {"fp8_e4m3": "fp8", "fp8_e5m2": "fp8"},
    "offload": {"cpu": "all", "params": "all", "parameters": "all"},
}
NUMBERS: Mapping[str, tuple[int, ...]] = {"bits": (4, 8), "zero": (0, 1, 2, 3), "fsdp": (1, 2)}
TRAINING_ONLY = (
    *("method", "stage", "length", "batch", "accumulation", "optimizer", "rank", "checkpointing", "liger"),
    *("packing", "zero", "fsdp", "offload"),
)
INFERENCE_ONLY = ("context", "new_tokens", "requests", "engine", "kv_dtype", "memory_share")
DIMENSIONS = ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "ffn")
MOST = 1 << 31  # no count, length or width is larger


def question_of(values: Mapping[str, object]) -> Question:
    """The question with these values, by field name ("kv_heads" or "kv-heads"). Raises UsageError."""
    named = {field.replace("-", "_"): value for field, value in values.items()}
    for field in named:
        if field not in Question._fields:
            raise UsageError(f"{option(field)}: no question has it{_hint(field, Question._fields, option)}")
    question = Question(**{field: _checked(field, value) for field, value in named.items() if value is not None})
    _refuse_contradictions(question)
    return question


def option(field: str) -> str:
    """The command line option of a field."""
    return "--" + field.replace("_", "-")


def _checked(field: str, value: object) -> Any:
    default = Question._field_defaults[field]
    check: Callable[[str, object], object] = _name_or_choice
    if field in ("inference", "checkpointing", "liger", "packing", "tied"):
        check = _flag
    elif field == "memory_share":
        check = _share
    elif default is None:
        check = _whole
    return check(field, value)


def _name_or_choice(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{option(field)} {value!r}: wants a name")
    if field == "gpu":
        named_gpu(value)
    if field == "optimizer":
        return optimizer_name(value)
    if field not in CHOICES or not value:
        return value.strip()
    word = SAME.get(field, {}).get(value.lower(), value.lower())
    if word not in CHOICES[field]:
        meant = next((f"; did you mean {option(other)} {word}?" for other in CHOICES if word in CHOICES[other]), "")
        raise UsageError(f"{option(field)} {value}: not known{meant or _hint(word, CHOICES[field])}")
    return word


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{option(field)} {value!r}: wants true or false")
    return value


def _share(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise UsageError(f"{option(field)} {value!r}: wants a share of the card between 0 and 1: 0.9")
    return float(value)


def _whole(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{option(field)} {value!r}: wants a whole number")
    if field in NUMBERS and value not in NUMBERS[field]:
        raise UsageError(f"{option(field)} {value}: one of {', '.join(map(str, NUMBERS[field]))}")
    if not (1 if field not in NUMBERS else 0) <= value < MOST:
        raise UsageError(f"{option(field)} {value}: wants a whole number from 1 to {MOST - 1}")
    return value


def _hint(word: str, known: tuple[str, ...], shown: Callable[[str], str] = str) -> str:
    near = nearest(word, known)
    return f"; did you mean {shown(near)}?" if near else f": one of {', '.join(map(shown, known))}"


def _refuse_contradictions(question: Question) -> None:
    """Raises UsageError for values that contradict each other."""
    dimensions = [field for field in DIMENSIONS if getattr(question, field) is not None]
    if not question.model and not dimensions:
        raise UsageError(
            "no model: name one (--model llama-3-8b), or type its dimensions (--layers 32 --hidden 4096 ...)"
        )
    other = TRAINING_ONLY if question.inference else INFERENCE_ONLY
    for field in other:
        if getattr(question, field) not in (None, ""):
            where = "training" if question.inference else "inference (add --inference)"
            raise UsageError(f"{option(field)} is about {where}")
    if question.zero is not None and question.fsdp is not None:
        raise UsageError("--zero and --fsdp: a run is sharded by one of them")
    if question.offload and question.zero in (None, 0) and question.fsdp is None:
        raise UsageError("--offload needs --zero 2, --zero 3 or --fsdp: what moves to host memory is theirs")
    if question.offload == "optimizer" and question.fsdp is not None:
        raise UsageError("--offload optimizer with --fsdp: FSDP moves everything or nothing; take --offload all")
    if question.offload == "all" and question.zero in (1, 2):
        raise UsageError(
            f"--offload all with --zero {question.zero}: only ZeRO-3 moves parameters; take --offload optimizer"
        )
    if question.bits and question.method in ("full", "freeze"):
        raise UsageError(
            f"--bits {question.bits} with --method {question.method}: quantised weights do not train; take lora"
        )
    if question.rank and question.method in ("full", "freeze"):
        raise UsageError(f"--rank {question.rank} with --method {question.method}: it trains no adapters; take lora")
    if question.inference and question.dtype == "pure_bf16":
        raise UsageError("--dtype pure_bf16 is about training; take bf16")
    if question.attention and question.engine in SERVERS:
        raise UsageError(f"--attention with --engine {question.engine}: the server chooses its own kernels")
    if question.memory_share is not None and question.engine == "transformers":
        raise UsageError("--memory-share with --engine transformers: it takes what it needs; take vllm or sglang")
    _refuse_counts(question)
    if question.new_tokens and question.context and question.new_tokens >= question.context:
        raise UsageError("--new-tokens is part of --context and must be smaller")
    if question.bits and question.engine in SERVERS:
        raise UsageError(
            f"--bits with --engine {question.engine}: it does not quantise with bitsandbytes; "
            "name a GPTQ, AWQ or FP8 checkpoint as the model"
        )
    if question.kv_dtype == "fp8" and question.engine in ("transformers", "sglang"):
        raise UsageError(f"--kv-dtype fp8 with --engine {question.engine}: LLaMA-Factory hands it to vLLM alone")


def _refuse_counts(question: Question) -> None:
    """Raises UsageError for numbers of GPUs that contradict each other."""
    gpus, each = question.gpus, question.gpus_per_node
    if gpus and each and gpus % each:
        raise UsageError(f"--gpus {gpus} with --gpus-per-node {each}: --gpus counts those of all machines")
    _, named = named_gpu(question.gpu)
    if gpus and named and named > 1 and gpus % named:
        raise UsageError(f"--gpu {question.gpu} with --gpus {gpus}: the name says {named}; --gpus counts all machines")
