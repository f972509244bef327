"""Measures cases on a CUDA machine, each in a process of its own, and appends rows as in data/measured_runs.jsonl.

    python benchmarks/referee/gpu/run.py --output rows.jsonl              every case that the card holds
    python benchmarks/referee/gpu/run.py --only lora-eager --output x.jsonl
    python benchmarks/referee/gpu/run.py --dry-run --output x.jsonl       a tiny model on the CPU: tests the plumbing

Needs torch with CUDA, transformers, accelerate and peft; bitsandbytes, liger-kernel and flash-attn where a case
uses them (else that case is reported as failed). Works without network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from benchmarks.referee.gpu.cases import TINY, Case, cases  # noqa: E402

GIB = 1 << 30


def measure(case: Case, timeout: int) -> dict[str, Any]:
    """The child's result, or {"error": its last line}."""
    environment = dict(os.environ, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    if case.allocator:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = case.allocator
    command = [sys.executable, str(Path(__file__).with_name("case.py")), json.dumps(case._asdict())]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=environment, cwd=ROOT, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {timeout} s"}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result: dict[str, Any] = json.loads(line[7:])
            return result
    lines = done.stderr.strip().splitlines() or ["no output"]
    return {"error": lines[-1][:300]}


def row(case: Case, result: dict[str, Any], idle: int) -> dict[str, Any]:
    """One line in the format of data/measured_runs.jsonl."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    gib = {f"peak_{name}_gib": round(size / GIB, 4) for name, size in result["phases"].items()}
    return {
        "id": f"harness-{case.id}",
        "source": "benchmarks/referee/gpu/run.py",
        "tool": f"HF Trainer, {versions}",
        "model_hf_id": None,
        "arch": {"config_class": case.model[0], "config": case.model[1]},
        "method": "qlora" if case.quantization else case.method,
        "lora_r": case.rank if case.method == "lora" else None,
        "lora_targets": case.targets if case.method == "lora" else None,
        "quantization": case.quantization or None,
        "weights_dtype": case.precision,
        "compute_dtype": case.precision,
        "optimizer": case.optimizer,
        "micro_batch_size": case.micro_batch_size,
        "seq_len": case.sequence_length,
        "packing": "synthetic, full length",
        "grad_accum": case.accumulation,
        "gradient_checkpointing": case.checkpointing != "none",
        "attention": case.attention,
        "fused_loss": "liger" if case.liger else "none",
        "compile": False,
        "n_gpus": 1,
        "gpu": result["gpu"],
        "measured_gib": round(result["allocated"] / GIB, 4),
        "metric": "max_allocated",
        "scope": "per_gpu",
        "raw": f"{result['allocated']} bytes",
        "other_metrics": {
            "peak_reserved_gib": round(result["reserved"] / GIB, 4),
            "nvidia_smi_minus_idle_gib": round(max(0, result["device"] - idle) / GIB, 4),
            "trainable_params": result["trainable"],
            "total_params": result["parameters"],
            **gib,
        },
        "notes": f"checkpointing {case.checkpointing}; clipping {case.max_grad_norm}; "
        f"allocator {case.allocator or 'default'}",
        "confidence": "high",
    }


def idle_bytes() -> int:
    """What the first card shows as used before a case runs; 0 without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]) << 20
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return 0


def dry_cases() -> list[Case]:
    tiny = Case("tiny-full", TINY, sequence_length=16, accumulation=2, evaluate=2, optimizer="adamw_torch")
    return [
        tiny,
        tiny._replace(id="tiny-lora", method="lora", evaluate=0),
        tiny._replace(id="tiny-bad", optimizer="no"),
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="a file that gets a row a case")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--only", default="", help="ids that start so")
    parser.add_argument("--large", action="store_true", help="cases for a card of 80 GiB too")
    parser.add_argument("--timeout", type=int, default=600, help="seconds a case may take")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(arguments)
    if options.list:
        print(*(case.id for case in cases()), sep="\n")
        return 0
    if options.output is None:
        parser.error("--output FILE says where the rows go")
    chosen = dry_cases() if options.dry_run else [c for c in cases() if options.large or not c.large]
    failed = 0
    for case in (one for one in chosen if one.id.startswith(options.only)):
        idle = idle_bytes()
        result = measure(case, options.timeout)
        if "error" in result:
            failed += 1
            print(f"{case.id:32} failed: {result['error']}", flush=True)
            continue
        with options.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row(case, result, idle)) + "\n")
        print(f"{case.id:32} {result['allocated'] / GIB:8.2f} GiB {result['phases']}", flush=True)
    print(f"{failed} failed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
