"""Launch scripts against what they really start: `python benchmarks/corpus/launches.py DATA [-v] [--gpus 8]`.

DATA holds `truth.jsonl`, one row for a script with the arguments of each launch as a shell makes them, and `repos/`,
the files of each repository. Printed are, for the launch of each script that trains:

- located: model, micro batch, accumulation, length, precision and engine are read as the arguments say, by the names
  of `NAMES`, whatever program it is;
- run: the same fields of the `Run` that a format makes of it, for programs that memlint has a format for. verl with
  dynamic batches ignores the micro batch of its arguments (verl 0.9.1 workers/engine/utils.py:108): there the tokens
  of a forward are compared;
- wrong: values that are known and differ; UNKNOWN is not wrong;
- GPUs: the number of processes of the launcher.

Scripts that need arguments from outside are counted apart.
"""

from __future__ import annotations

import collections
import json
import posixpath
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.formats.fields import interpolated
from memlint.repository.workspace import on_disk
from memlint.ruleset.engine import Analysis, Engine
from memlint.run import UNKNOWN, Run
from memlint.source.document import Document

NAMES: Mapping[str, tuple[str, ...]] = {
    "model": (
        *("model_name_or_path", "actor_rollout_ref.model.path", "model.partial_pretrain", "model.path", "model_path"),
        *("actor_model_name_or_path", "pretrain", "load", "model_name", "model", "hf_path"),
    ),
    "micro_batch_size": (
        *("per_device_train_batch_size", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"),
        *("data.micro_batch_size_per_gpu", "data.micro_batch_size", "actor_rollout_ref.actor.ppo_micro_batch_size"),
        *("micro_train_batch_size", "micro_batch_size", "train_batch_size", "batch_size"),
    ),
    "gradient_accumulation_steps": ("gradient_accumulation_steps", "grad_accum"),
    "sequence_length": (
        *("max_length", "max_seq_length", "model_max_length", "cutoff_len", "data.max_length", "max_len", "seq_length"),
    ),
    "precision": ("bf16", "fp16", "model.fsdp_config.model_dtype", "actor_rollout_ref.actor.fsdp_config.model_dtype"),
    "deepspeed": ("deepspeed",),
    "fsdp": ("fsdp", "actor_rollout_ref.actor.strategy", "model.strategy"),
    "lora_rank": ("lora_r", "lora_rank", "actor_rollout_ref.model.lora_rank", "model.lora_rank"),
    "optimizer": ("optim",),
}
PARTS: Mapping[str, tuple[str, ...]] = {
    "data.max_prompt_length": ("data.max_prompt_length",),
    "data.max_response_length": ("data.max_response_length",),
    "max_prompt_length": ("max_prompt_length",),
    "max_completion_length": ("max_completion_length",),
    "max_new_tokens": ("max_new_tokens",),
}
_SHORT_TYPES: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
JUDGED = (
    "model",
    "micro_batch_size",
    "gradient_accumulation_steps",
    "sequence_length",
    "precision",
    "deepspeed",
    "fsdp",
)


class Judged(NamedTuple):
    """What became of one field: right, wrong, unknown."""

    field: str
    verdict: str
    got: Any
    wanted: Any


def main() -> int:
    command = parser(__doc__)
    command.add_argument("data")
    command.add_argument("-v", "--verbose", action="store_true")
    command.add_argument("--gpus", type=int, default=8)
    options = command.parse_args()
    folder = Path(options.data)
    rows = [json.loads(line) for line in (folder / "truth.jsonl").open(encoding="utf-8")]
    rows = [row for row in rows if row["kind"] == "shell" and row["launches"]]
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        _judge(row, folder, options.gpus, options.verbose, counts)
    for name, count in counts.items():
        total = count["all right"] + count["not all right"]
        values = count["right"] + count["wrong"] + count["unknown"]
        print(
            f"{name}: {count['all right']} of {total} launches all right ({_share(count['all right'], total)}); ",
            end="",
        )
        print(f"{count['right']} of {values} values right, {count['unknown']} unknown, {count['wrong']} wrong ", end="")
        print(f"({_share(count['wrong'], values)})")
    return 0


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _judge(
    row: dict[str, Any], folder: Path, gpus: int, verbose: bool, counts: dict[str, collections.Counter[str]]
) -> None:
    root = str(folder / "repos" / row["repo"].replace("/", "+"))
    launch = row["launches"][row.get("fields_of_launch", 0)]
    analyses = analyses_of(root, row["path"], gpus if row["depends_on_gpu_count"] else 0)
    found = _likest(launch, analyses)
    group = "needs arguments" if row["needs_arguments"] else "needs none"
    if found is None:
        counts[f"located, {group}"]["not all right"] += 1
        print(f"not found: {row['repo']} {row['path']}")
        return
    _count(f"located, {group}", row, tuple(located(launch, found.document, root)), counts, verbose)
    if found.format is not None and found.runs:
        _count(f"run, {group}", row, tuple(of_run(launch, found.runs[0], root)), counts, verbose)
    processes = launch["nproc"]
    if isinstance(processes, int) and found.document.start is not None:
        wanted, start = processes, found.document.start
        got = start.machine.gpus_per_node or start.machine.gpus
        if "all machines" in str(launch["nproc_from"]):
            got = start.machine.gpus
        verdict = "right" if got == wanted else "wrong" if got else "unknown"
        _count(f"GPUs, {group}", row, (Judged("GPUs", verdict, got, wanted),), counts, verbose)


def analyses_of(root: str, path: str, gpus: int) -> list[Analysis]:
    workspace = on_disk(root, root)
    facts = {"gpus": gpus} if gpus else {}
    engine = Engine(())
    return [engine.analyse(document, workspace.context(**facts)) for document in workspace.documents(path)]


def _likest(launch: dict[str, Any], analyses: list[Analysis]) -> Analysis | None:
    """The document whose keys and values are likest the launch's."""
    argv = set(launch["argv"])

    def likeness(analysis: Analysis) -> int:
        return sum(str(value) in argv for value in _flat(analysis.document.value)) + sum(
            f"--{key}" in argv for key in analysis.document.value
        )

    entry = posixpath.basename(str(launch["entry"] or ""))
    same = [
        one for one in analyses if one.document.start and posixpath.basename(one.document.start.program.entry) == entry
    ]
    return max(same or analyses, key=likeness, default=None)


def _flat(value: Any) -> Iterator[Any]:
    for one in value.values() if isinstance(value, dict) else ():
        yield from _flat(one) if isinstance(one, dict) else (one,)


def located(launch: dict[str, Any], document: Document, root: str) -> Iterator[Judged]:
    for field in JUDGED:
        wanted = launch["fields"].get(field)
        if wanted is None:
            continue
        if isinstance(wanted, dict):
            for name, number in wanted.items():
                yield _compared(field, _first(document.value, PARTS.get(name, (name,))), number, root)
        elif field == "precision" and "launcher" in str(launch["flags"].get("precision")):
            file = document.start.machine.launch_file if document.start else None
            yield _compared(field, file.value.get("mixed_precision") if file else None, wanted, root)
        elif field == "precision":
            yield _compared(field, _precision(document.value), wanted, root)
        else:
            yield _compared(field, _first(document.value, NAMES[field]), wanted, root)


def _precision(value: Any) -> Any:
    for key in ("bf16", "fp16"):
        if value.get(key) is True:
            return key
    return _first(value, NAMES["precision"][2:])


def _first(value: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        found = value
        for step in name.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None


def of_run(launch: dict[str, Any], run: Run, root: str) -> Iterator[Judged]:
    values = {
        "model": run.model.name,
        "micro_batch_size": run.batch.micro_batch_size,
        "gradient_accumulation_steps": run.batch.gradient_accumulation_steps,
        "sequence_length": run.sequence.length,
        "precision": _SHORT_TYPES.get(str(run.precision.compute), UNKNOWN),
        "deepspeed": run.parallelism.engine,
        "fsdp": run.parallelism.engine,
    }
    tokens = dynamic_tokens(launch)
    for field, got in values.items():
        wanted = launch["fields"].get(field)
        if wanted is None or (field == "fsdp" and launch["fields"].get("deepspeed")):
            continue
        if isinstance(wanted, dict):
            for name, number in wanted.items():
                yield _compared(field, _part(run, name), number, root)
        elif field in ("deepspeed", "fsdp"):
            yield _compared(field, got, field, root)
        elif field == "precision":
            yield _compared(field, got, _SHORT_TYPES.get(wanted, wanted), root)
        elif field == "micro_batch_size" and tokens is not None:
            yield _compared(field, run.batch.max_tokens, tokens, root)
        else:
            yield _compared(field, got, wanted, root)


def _part(run: Run, name: str) -> Any:
    """Tokens of the prompt or of what is generated, as `name` of `PARTS` says."""
    if "prompt" in name:
        return run.sequence.max_prompt_length
    written = run.sequence.max_new_tokens
    return UNKNOWN if run.sequence.length is UNKNOWN and not written else written


def dynamic_tokens(launch: dict[str, Any]) -> int | None:
    """Tokens of one forward where verl fills them itself; None where it takes a number of sequences.

    Its SFT engine does so unless told otherwise, with 8192 tokens (verl 0.9.1
    trainer/config/sft_trainer_engine.yaml:19);
    its actor does where `use_dynamic_bsz` is set, with 16384 (trainer/config/actor/actor.yaml:33).
    """
    if launch["family"] != "verl":
        return None
    sft = launch["entry"] == "verl.trainer.sft_trainer"
    group, bound = ("data.", 8192) if sft else ("actor_rollout_ref.actor.", 16384)
    words = dict(word.split("=", 1) for word in launch["argv"] if "=" in word)
    if words.get(f"{group}use_dynamic_bsz", str(sft)).lower() != "true":
        return None
    return int(words.get(f"{group}{'' if sft else 'ppo_'}max_token_len_per_gpu", bound))


def _compared(field: str, got: Any, wanted: Any, root: str) -> Judged:
    marker = isinstance(wanted, str) and wanted.startswith("<")
    is_path = isinstance(wanted, str) and "/" in wanted
    if is_path and interpolated(got) and posixpath.basename(got) == posixpath.basename(wanted):
        return Judged(field, "right", got, wanted)  # `runs/$(date)/zero3.json`
    if got is None or got is UNKNOWN or (interpolated(got) and not _same(got, wanted, root)):
        return Judged(field, "right" if marker else "unknown", got, wanted)
    return Judged(field, "right" if _same(got, wanted, root) else "wrong", got, wanted)


def _same(got: Any, wanted: Any, root: str) -> bool:
    if isinstance(got, dict) and isinstance(wanted, str):
        return True  # a preset, filled in
    if isinstance(got, str) and isinstance(wanted, str):
        plain = got.replace(root, "/repo").replace("~", "/home/user")
        return posixpath.normpath(plain) == posixpath.normpath(wanted) or _tail(plain) == _tail(wanted)
    return got == wanted or str(got) == str(wanted)


def _tail(path: str) -> str:
    """The last two parts of a path: authors' folders differ by the machine that the truth was made on."""
    return "/".join(posixpath.normpath(path).split("/")[-2:])


def _count(
    group: str,
    row: dict[str, Any],
    judged: tuple[Judged, ...],
    counts: dict[str, collections.Counter[str]],
    verbose: bool,
) -> None:
    bad = [one for one in judged if one.verdict != "right"]
    counts[group]["not all right" if bad else "all right"] += 1
    for one in judged:
        counts[group][one.verdict] += 1
    for one in bad if verbose else ():
        print(f"{group}: {row['repo']} {row['path']} {one.field}: {one.verdict}, {one.got!r} for {one.wanted!r}")


if __name__ == "__main__":
    sys.exit(main())
