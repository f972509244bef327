"""Writes docs/costs.md from memlint/fixes/costs.json: `python tools/cost_page.py [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from generated import ROOT, settle

from memlint.fixes.costs import QUALITIES
from memlint.fixes.plan import FAR_SLOWER, MUCH_SLOWER
from memlint.fixes.proposed_change import EACH_CHANGE, OF_ANOTHER_ENGINE, SAME_TIME, WEIGHTS
from memlint.fixes.step_time import table

PAGE = ROOT / "docs" / "costs.md"
HEAD = """\
# What changes cost

Written by `python tools/cost_page.py` from `memlint/fixes/costs.json`. Plans, fixes of rules and `memlint plan` take
their factors on the time of a step and their risk for the result from here and from nowhere else. Factors multiply.
A factor is for the same number of tokens: 1.3 is 30 % slower.

## Counted

The time of a step is counted for the run before and after a change (`memlint/fixes/step_time.py`); the ratio is the
factor. A micro batch takes the longest of what runs at the same time:

- FLOPs of the matmuls over the card's peak times the utilisation, and reading every weight once a pass: activation
  checkpointing adds a pass and 2 FLOP, adapters spare 2 FLOP, small batches wait for the weights, and of experts those
  compute that the router chooses;
- under ZeRO-3 and FSDP, gathering the weights in each pass and scattering the gradients over the link between cards;
- with parameters in host memory, each card's share of the weights over its bus in each pass, as wide as they are
  stored; and under gradient accumulation DeepSpeed's sums of the gradients, fetched, added to and brought back, at
  stage 2 all of them on every card.

GPUs that share a sequence hand each other queries, keys, values and outputs in each layer and pass, which hides behind
nothing. FSDP with its shards on the host adds gradients there, and the backward waits, where each micro batch is
reduced.

The reduction of gradients hides behind the last micro batch. The optimizer's step on the CPU and its copies hide behind
nothing: the more tokens a step has, the less they weigh. Copies of a micro batch hide behind its computation where that
takes longer: with many tokens they cost nothing, with few they decide (Rajbhandari et al. 2021, ZeRO-Infinity, arXiv
2104.07857, section 8.5). Under gradient accumulation a smaller micro batch costs what reading the weights more often
costs.
"""
BASIS = {"paper": "a paper", "measured": "a published measurement", "count": "counted", "judgement": "a judgement"}
BASIS |= {"unknown": "not known"}
WORDS = {
    "paged_states": "all states over the bus, twice a step",
    "checkpoints_in_host_memory": "copies beyond a layer",
    "states_away": "all states over the bus, twice a step",
    "weights_away": "all weights over the bus, twice a step",
    "reference_from_host": "all weights over the bus, once a micro batch",
}


def page() -> str:
    rows = table()
    parts = [HEAD, *_constants(rows), *_kernels(rows), *_risks(rows), _judgements().rstrip(), *_cards(rows)]
    return "\n".join(parts) + "\n"


def _constants(rows: dict[str, Any]) -> Iterator[str]:
    yield "| Constant | Value | Source |\n| --- | --- | --- |"
    for row in rows["constants"]:
        yield f"| {row['name'].replace('_', ' ')} | {row['value']:g} {row['unit']} | {row['source']} |"


KERNELS = """
## Taken from elsewhere

Where nothing is published, the table says so, and the factor is 1 or a judgement.

| Change | Factor on the step | Risk | From | Source |
| --- | --- | --- | --- | --- |"""
RISKS = """
## Risk for the result alone

Shorter sequences and smaller images are a medium risk down to half and to 512 x 512 pixels, and a high one below.
Another global batch is a low risk up to a factor of 2, else a medium one. Half-precision weights beside fp32 masters
(DeepSpeed) are none. Where the loss compares the samples of a micro batch with each other, fewer of them are a medium
risk down to half, and a high one below (sentence-transformers 5.1 losses/MultipleNegativesRankingLoss.py: "a higher
batch size results in more in-batch negatives, which then increases performance (to a point)").

| Change | Risk | Source |
| --- | --- | --- |"""


CARDS = """
## Cards

Dense half-precision peak and memory as the sources say. The link to other cards is two thirds of NVLink's bandwidth in
one direction, else three quarters of PCIe's, and so is the bus to the host: what copies and collectives reach of it is
a judgement.
"""


def _judgements() -> str:
    """How plans are ordered beside their time and risk: constants of fixes/proposed_change.py."""
    risks = ", ".join(f"{weight:g} ({quality})" for weight, quality in zip(WEIGHTS, QUALITIES, strict=True))
    return f"""
## Judgements

No measurement says how much a plan has to save before somebody takes it. Plans are ordered by risk, then by time. Times
that differ by less than {SAME_TIME:.0%} are equal. A plan without a risk for which a step takes {FAR_SLOWER:g} times as
long or more stands behind faster ones of a low risk, never behind those of a medium one, and is always shown. A high
risk is not offered beside a plan of no or a low one for which a step takes at most {MUCH_SLOWER:g} times as long.

Another engine (DeepSpeed in place of DDP) counts as {OF_ANOTHER_ENGINE - 1:.0%} of the time: another package, another
launch, other checkpoints. Where one number has to say both, risks count as so many times of a step: {risks};
and each change as {EACH_CHANGE:.0%} of the time.
"""


def _kernels(rows: dict[str, Any]) -> Iterator[str]:
    yield KERNELS
    for row in rows["kernels"]:
        speed = row["speed"] if isinstance(row["speed"], str) else f"{row['speed']:g}"
        basis = BASIS[row["basis"]]
        yield f"| {row['change']} | {WORDS.get(speed, speed)} | {row['quality']} | {basis} | {row['source']} |"


def _risks(rows: dict[str, Any]) -> Iterator[str]:
    yield RISKS
    for row in rows["qualities"]:
        yield f"| {row['change']} | {row['quality']} | {row['source']} |"


def _cards(rows: dict[str, Any]) -> Iterator[str]:
    yield CARDS
    yield "| Card | TFLOPS | Memory GB/s | Link GB/s | Bus GB/s | Source |\n| --- | --- | --- | --- | --- | --- |"
    for row in rows["cards"]:
        name = row["match"].replace("|", ", ").replace("$", "").replace(" ?", " ") or "any other"
        rates = " | ".join(str(row[key]) for key in ("tflops", "memory_gb_s", "link_gb_s", "bus_gb_s"))
        yield f"| {name} | {rates} | {row['source']} |"


if __name__ == "__main__":
    sys.exit(settle({PAGE: page()}, sys.argv[1:]))
