"""The closed form beside the simulated step, for one small member of every family with a class in transformers.

    python benchmarks/referee/families.py [FAMILY...] [--write]

Each member takes twelve steps on fake tensors: float32 under autocast, pure bfloat16 and LoRA; sdpa and eager
attention; with and without activation checkpointing.
--write renews benchmarks/data/families.jsonl, docs/families.md and memlint/memory/card/deviations.json. The exit code
is 1 where a peak is further than LIMIT from the simulated one.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import memlint.memory.card.deviations as deviations
from memlint.architectures.config import UnsupportedConfig
from memlint.memory.estimate import estimate
from memlint.memory.families.lookup import of_model_type
from memlint.memory.values import Estimate
from memlint.simulation import SimulatedStep, UnsupportedRun, simulate
from tests.comparisons.families import Step, members, run_of

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 0.01
PHASES = ("forward", "backward", "optimizer_step")
DATA = ROOT / "benchmarks" / "data" / "families.jsonl"
PAGE = ROOT / "docs" / "families.md"
STEPS = tuple(
    Step(method, checkpointing, attention)
    for method in ("full", "pure", "lora")
    for attention in ("sdpa", "eager")
    for checkpointing in (False, True)
)


def compare(name: str, config: dict[str, Any], step: Step) -> dict[str, Any]:
    """One row of the table: what each says, or why one of them says nothing."""
    row: dict[str, Any] = {"family": name, "step": step.name}
    try:
        run = run_of(config, step)
    except UnsupportedConfig as error:
        return {**row, "refused": str(error)}
    found = estimate(run)
    if found.allocated_bytes is None:
        reasons = (one.reason.partition(": at least ")[0] for one in found.unknown)  # the bound of a small model
        return {**row, "refused": "; ".join(reasons)}
    try:
        real = simulate(run, config)
    except UnsupportedRun as error:
        return {**row, "no_simulation": str(error)}
    except Exception as error:  # a class that does not run on fake tensors has no referee
        return {**row, "no_simulation": f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"}
    if abs((found.parameters or 0) / real.parameters - 1) > LIMIT:
        return {**row, "no_simulation": "its class reads this small configuration in another way"}
    return {**row, **figures(found, real)}


def figures(found: Estimate, real: SimulatedStep) -> dict[str, Any]:
    """Bytes of both, phase by phase, and whether the parameter counts agree."""
    theirs = {"forward": real.forward, "backward": real.backward, "optimizer_step": real.optimizer_step}
    counted = (found.parameters, found.trainable_parameters) == (real.parameters, real.trainable_parameters)
    return {"counts_agree": counted, "simulated": theirs, **estimated(found)}


def estimated(found: Estimate) -> dict[str, Any]:
    """The estimate's share of a row."""
    ours = {phase.name: phase.allocated_bytes for phase in found.phases}
    highest = max((phase for phase in found.phases if phase.name in PHASES), key=lambda phase: phase.allocated_bytes)
    return {"estimated": {name: ours[name] for name in PHASES}, "transient": deviations.transient(highest)}


def estimated_anew() -> Iterator[dict[str, Any]]:
    """The kept rows with the estimates of today beside the simulations that they have."""
    steps = {step.name: step for step in STEPS}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "estimated" in row:
            row |= estimated(estimate(run_of(members()[row["family"]], steps[row["step"]])))
        yield row


def errors(row: dict[str, Any]) -> dict[str, float]:
    """Relative error by phase, and of the peak; empty without figures."""
    if "estimated" not in row:
        return {}
    ours, theirs = row["estimated"], row["simulated"]
    result = {name: ours[name] / theirs[name] - 1 for name in PHASES if theirs[name]}
    return {**result, "peak": max(ours.values()) / max(theirs.values()) - 1}


def rows(chosen: list[str]) -> Iterator[dict[str, Any]]:
    """Every row of the families in `chosen` (all for none), as they are done."""
    for family, config in sorted(members().items()):
        if chosen and family not in chosen:
            continue
        for step in STEPS:
            if step.attention == "sdpa" and not of_model_type(config["model_type"]).attention.sdpa.include(()):
                continue
            row = compare(family, config, step)
            yield row
            if "refused" in row:
                break


def shown(row: dict[str, Any]) -> str:
    found = errors(row)
    text = "  ".join(f"{name} {value:+8.2%}" for name, value in found.items())
    counts = "" if row.get("counts_agree", True) else "  COUNTS DIFFER"
    return f"{row['family']:22} {row['step']:24} {text or row.get('refused') or row.get('no_simulation')}{counts}"


