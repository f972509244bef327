"""The rules by which a model name is compared with the catalog. Nothing here is fuzzy: equal keys or no match.

A name becomes a key by dropping what does not change a model's shape: the owner, case, separators and
suffixes such as "-Instruct" or "-GPTQ-Int4". A suffix that says how weights are stored is returned with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.architectures.model import StoredWeights

_BNB4 = StoredWeights("bnb", 4, "nf4", 64, True)
_BNB8 = StoredWeights("bnb", 8, "int8")

# Suffix -> how such a checkpoint stores its weights. Longest first.
QUANTIZED: tuple[tuple[str, StoredWeights], ...] = (
    ("-unsloth-bnb-4bit", _BNB4),
    ("-bnb-nf4-bf16", _BNB4),
    ("-bnb-nf4", _BNB4),
    ("-bnb-4bit", _BNB4),
    ("-bnb-8bit", _BNB8),
    ("-gptq-int4", StoredWeights("gptq", 4, "int4", 128)),
    ("-gptq-int8", StoredWeights("gptq", 8, "int8", 128)),
    ("-gptq-4bit", StoredWeights("gptq", 4, "int4", 128)),
    ("-gptq-8bit", StoredWeights("gptq", 8, "int8", 128)),
    ("-gptq", StoredWeights("gptq", 4, "int4", 128)),
    ("-awq-int4", StoredWeights("awq", 4, "int4", 128)),
    ("-int4-awq", StoredWeights("awq", 4, "int4", 128)),
    ("-awq-4bit", StoredWeights("awq", 4, "int4", 128)),
    ("-awq", StoredWeights("awq", 4, "int4", 128)),
    ("-aqlm-2bit-1x16", StoredWeights("aqlm", 2, "1x16", 8)),
    ("-aqlm-2bit-2x8", StoredWeights("aqlm", 2, "2x8", 8)),
    ("-aqlm-2bit", StoredWeights("aqlm", 2, "", 8)),
    ("-hqq-4bit", StoredWeights("hqq", 4, "int4", 64)),
    ("-fp8-dynamic", StoredWeights("fp8", 8, "float8_e4m3")),
    ("-fp8", StoredWeights("fp8", 8, "float8_e4m3")),
    ("-nvfp4", StoredWeights("nvfp4", 4.5, "e2m1", 16)),
    ("-mxfp4", StoredWeights("mxfp4", 4.25, "e2m1", 32)),
    ("-int4", StoredWeights("gptq", 4, "int4", 128)),
    ("-int8", StoredWeights("gptq", 8, "int8", 128)),
    ("-4bit", _BNB4),
    ("-8bit", _BNB8),
)
# Suffixes that say which data a model saw, or how its file is stored, never how large it is.
# A string, compiled on first use: compiling costs a millisecond, and names in the catalog do not need it.
_SUFFIX = (
    r"[-_.](?:instruct|chat|base|it|hf|sft|dpo|orpo|kto|rlhf|rl|grpo|rm|reward|thinking|reasoning|pt|lora|qlora|full|"
    r"merged|bf16|fp16|bfloat16|float16|dequantized|linearized|finetuned?|finetune|lora-finetune|alignment|python|ms|"
    r"preview|pro-preview|deduped|v0|\d{8}|2[3-6](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])-20\d\d|(?:0[1-9]|1[0-2])2[3-6])$"
)
_WHOLE = r"[-_.](?:bf16|fp16|bfloat16|float16|dequantized)$"  # a dequantised copy of a quantised checkpoint
_PREFIX = re.compile(r"^(?:meta|nvidia|mistralai|qwen_|models?)[-_](?=[a-z])")
_COUNTED_FOLDERS = frozenset(("checkpoint", "step", "epoch", "global_step", "iter", "ckpt", "snapshot"))
_FOLDERS = frozenset(
    ("original", "final", "full", "sft", "lora", "dpo", "kto", "ppo", "pretrain", "merged", "output", "outputs", "hf")
    + ("save", "saves", "model", "models", "checkpoint", "checkpoints", "latest", "main", "snapshots", "data", "tmp")
    + ("home", "mnt", "root", "workspace", "llm", "weights", "reward", "train")
)
TUNED = "taken for a model tuned from it"
_SIZE = r"(?<![a-z0-9.])(?:\d+x)?\d+(?:\.\d+)?[bm](?![a-z0-9])"
_SIZE_LAST = re.compile(rf"([a-z]+)[-_](v\d(?:[-_.]\d)?)[-_]({_SIZE})")  # LLaVA's folder for vicuna-7b-v1.3
# Names that say a family and a size but not which generation: "OpenR1-Qwen-7B" is tuned from a Qwen2.5.
_NO_GENERATION = frozenset({"qwen", "internlm", "phi", "glm", "granite", "deepseek", "olmo", "exaone", "falcon3"})


# Words that mean another shape than that of the model whose name comes before them.
_RESHAPING = frozenset(
    {"pro", "expanded", "vision", "vl", "llava", "omni", "audio", "moe", "pruned", "width", "depth", "upscaled"}
    | {"deep", "embedding", "embeddings", "draft", "mini", "nano", "tiny", "small", "medium", "large", "flash", "lite"}
    | {"math", "coder", "code", "multimodal", "merge", "frankenmoe", "x2", "x4", "minitron", "distill", "eagle", "mtp"}
    | {"sheared", "slim", "reranker", "prm", "mod"}
)
_OTHER_DEPTH = re.compile(r"l\d{1,3}|\d{1,3}l(?:ayers?)?")  # "Qwen2.5-7B-L36" has 36 layers


# Prefixes of words for models of which a language model is only a part, or without attention.
_OTHER_KINDS = ("internvl", "blip", "instructblip", "minigpt", "llava", "vila", "cogvlm", "openvla", "mamba", "video")


class Spelling(NamedTuple):
    """One reading of a name: the key to look up, how weights are stored, and which rule led there."""

    key: str
    stored: StoredWeights | None
    rule: str
    sizes: frozenset[str] | None = None  # where set, the id found must state these very sizes


def components(name: str) -> list[str]:
    """The parts of a path that may name a model, the last first: folders such as "checkpoint-500" are not. A size with
    a folder of its own belongs to the name before it: "llama2/7B-hf"."""
    parts = [part for part in re.split(r"[/\\]+", name[:1000].strip()) if part not in ("", ".", "..", "~")]
    named = [part for part in reversed(parts) if not _is_plain_folder(part.lower())]
    if len(named) > 1 and re.match(_SIZE, named[0].lower()):
        named[:1] = [f"{re.sub(_SUFFIX, '', named[1].lower())}-{named[0]}"]
    return [part.split("--")[-1] if part.startswith("models--") else part for part in named][:6]


def _is_plain_folder(part: str) -> bool:
    """Whether a folder's name (in lower case) names no model: "checkpoint-500", "output"."""
    bare = part.rstrip("0123456789")
    if bare.endswith(("-", "_")):
        bare = bare[:-1]
    return bare in _COUNTED_FOLDERS or part in _FOLDERS or part.startswith("train_")


