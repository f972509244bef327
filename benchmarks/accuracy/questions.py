"""Sixty one-line questions of public calculators: what memlint answers, what they say, and where the difference lies.

    python benchmarks/accuracy/questions.py             beside the figures that were simulated
    python benchmarks/accuracy/questions.py --summary   the last table alone
    python benchmarks/accuracy/questions.py --simulate  simulates all of them again (the `exact` extra, DeepSpeed)

Each question is one that a calculator's page or README asks or that its form can be filled with; `SAYS` holds its
formula with the source, so that its figure is computed here and not copied. Beside it stands what memlint's estimate
has and the formula leaves out. The referee is one real training step, or a prefill and a decode, on fake tensors; under
ZeRO by DeepSpeed's own engine (`benchmarks/referee/sharding/zero_steps.py`). Its figures are kept in
`benchmarks/data/questions.jsonl`. Who is nearer to it is named in each row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.architectures.resolve import resolve
from memlint.question import Answer, answer, question_of

GIB = 2**30
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "data" / "questions.jsonl"
ZERO = ROOT / "benchmarks" / "referee" / "sharding" / "zero_steps.py"
Asked = Mapping[str, Any]


class Calculator(NamedTuple):
    """A public tool. `says`: its formula, GiB of one card. `leaves_out`: what decides where it is wrong."""

    says: Callable[[Asked, int], float]
    source: str
    leaves_out: str


class Row(NamedTuple):
    """One question: memlint's tensors at the peak, its figure for the card, the calculator's, and the referee's tensors
    (None where there are none), GiB."""

    tool: str
    asked: Asked
    tensors: float
    card: float
    theirs: float
    simulated: float | None = None

    @property
    def nearer(self) -> str:
        """Who is nearer to the referee: memlint or the tool."""
        if self.simulated is None:
            return ""
        return "memlint" if abs(self.tensors - self.simulated) < abs(self.theirs - self.simulated) else self.tool


def _serving_rule(asked: Asked, parameters: int) -> float:
    return parameters * _bits(asked) / 8 * 1.2 / GIB / asked.get("gpus", 1)


def _weights_rule(asked: Asked, parameters: int) -> float:
    return parameters * _bits(asked) / 8 / GIB


def _bits(asked: Asked) -> int:
    return int(asked.get("bits") or {"fp32": 32}.get(asked.get("dtype", ""), 16))


def _accelerate(asked: Asked, parameters: int) -> float:
    return parameters * 16 / GIB


def _zero(asked: Asked, parameters: int) -> float:
    gpus = asked.get("gpus", 1)
    if asked["zero"] == 2:
        return (2 * parameters + 18 * parameters / gpus) / GIB
    largest = {"llama-3-8b": 525_336_576, "qwen2.5-7b": 544_997_376, "qwen2.5-0.5b": 136_134_656}[asked["model"]]
    return (4 * largest + 18 * parameters / gpus) / GIB


def _table(asked: Asked, parameters: int) -> float:
    if asked.get("method") == "full":
        return parameters * (8 if asked.get("dtype") == "pure_bf16" else 18) / 1e9
    return parameters * {None: 2, 8: 1, 4: 0.5}[4 if asked.get("method") == "qlora" else asked.get("bits")] / 1e9


def _cache_rule(asked: Asked, parameters: int) -> float:
    """Keys and values of every query head: 2 x layers x hidden x tokens x 2 bytes, beside the weights."""
    layers, hidden = {"llama-2-7b": (32, 4096), "llama-3-8b": (32, 4096), "mistral-7b": (32, 4096)}[asked["model"]]
    tokens = asked.get("context", 4096) * asked.get("requests", 1)
    return (2 * parameters + 2 * layers * hidden * tokens * 2) / GIB


def _adam_rule(asked: Asked, parameters: int) -> float:
    return parameters * 18 / GIB


SAYS = {
    "serving rule x 1.2": Calculator(
        _serving_rule,
        "substratus.ai/blog/calculating-gpu-memory-for-llm: M = P x 4 bytes / (32 / Q) x 1.2",
        "the context: a fifth of the weights stands for cache and activations, whatever the length and the requests",
    ),
    "2 GB a billion": Calculator(
        _weights_rule,
        "modal.com/blog/how-much-vram-need-inference: 2 GB of memory for each billion parameters in half precision",
        "everything but the weights",
    ),
    "accelerate estimate-memory": Calculator(
        _accelerate,
        "accelerate 1.15 commands/estimate.py: Adam training is four times the fp32 model",
        "activations, logits, the batch and the length; adapters; sharding",
    ),
    "DeepSpeed estimate_zero": Calculator(
        _zero,
        "deepspeed 0.19.8 runtime/zero/stage3.py:4016 and stage_1_and_2.py:4017, without offload",
        "activations and logits; adds fp32 gradients (18 bytes where bf16 keeps 16)",
    ),
    "LLaMA-Factory table": Calculator(
        _table,
        "README of LLaMA-Factory, Hardware Requirement: 18, 8, 2, 1 and 0.5 GB for each billion parameters",
        "the batch, the length and the vocabulary; of 4-bit models the embeddings and the head, which stay in 16 bits",
    ),
    "weights and cache": Calculator(
        _cache_rule,
        "README of RahulSChand/gpu_poor: a cache of 2 x layers x hidden x tokens x 2 bytes",
        "grouped-query attention: with 8 of 32 heads the cache is a quarter",
    ),
    "18 bytes a parameter": Calculator(
        _adam_rule,
        "EleutherAI, Transformer Math 101: mixed-precision Adam keeps 16 to 18 bytes for each parameter",
        "activations and logits",
    ),
}

_LARGE = "meta-llama/Llama-3.1-70B"
QUESTIONS: tuple[tuple[str, Asked], ...] = (
    *(("serving rule x 1.2", {"model": name, "inference": True, **more}) for name, more in (
        ("llama-2-7b", {}), ("llama-2-7b", {"bits": 8}), ("llama-2-7b", {"bits": 4}), ("llama-2-13b", {}),
        ("llama-3-8b", {}), ("llama-3-8b", {"bits": 4}), ("mistral-7b", {}), ("phi-2", {}),
        (_LARGE, {"bits": 4}), (_LARGE, {}), ("llama-3-8b", {"context": 8192, "requests": 16}),
        ("qwen2.5-0.5b", {"context": 32768, "requests": 8}),
    )),
    *(("2 GB a billion", {"model": name, "inference": True, **more}) for name, more in (
        ("llama-3-8b", {}), ("llama-2-7b", {"dtype": "fp32"}), ("qwen2.5-7b", {}), ("gemma-2-9b", {}),
        ("mixtral-8x7b", {}), ("phi-2", {"dtype": "fp32"}), ("qwen2.5-0.5b", {}), ("yi-34b", {"bits": 4}),
    )),
    *(("weights and cache", {"model": name, "inference": True, **more}) for name, more in (
        ("llama-2-7b", {"context": 1000}), ("llama-2-7b", {"context": 4096}), ("llama-3-8b", {"context": 8192}),
        ("llama-3-8b", {"context": 4096, "requests": 8}), ("mistral-7b", {"context": 4096}),
        ("mistral-7b", {"context": 16384}),
    )),
    *(("accelerate estimate-memory", {"model": name, "method": "full", "dtype": "fp32", **more}) for name, more in (
        ("qwen2.5-0.5b", {}), ("qwen2.5-0.5b", {"length": 8192}), ("llama-3.2-1b", {}), ("phi-2", {}),
        ("llama-2-7b", {}), ("llama-3-8b", {}), ("qwen2.5-0.5b", {"batch": 8}), ("qwen2.5-0.5b", {"liger": True}),
    )),
    *(("DeepSpeed estimate_zero", {"model": name, "method": "full", "zero": stage, "gpus": gpus, **more})
      for name, stage, gpus, more in (
        ("llama-3-8b", 3, 8, {}), ("llama-3-8b", 2, 8, {}), ("llama-3-8b", 3, 16, {}), ("llama-3-8b", 3, 4, {}),
        ("qwen2.5-7b", 3, 8, {"length": 8192}), ("qwen2.5-7b", 2, 8, {}), ("qwen2.5-0.5b", 3, 2, {}),
        ("qwen2.5-0.5b", 2, 4, {"batch": 4}),
    )),
    *(("LLaMA-Factory table", {"model": name, **more}) for name, more in (
        ("llama-2-7b", {"method": "full"}), ("llama-2-7b", {"method": "full", "dtype": "pure_bf16"}),
        ("llama-2-7b", {"method": "lora"}), ("llama-2-7b", {"method": "lora", "bits": 8}),
        ("llama-2-7b", {"method": "qlora"}), ("llama-3-8b", {"method": "qlora"}),
        ("llama-3-8b", {"method": "qlora", "length": 8192, "batch": 4}), ("llama-2-13b", {"method": "qlora"}),
        (_LARGE, {"method": "qlora"}), ("qwen2.5-7b", {"method": "lora", "length": 4096, "batch": 2}),
        ("qwen2.5-0.5b", {"method": "lora"}), ("llama-3.2-1b", {"method": "full", "dtype": "pure_bf16"}),
    )),
    *(("18 bytes a parameter", {"model": name, "method": "full", **more}) for name, more in (
        ("phi-2", {"batch": 4}), ("llama-3-8b", {}), ("qwen2.5-0.5b", {"checkpointing": False, "length": 4096}),
        ("qwen2.5-0.5b", {"checkpointing": False, "attention": "eager", "length": 4096}),
        ("llama-3.2-1b", {}), ("mistral-7b", {"length": 8192}),
    )),
)  # fmt: skip


@cache
def rows() -> tuple[Row, ...]:
    """One row a question, with the referee's figure as it is kept."""
    return tuple(_rows())


