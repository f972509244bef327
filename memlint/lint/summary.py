"""Makes the part of a report about one run: its facts, its estimate and its summary in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import memlint.memory as memory
from memlint.memory.values import Assumption, Estimate
from memlint.report.model import HardwareFacts, ModelFacts, RunReport
from memlint.run import LAUNCH, LAUNCH_OPTIONS, UNKNOWN, Run


def run_report(run: Run, estimate: Estimate, with_assumptions: bool = False) -> RunReport:
    """The report of one run. `with_assumptions`: include each value's origin, for reports that show it."""
    launch = run.origins.get(LAUNCH)
    versions: tuple[tuple[str, str, str], ...] = ()
    if with_assumptions or launch is not None:
        import memlint.lint.assumptions as stated

        if with_assumptions:
            estimate = _with_numbers_of_gpus(run, estimate)
            estimate = estimate._replace(assumptions=(*stated.assumptions(run), *estimate.assumptions))
            versions = stated.versions(run)
        if launch is not None:
            launch_files = Assumption(LAUNCH, ", ".join(run.related) or None, stated.describe_origin(launch))
            estimate = estimate._replace(assumptions=(launch_files, *estimate.assumptions))
    gpu = run.hardware.gpu
    world = none_if_unknown(run.parallelism.world_size)
    return RunReport(
        path=run.path,
        format=run.format,
        related=run.related,
        model=ModelFacts(
            none_if_unknown(run.model.name), _model_source(run), estimate.parameters, estimate.trainable_parameters
        ),
        hardware=HardwareFacts(
            gpu.name if gpu else None,
            world,
            gpu.nominal_bytes if gpu else None,
            estimate.budget_bytes or (gpu.usable_bytes if gpu else None),
        ),
        estimate=estimate,
        purpose=run.purpose,
        summary=", ".join(_summary_parts(run)),
        versions=versions,
        launched=f"{launch.path}:{launch.line}" if launch is not None else "",
        launched_otherwise=run.origins[LAUNCH_OPTIONS].detail if LAUNCH_OPTIONS in run.origins else "",
    )


def _with_numbers_of_gpus(run: Run, estimate: Estimate) -> Estimate:
    """The estimate with the figures for usual numbers of GPUs, where only their number is missing."""
    if run.parallelism.world_size is not UNKNOWN:
        return estimate
    from memlint.memory.unknown.gpu_numbers import by_number_of_gpus

    return estimate._replace(readings=estimate.readings or by_number_of_gpus(run, estimate, memory.estimate))


def none_if_unknown(value: Any) -> Any:
    """`value`, or None for UNKNOWN."""
    return None if value is UNKNOWN else value


def _model_source(run: Run) -> str:
    origin = run.origins.get("model.architecture")
    return origin.detail.partition(":")[0] if origin is not None and origin.detail else "unknown"


def _summary_parts(run: Run) -> Iterator[str]:
    """ "sft, lora r=8, bfloat16, 2 x 4096 tokens, ZeRO-3" """
    method, quantization = run.method, run.model.quantization
    yield _text(method.stage)
    yield _text(method.kind) + (f" r={_text(method.rank)}" if method.rank else "")
    if quantization.method != "none":
        yield f"{_bits(quantization.bits)}-bit base"
    if run.precision.compute is not UNKNOWN:
        yield _precision(run)
    source = f"{_text(run.sequence.source_length)} -> " if run.sequence.source_length != 0 else ""
    yield f"{_text(run.batch.micro_batch_size)} x {source}{_text(run.sequence.length)} tokens"
    yield from _engine(run)


def _precision(run: Run) -> str:
    compute = str(run.precision.compute)
    half_only = run.precision.autocast is False and not run.precision.master_weights and compute != "float32"
    if run.parallelism.engine == "fsdp" and run.precision.trainable_dtype == "float32":
        half_only = False  # FSDP's policy casts what it gathers
    return f"pure {compute}" if half_only and run.purpose == "train" else compute


def _engine(run: Run) -> Iterator[str]:
    parallelism = run.parallelism
    if parallelism.engine == "deepspeed":
        yield f"ZeRO-{_text(parallelism.zero.stage)}"
    elif parallelism.engine == "fsdp":
        yield f"FSDP{_text(parallelism.fsdp.version)}"
    elif parallelism.engine not in ("single", "ddp"):
        yield _text(parallelism.engine)
    if run.offload.optimizer != "none" or run.offload.parameters != "none":
        yield "offload"


def _bits(value: Any) -> str:
    return "?" if value is UNKNOWN else f"{value:g}"


def _text(value: Any) -> str:
    return "?" if value is UNKNOWN else str(value)
