"""Python scripts, notebooks and own configuration files against values read by hand.

`python benchmarks/corpus/python_runs.py DATA [-v]`. DATA holds `truth.jsonl`, one row for a script (kind `python`) or a
configuration file (kind `own_yaml`) with eleven fields that somebody read out of the code, and `repos/`, the files of
each repository. Of each row the run that resembles it most counts. Printed are the shares of fields that are right,
unknown (the script decides, or memlint does not follow it), and wrong; and how many repositories have a run. The values
are those of a start without arguments: where a command of the repository sets another one, it is counted apart.

`--nothing FOLDER` counts the runs that are found among all Python files below a folder where nothing is launched, such
as an environment's site-packages.
"""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.repository.workspace import on_disk
from memlint.source.document import Document

RIGHT, UNKNOWN, WRONG, MISSING = "right", "unknown", "wrong", "missing"
COMMANDED = "set by a command of the repository"


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("data", type=Path, nargs="?", help="a folder with truth.jsonl and repos/")
    arguments.add_argument(
        "--nothing", type=Path, metavar="FOLDER", help="count false runs among Python that launches none"
    )
    arguments.add_argument("-v", "--verbose", action="store_true", help="print each field that is not right")
    given = arguments.parse_args()
    if given.nothing:
        print(_false_runs(given.nothing))
    if given.data:
        rows = [json.loads(line) for line in (given.data / "truth.jsonl").read_text(encoding="utf-8").splitlines()]
        for kind in ("python", "own_yaml"):
            _report(kind, [row for row in rows if row["kind"] == kind], given.data / "repos", given.verbose)
    return 0


def _report(kind: str, rows: list[dict[str, Any]], repositories: Path, verbose: bool) -> None:
    counts: collections.Counter[str] = collections.Counter()
    found_in: set[str] = set()
    for row in rows:
        judged = _judged(row, repositories)
        if judged is None:
            counts["without a run"] += 1
            continue
        found_in.add(row["repo"])
        for field, verdict, text in judged:
            counts[verdict] += 1
            if verbose and verdict != RIGHT:
                print(f"  {row['repo']} {row['path']} {field}: {verdict} {text}")
    fields = sum(counts[word] for word in (RIGHT, UNKNOWN, MISSING, WRONG, COMMANDED))
    shares = ", ".join(
        f"{word} {100 * counts[word] / max(1, fields):.1f} %" for word in (RIGHT, UNKNOWN, MISSING, WRONG, COMMANDED)
    )
    with_run = len(rows) - counts["without a run"]
    repositories_in_all = len({row["repo"] for row in rows})
    print(
        f"{kind}: {with_run} of {len(rows)} files and {len(found_in)} of {repositories_in_all} repositories have a run"
    )
    print(f"  {fields} fields of those: {shares}")


def _judged(row: Mapping[str, Any], repositories: Path) -> list[tuple[str, str, str]] | None:
    """Each field with its verdict, of the run that is most like the row; None where there is no run."""
    root = repositories / row["repo"].replace("/", "+")
    workspace = on_disk(str(root), str(root))
    documents = workspace.config_runs(row["path"]) if row["kind"] == "own_yaml" else workspace.documents(row["path"])
    ways = [list(_fields(row["fields"], document)) for document in documents]
    return max(ways, key=lambda one: sum(verdict == RIGHT for _, verdict, _ in one), default=None)


def _fields(truth: Mapping[str, Mapping[str, Any]], document: Document) -> Iterator[tuple[str, str, str]]:
    found = _values(document)
    for field, wanted in truth.items():
        got = found.get(field)
        verdict = _verdict(wanted, got)
        if verdict == WRONG and document.start is not None and document.start.values.is_commanded:
            verdict = COMMANDED
        yield field, verdict, f"{got!r}, not {wanted['value']!r}"


def _verdict(wanted: Mapping[str, Any], got: Any) -> str:
    value, is_unsaid = wanted["value"], wanted["how"] in ("not said", "not knowable")
    if got is UNKNOWN:
        return RIGHT if wanted["how"] == "not knowable" else UNKNOWN
    if is_unsaid and value is None:
        return RIGHT if got in (None, False, "") else WRONG
    return RIGHT if _same(value, got) else MISSING if got is None else WRONG


def _same(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, dict) and not isinstance(got, dict):  # what depends on the card
        return any(_same(one, got) for one in wanted.values())
    if wanted in (None, False, "no mixed precision", "fp32"):
        return got in (None, False, "")
    if wanted == "unsloth":
        return got is True
    return bool(wanted == got) or str(wanted).rstrip("/").endswith(str(got).removeprefix("./").rstrip("/") or "?")


def _values(document: Document) -> dict[str, Any]:
    """The eleven fields, as the keys of a run's document say them."""
    value = document.value
    unknown = {str(path[0]) for path in document.start.values.unknown} if document.start is not None else set()

    def of(*names: str) -> Any:
        name = next((name for name in names if name in value), None)
        return None if name is None else UNKNOWN if name in unknown else value[name]

    length = of("max_length", "max_seq_length")
    if "max_completion_length" in value and length is None:
        length = {name: of(name) for name in ("max_prompt_length", "max_completion_length") if name in value}
    return {
        "model": of("model_name_or_path"),
        "micro_batch_size": of("per_device_train_batch_size"),
        "gradient_accumulation_steps": of("gradient_accumulation_steps"),
        "sequence_length": length,
        "precision": _precision(of("bf16"), of("fp16")),
        "gradient_checkpointing": of("gradient_checkpointing"),
        "deepspeed": of("deepspeed"),
        "fsdp": of("fsdp"),
        "lora_rank": of("lora_r") if of("use_peft") is not False else None,
        "quantization": _quantization(of("load_in_4bit"), of("load_in_8bit")),
        "optimizer": of("optim"),
    }


def _precision(bf16: Any, fp16: Any) -> Any:
    if UNKNOWN in (bf16, fp16):
        return UNKNOWN
    return "bf16" if bf16 is True else "fp16" if fp16 is True else None


def _quantization(four: Any, eight: Any) -> Any:
    if UNKNOWN in (four, eight):
        return UNKNOWN
    return "4bit" if four is True else "8bit" if eight is True else None


def _false_runs(folder: Path) -> str:
    workspace = on_disk(str(folder), str(folder))
    files = [path for path in folder.rglob("*.py") if path.is_file()]
    runs = list(_runs(workspace, (str(path.relative_to(folder)) for path in files)))
    return f"{len(files)} Python files: {len(runs)} runs" + "".join(f"\n  {run}" for run in runs)


def _runs(workspace: Any, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        for document in workspace.documents(path):
            yield f"{path}: {document.value.get('model_name_or_path')}"


if __name__ == "__main__":
    sys.exit(main())