def worst(found: list[dict[str, Any]], name: str = "peak") -> float:
    """The largest distance of the named figure from the simulated one."""
    return max((abs(errors(row)[name]) for row in found if name in errors(row)), default=0.0)


# Families whose classes do not run on fake tensors with this attention: the interval of the widest of all families.
NOT_SIMULATED = {
    "blip-2": ("sdpa", "eager"),
    "instructblip": ("sdpa", "eager"),
    "m2m_100": ("sdpa", "eager"),
    "deepseek_v32": ("sdpa",),
    "glm_moe_dsa": ("sdpa",),
    "step3p7": ("sdpa", "eager"),
}


def shares(found: list[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """(simulated - estimated peak) / transient by family and attention, lowest and highest: card/deviations.json."""
    table: dict[str, dict[str, list[float]]] = {}
    for row in found:
        if abs(errors(row).get("peak", 0.0)) <= LIMIT:
            continue
        attention = "eager" if " eager" in row["step"] else "sdpa"
        share = (max(row["simulated"].values()) - max(row["estimated"].values())) / max(1, row["transient"])
        share = round(max(share, -1.0), 3)
        lowest, highest = table.setdefault(row["family"], {}).setdefault(attention, [0.0, 0.0])
        table[row["family"]][attention] = [min(lowest, share), max(highest, share)]
    for family, attentions in NOT_SIMULATED.items():
        for attention in attentions:
            others = [name for name in table if name not in NOT_SIMULATED]
            known = [table[name][attention] for name in others if attention in table[name]]
            widest = [min(low for low, _ in known), max(high for _, high in known)]
            table.setdefault(family, {})[attention] = widest
    return table


def page(found: list[dict[str, Any]]) -> str:
    """docs/families.md."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault(row["family"], []).append(row)
    compared = {name: group for name, group in groups.items() if any("estimated" in row for row in group)}
    refused = {name: group[0]["refused"] for name, group in groups.items() if "refused" in group[0]}
    alone = {name: group[0]["no_simulation"] for name, group in groups.items() if name not in {**compared, **refused}}
    lines = [
        "# Model families",
        "",
        "Written by `python benchmarks/referee/families.py --write`. A small member of each family takes up to twelve",
        "training steps on fake tensors with its class of transformers 5.24: float32 under bfloat16 autocast, pure",
        "bfloat16 and LoRA; sdpa and eager attention; with and without activation checkpointing. The figures are the",
        "largest distance of the estimate from the simulated peak, and from the highest point of forward and backward.",
        "",
        f"{len(groups)} families: {len(compared)} estimated and simulated ({len(exactly(compared))} within 1 %), "
        f"{len(alone)} estimated without a simulation to compare with, {len(refused)} without a figure.",
        "",
        "| Family | Peak | Forward | Backward | Steps |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, group in sorted(compared.items()):
        cells = " | ".join(f"{worst(group, phase):.2%}" for phase in ("peak", "forward", "backward"))
        lines.append(f"| `{name}` | {cells} | {sum('estimated' in row for row in group)} |")
    lines += ["", "## Without a figure", "", "| Family | Reason |", "| --- | --- |"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(refused.items())]
    lines += ["", "## Estimated, not simulated", "", "| Family | Why there is no simulation |", "| --- | --- |"]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(alone.items())]
    return "\n".join(lines) + "\n"


def exactly(compared: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The families whose every peak is within LIMIT."""
    return [name for name, group in compared.items() if worst(group) <= LIMIT]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--write", action="store_true", help="families not named keep their rows")
    parser.add_argument("--estimate", action="store_true", help="simulate nothing: kept rows, estimated anew")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for row in estimated_anew() if options.estimate else rows(options.families):
        found.append(row)
        print(shown(row), flush=True)
    if options.write:
        done = {row["family"] for row in found}
        kept = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()] if options.families else []
        kept = [row for row in kept if row["family"] in members()]
        found = sorted([*found, *(row for row in kept if row["family"] not in done)], key=lambda row: row["family"])
        DATA.write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in found), encoding="utf-8")
        PAGE.write_text(page(found), encoding="utf-8")
        table = {family: json.dumps(by_attention) for family, by_attention in sorted(shares(found).items())}
        lines = ",\n".join(f'  "{family}": {values}' for family, values in table.items())
        Path(deviations.FILE).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    print(f"{sum('estimated' in row for row in found)} steps compared, largest error {worst(found):.2%}")
    return 1 if worst(found) > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
