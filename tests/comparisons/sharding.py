"""How far the closed form is from the real sharding engines, phase by phase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tests.comparisons.sharding_predict as predict

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "referee" / "sharding"
RESULTS = FOLDER / "results.jsonl"
MIXTURES = FOLDER / "mixtures.jsonl"
PHASES = ("rest", "forward", "backward", "step")


def mixture_rows() -> list[dict[str, Any]]:
    """The committed random mixtures, those that an engine refused among them."""
    return [json.loads(line) for line in MIXTURES.read_text(encoding="utf-8").splitlines()]


def rows() -> list[dict[str, Any]]:
    """The committed results."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def errors(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Setting name -> phase -> relative error of the prediction against the fullest rank. Runs without an engine only
    tell the activations."""
    alone = {row["setting"]["name"]: row["ranks"][0] for row in results if row["setting"]["engine"] == "none"}
    return {
        row["setting"]["name"]: _errors(row, activations(row["setting"], alone))
        for row in results
        if row["setting"]["engine"] != "none"
    }


def activations(setting: dict[str, Any], alone: dict[str, dict[str, int]]) -> predict.Activations:
    """What the same model takes without any engine."""
    kinds = {
        "activations-lora": setting.get("method") == "lora",
        "activations-freeze": setting.get("method") == "freeze",
        "activations-no-checkpointing": not setting.get("checkpointing", True),
        "activations-seq256": setting.get("sequence", 64) == 256,
        "activations-fp32": predict.run_of(setting).precision.compute == "float32",
    }
    figures = alone[next((name for name, matches in kinds.items() if matches), "activations")]
    return predict.Activations(**figures)


def _errors(row: dict[str, Any], kept: predict.Activations) -> dict[str, float]:
    predicted = predict.predict(row["setting"], kept)
    return {phase: predicted[phase] / measured(row, phase) - 1 for phase in PHASES}


def estimate_errors(results: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """As `errors`, for the whole estimate; it rounds every tensor to 512 B, which the count here does not."""
    found = {}
    for row in results:
        setting = row["setting"]
        if setting["engine"] != "none":
            predicted = predict.estimated_bytes(setting)
            found[setting["name"]] = {name: predicted[name] / measured(row, name) - 1 for name in PHASES[1:]}
    return found


def measured(row: dict[str, Any], phase: str) -> int:
    """The fullest rank's bytes."""
    return max(rank[phase] for rank in row["ranks"])


def quantile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, -(-int(share * 1000) * len(ordered) // 1000) - 1)]


def mixture_lines(kept: list[dict[str, Any]], verbose: bool = False) -> list[str]:
    """How far the whole estimate is from random mixtures, by engine and phase."""
    ran = [row for row in kept if "ranks" in row]
    errors = estimate_errors(ran)
    found = [f"{name:24s} " + " ".join(f"{one[p]:+7.1%}" for p in PHASES[1:]) for name, one in errors.items()]
    found = [*found, ""] if verbose else []
    found += [f"{len(ran)} mixtures ran, {len(kept) - len(ran)} were refused by their engine", ""]
    found += ["| engine | phase | mixtures | median | p95 | worst |", "|---" * 6 + "|"]
    for engine in ("deepspeed", "fsdp1", "fsdp2", "all"):
        chosen = [one for name, one in errors.items() if engine in ("all", name.rpartition("-")[2])]
        for phase in PHASES[1:] if chosen else ():
            sizes = [abs(one[phase]) for one in chosen]
            shares = " | ".join(f"{quantile(sizes, share):.1%}" for share in (0.5, 0.95, 1.0))
            found.append(f"| {engine} | {phase} | {len(sizes)} | {shares} |")
    return found