def literal(name: str) -> str:
    """`name` (without owner) in lower case without separators, and without a leading "Meta-"."""
    return re.sub(r"[^a-z0-9+]", "", _PREFIX.sub("", name.lower().strip()))


def key(name: str) -> str:
    """The literal key of `name` without the suffixes that do not change a model's shape."""
    text = name.lower().strip()
    while True:
        shorter = re.sub(_SUFFIX, "", text)
        if shorter == text or not shorter:
            return literal(text)
        text = shorter


def unquantized(name: str) -> tuple[str, StoredWeights] | None:
    """`name` without its quantisation suffix and what the suffix says; None where it has none. "-128g" or "-g128"
    behind it is the size of GPTQ's groups."""
    lowered = name.lower().replace("_", "-")
    group = re.search(r"-(?:(\d{1,4})g|g(\d{2,4}))$", lowered)
    if group:
        found = unquantized(name[: group.start()])
        size = int(group[1] or group[2])  # "--1g" is AutoGPTQ's -1: one scale a column
        return found and (found[0].rstrip("-"), found[1]._replace(group_size=size if size > 1 else 0))
    odd = re.search(r"-(gptq|awq)-([235-7])bit$", lowered)
    if odd:
        return name[: odd.start()], StoredWeights(odd[1], int(odd[2]), f"int{odd[2]}", 128)
    for suffix, stored in QUANTIZED:
        if lowered.endswith(suffix):
            return name[: -len(suffix)], stored
    return None