def _rows() -> Iterator[Row]:
    kept = simulated()
    for tool, asked in QUESTIONS:
        found = answer(question_of(dict(asked)))
        estimate = found.run.estimate
        parameters = (estimate.parameters or 0) - (estimate.trainable_parameters or 0) % (estimate.parameters or 1)
        theirs = SAYS[tool].says(asked, parameters)
        tensors, card = (estimate.allocated_bytes or 0) / GIB, (estimate.device_bytes or 0) / GIB
        referee = kept.get(_key(tool, asked))
        yield Row(tool, asked, tensors, card, theirs, referee / GIB if referee else None)


def _key(tool: str, asked: Asked) -> str:
    return json.dumps([tool, asked])


def simulated() -> dict[str, int]:
    """Bytes of tensors at the referee's peak, by question."""
    if not RESULTS.exists():
        return {}
    kept = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    return {_key(one["tool"], one["asked"]): one["bytes"] for one in kept}


def simulate() -> None:
    """Simulates every question and keeps the figures."""
    made = []
    for tool, asked in QUESTIONS:
        referee = _zero_bytes(asked) if "zero" in asked else _simulated_bytes(answer(question_of(dict(asked))))
        made.append(json.dumps({"tool": tool, "asked": asked, "bytes": referee}) + "\n")
        sys.stderr.write(made[-1])
    RESULTS.write_text("".join(made), encoding="utf-8")


