"""The line that describes a run, and what a report takes from a run and its estimate."""

from __future__ import annotations

import pytest

from memlint.lint.summary import run_report
from memlint.memory import estimate
from memlint.run import LAUNCH, UNKNOWN, Origin, Run
from tests.memory.runs import LORA, run


def summary(one: Run) -> str:
    return run_report(one, estimate(one)).summary


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "sft, full, pure bfloat16, 2 x 256 tokens"),
        ({"precision__master_weights": True}, "sft, full, bfloat16, 2 x 256 tokens"),
        ({"precision__autocast": True}, "sft, full, bfloat16, 2 x 256 tokens"),
        ({"precision__compute": "float32"}, "sft, full, float32, 2 x 256 tokens"),
        ({"precision__compute": UNKNOWN}, "sft, full, 2 x 256 tokens"),
        (LORA, "sft, lora r=8, pure bfloat16, 2 x 256 tokens"),
        ({"method__stage": "dpo", "sequence__length": UNKNOWN}, "dpo, full, pure bfloat16, 2 x ? tokens"),
        ({"parallelism__engine": "ddp"}, "sft, full, pure bfloat16, 2 x 256 tokens"),
        (
            {"parallelism__engine": "deepspeed", "parallelism__zero__stage": 3, "offload__parameters": "cpu"},
            "sft, full, pure bfloat16, 2 x 256 tokens, ZeRO-3, offload",
        ),
        (
            {"parallelism__engine": "fsdp", "parallelism__fsdp__version": 2},
            "sft, full, pure bfloat16, 2 x 256 tokens, FSDP2",
        ),
        ({"parallelism__engine": UNKNOWN}, "sft, full, pure bfloat16, 2 x 256 tokens, ?"),
        (
            {"model__quantization__method": "bnb", "model__quantization__bits": 4},
            "sft, full, 4-bit base, pure bfloat16, 2 x 256 tokens",
        ),
        (
            {"model__quantization__method": "bnb", "model__quantization__bits": UNKNOWN},
            "sft, full, ?-bit base, pure bfloat16, 2 x 256 tokens",
        ),
    ],
)
def test_the_line_of_a_run(changes: dict[str, object], line: str) -> None:
    assert summary(run(**{"method__stage": "sft", **changes})) == line


def test_a_report_has_the_figures_of_the_estimate() -> None:
    one = run()._replace(origins={"model.architecture": Origin("catalog", detail="catalog: tiny/model")})
    result = estimate(one)
    report = run_report(one, result)

    assert report.estimate == result
    assert (report.model.parameters, report.model.source) == (result.parameters, "catalog")
    assert (report.hardware.gpu, report.hardware.gpus, report.launched) == (None, 1, "")


def test_unknown_values_are_none() -> None:
    report = run_report(run(parallelism__world_size=UNKNOWN, model__name=UNKNOWN), estimate(run()))
    assert (report.hardware.gpus, report.model.id, report.model.source) == (None, None, "unknown")


def test_origins_are_listed_on_request_and_the_launch_in_any_case() -> None:
    origins = {
        LAUNCH: Origin("file", "README.md", 12, 1),
        "sequence.length": Origin("default", detail="trl 1.16"),
        "stack.trl": Origin("command_line"),
    }
    one = run(stack__trl=(1, 16))._replace(origins=origins, related=("ds.json",))
    plain, full = (run_report(one, estimate(one), with_assumptions=wanted) for wanted in (False, True))

    assert plain.estimate.assumptions[0].field == LAUNCH
    assert plain.estimate.assumptions[0].value == "ds.json" and plain.launched == "README.md:12"
    assert "sequence.length" not in {found.field for found in plain.estimate.assumptions}
    assert "sequence.length" in {found.field for found in full.estimate.assumptions}
    assert (plain.versions, full.versions) == ((), (("trl", "1.16", "command line"),))