def spellings(part: str) -> Iterator[Spelling]:
    """The readings of one path component, the most literal first, computed lazily."""
    return (spelling for spelling in _spellings(part) if len(spelling.key) >= 3)


def _spellings(part: str) -> Iterator[Spelling]:
    yield Spelling(literal(part), None, "the same name")
    stored = StoredWeights() if re.search(_WHOLE, part.lower()) else None
    yield Spelling(key(part), stored, "suffixes left out")
    moved = _SIZE_LAST.fullmatch(part.lower())
    if moved:
        yield Spelling(literal(f"{moved[1]}-{moved[3]}-{moved[2]}"), None, "the same name, its size before its version")
    bare = unquantized(part)
    if bare:
        rule = f"quantised variant ({bare[1].method}, {bare[1].bits:g} bits)"
        yield Spelling(literal(bare[0]), bare[1], rule)
        yield Spelling(key(bare[0]), bare[1], rule)
    for start in _beginnings(part):
        yield Spelling(literal(start), None, TUNED)
    for words in _named_bases(part):
        yield Spelling(literal(words), None, TUNED, sizes(words))


def _has_no_generation(start: str) -> bool:
    """Whether words before others name a family and a size alone: "Qwen7B-math" is tuned from any Qwen of that size."""
    return re.sub(rf"[-_ ]|{_SIZE}|\d+b$", "", start.lower()) in _NO_GENERATION


# The words that may end a listed name after its size: the chat model can have fewer positions than its base.
_CHAT_SUFFIXES = frozenset({"instruct", "chat", "it"})


def _beginnings(part: str) -> list[str]:
    """`part` without its last words, longest first; empty where such a word changes the shape or alone states a size:
    "DeepSeek-R1-Zero-7B" is no DeepSeek-R1."""
    words = re.split(r"([-_])", part)
    found = []
    states_size = bool(sizes(part))
    while len(words) > 2:
        last = words[-1].lower()
        if last in _RESHAPING or not last or _OTHER_DEPTH.fullmatch(last):
            break
        words = words[:-2]
        start = "".join(words)
        if (states_size and not sizes(start)) or _has_no_generation(start):
            break
        if words[-1].lower() in _CHAT_SUFFIXES or any(character.isdigit() for character in words[-1]):
            found.append(start)
    return found


def sizes(text: str) -> frozenset[str]:
    """The sizes that a name states, in lower case: {"7b"}, {"8x7b"}."""
    return frozenset(size.lower() for size in re.findall(_SIZE, text.replace("_", "-"), re.IGNORECASE))


def _named_bases(part: str) -> Iterator[str]:
    """Runs of words inside `part` that end with a size and may name the model that it was tuned from.

    "Hermes-2-Pro-Mistral-7B" names Mistral-7B; "Llama-3-Groq-8B" names Llama-3-8B with words between. Nothing
    where a word outside the run changes the shape.
    """
    words = re.split(r"[-_ ]", part)[:16]
    for at, word in enumerate(words):
        if at and re.fullmatch(_SIZE, word, re.IGNORECASE):
            yield from _runs_before(words, at)


def _runs_before(words: list[str], size: int) -> Iterator[str]:
    for start in range(size):
        if start and _unshaped(words[:start] + words[size + 1 :]) and _is_family(words[start:size]):
            yield "-".join(words[start : size + 1])
    for end in range(min(3, size - 1), 0, -1):
        if words[end][:1].isdigit():
            continue  # "v1", "5" is version 1.5
        if _unshaped(words[end:size] + words[size + 1 :]) and any(map(str.isdigit, "".join(words[:end]))):
            yield "-".join((*words[:end], words[size]))


def _unshaped(words: list[str]) -> bool:
    lowered = [word.lower() for word in words]
    return not any(word in _RESHAPING or word.startswith(_OTHER_KINDS) for word in lowered)


def _is_family(words: list[str]) -> bool:
    return words[0][:1].isalpha() and not (len(words) == 1 and words[0].lower() in _NO_GENERATION)