def _zero_bytes(asked: Asked) -> int:
    """The peak of a step under DeepSpeed, in a process of its own."""
    done = subprocess.run([sys.executable, str(ZERO), json.dumps(asked)], capture_output=True, text=True, check=True)
    return int(max(json.loads(done.stdout.splitlines()[-1]).values()))


def _simulated_bytes(found: Answer) -> int:
    """The peak of a step, or of a prefill and a decode, on one card."""
    from memlint.simulation import simulate as step_of
    from memlint.simulation import simulate_requests
    from memlint.simulation.as_estimate import estimate_of

    config = resolve(found.question.model).config
    if found.question.inference:
        generated = simulate_requests(found.neutral, config or {})
        return max(generated.prefill, generated.decode)
    step = step_of(found.neutral, config_of=lambda: config)
    return int(estimate_of(step, found.neutral).allocated_bytes or 0)


def lines(found: list[Row]) -> Iterator[str]:
    """The table, what each formula leaves out, and the summary."""
    yield f"{'question':78} {'tensors':>8} {'card':>8} {'they say':>8} {'ratio':>6} {'simulated':>9}  off by, nearer"
    for row in found:
        name = " ".join(f"{key}={value}" for key, value in row.asked.items())
        cells = f"{row.tensors:8.2f} {row.card:8.2f} {row.theirs:8.2f} {row.theirs / row.card:6.2f}"
        referee = f"{row.simulated:9.2f}  {row.tensors / row.simulated - 1:+.2%} {row.nearer}" if row.simulated else ""
        yield f"{name[:78]:78} {cells} {referee}".rstrip()
    for tool, said in SAYS.items():
        yield ""
        yield f"{tool}"
        yield f"  formula: {said.source}"
        yield f"  leaves out: {said.leaves_out}"
    yield ""
    yield from summary(found)


def summary(found: list[Row]) -> Iterator[str]:
    """A row a tool: how far its figure and memlint's tensors are from the referee's."""
    yield f"{'calculator':27} {'questions':>9}  {'says, of the simulation':26}  {'memlint is off by':22}  nearer"
    judged = [row for row in found if row.simulated]
    for tool in SAYS:
        yield _summary_line(tool, [row for row in judged if row.tool == tool])
    yield _summary_line("all", judged)


def _summary_line(name: str, judged: list[Row]) -> str:
    theirs = [row.theirs / (row.simulated or 1) for row in judged]
    worst = max((abs(row.tensors / (row.simulated or 1) - 1) for row in judged), default=0.0)
    nearer = sum(row.nearer == "memlint" for row in judged)
    span = f"{min(theirs, default=0):.2f} to {max(theirs, default=0):.2f}"
    return f"{name:27} {len(judged):9}  {span:26}  {worst:22.2%}  memlint in {nearer}"


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--simulate", action="store_true", help="run the referee, and keep its figures")
    arguments.add_argument("--summary", action="store_true", help="the last table alone")
    given = arguments.parse_args()
    if given.simulate:
        simulate()
    sys.stdout.write("\n".join((summary if given.summary else lines)(rows())) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
