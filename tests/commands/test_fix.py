"""`memlint fix`, `plan`, `explain` and `new-rule` from the outside."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.proposed_change import QUALITIES
from tests.commands.running import ROOT, memlint

CARD = ("--gpu", "RTX4090", "--gpus", "1", "--isolated")


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "files")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path / "files", check=True)
    return tmp_path / "files"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def test_a_patch_writes_nothing_and_applies_to_what_fix_writes(examples: Path, tmp_path: Path) -> None:
    before = contents(examples)
    shown = memlint(examples, "fix", ".", "--unsafe", "--diff", *CARD)
    assert shown.code == 1, shown.err
    assert contents(examples) == before

    other = tmp_path / "other"
    shutil.copytree(examples, other)
    (tmp_path / "it.patch").write_text(shown.out, encoding="utf-8", newline="")
    subprocess.run(["git", "apply", str(tmp_path / "it.patch")], cwd=other, check=True)
    memlint(examples, "fix", ".", "--unsafe", *CARD)

    assert contents(examples) == contents(other) != before


def test_a_second_time_changes_nothing(examples: Path) -> None:
    memlint(examples, "fix", ".", "--unsafe", *CARD)
    once = contents(examples)
    assert "0 fixed in 0 files" in memlint(examples, "fix", ".", "--unsafe", *CARD).err
    assert contents(examples) == once


def test_only_safe_fixes_unasked(examples: Path) -> None:
    told = memlint(examples, "fix", "llamafactory/llama3_8b_full_sft.yaml", *CARD).err
    assert "PRE004 fixed" not in told
    assert "enable_liger_kernel: true" in (examples / "llamafactory/llama3_8b_full_sft.yaml").read_text()


def test_only_the_named_rule(examples: Path) -> None:
    told = memlint(examples, "fix", ".", "--unsafe", "--rule", "ATT001", *CARD).err
    assert [line.split()[1] for line in told.splitlines() if " fixed: " in line] == ["ATT001"]


def test_a_patch_says_what_would_be_fixed(examples: Path) -> None:
    told = memlint(examples, "fix", "llamafactory/llama3_8b_full_sft.yaml", "--diff", *CARD).err.splitlines()
    assert "llamafactory/llama3_8b_full_sft.yaml: MEM003 would be fixed: use Liger's fused linear cross-entropy" in told
    assert told[-1] == "memlint: 1 would be fixed in 1 file"


def test_line_ends_stay(examples: Path) -> None:
    path = examples / "llamafactory/llama3_8b_full_sft.yaml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n").rstrip())
    memlint(examples, "fix", str(path), *CARD)
    data = path.read_bytes()
    assert b"enable_liger_kernel: true" in data
    assert data.count(b"\n") == data.count(b"\r\n")


@pytest.mark.parametrize(
    ("old", "new"), [(b"a\r\nb", b"a\r\nc"), (b"a\n", b"a"), (b"a", b"a\n"), (b"a\x0cb\n\xff\n", b"a\x0cb\n\xfe\n")]
)
def test_git_takes_any_bytes(tmp_path: Path, old: bytes, new: bytes) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    (tmp_path / "x.yaml").write_bytes(old)
    subprocess.run(["git", "apply", "-"], input=patch("x.yaml", old, new), cwd=tmp_path, check=True)
    assert (tmp_path / "x.yaml").read_bytes() == new


def test_a_plan_as_json(examples: Path) -> None:
    done = memlint(examples, "plan", "llamafactory/qwen2_5_7b_lora_sft.yaml", "--format", "json", *CARD)
    (row,) = json.loads(done.out)["runs"]
    assert done.code == 0
    assert row["verdict"] == "fits"
    batch = row["max_micro_batch"]
    assert 1 <= batch["power_of_two"] <= batch["exact"] < 2 * batch["power_of_two"]


def test_planned_is_what_the_files_say_when_written(examples: Path) -> None:
    name = "trainer/sft_full_llama3_8b.yaml"
    card = ("--gpu", "A100-80GB", "--gpus", "1", "--isolated")
    (row,) = json.loads(memlint(examples, "plan", name, "--format", "json", *card).out)["runs"]
    (checked,) = json.loads(memlint(examples, "check", name, "--format", "json", "--select", "MEM001", *card).out)[
        "findings"
    ]
    planned = {plan["title"]: plan["after"]["figure"] for plan in row["plans"]}

    assert planned
    assert planned == {fix["title"]: fix["after"]["device_bytes"] for fix in checked["fixes"] if fix["edits"]}


def test_the_least_risky_plan_stands_first_and_faster_ones_before_slower(examples: Path) -> None:
    """On eight cards sharding changes nothing in the result, though an adapter takes shorter steps."""
    card = ("--gpu", "A100-80GB", "--gpus", "8", "--isolated")
    done = memlint(examples, "plan", "trainer/sft_full_llama3_8b.yaml", "--format", "json", *card)
    (row,) = json.loads(done.out)["runs"]
    ranks = [(QUALITIES.index(plan["quality"]), plan["speed"]) for plan in row["plans"]]

    assert ranks == sorted(ranks)
    assert ranks[0][0] == 0 < ranks[1][0]
    assert ranks[1][1] < ranks[0][1]


def test_a_rule_and_a_line_are_explained(examples: Path) -> None:
    assert "The run needs more memory than the card has" in memlint(examples, "explain", "MEM001").out
    path = "trainer/sft_full_llama3_8b.yaml"
    out = memlint(examples, "explain", f"{path}:13", *CARD).out
    assert "MEM001" in out
    assert f"batch.micro_batch_size = 2  <- {path}:13" in out
    assert memlint(examples, "explain", f"{path}:1", *CARD).code == 2


def test_a_new_rule_loads_and_its_examples_run(tmp_path: Path) -> None:
    assert memlint(tmp_path, "new-rule", "memory/of-my-own").code == 0
    assert memlint(tmp_path, "test", "rules").out == "2 examples, 0 broken\n"
    assert memlint(tmp_path, "new-rule", "Not A Rule").code == 2


RULE = """
id: {id}
name: memory/batch-of-{number}
title: Batches that contradict each other
severity: warning
when: batch.micro_batch_size == {number}
at: [batch.micro_batch_size]
message: the batch is of {number} sequences
why: Two rules of one folder want what the other forbids.
sources: ["tests, for want of a better one"]
fix:
  - {{title: the other batch, set: {{batch.micro_batch_size: {other}}}, safe: true}}
examples:
  - {{fails: "per_device_train_batch_size: {number}", format: trainer, file: sft.yaml}}
  - {{passes: "per_device_train_batch_size: {other}", format: trainer, file: sft.yaml}}
"""


def test_a_fix_that_brings_another_finding_is_refused_and_others_go_on(examples: Path) -> None:
    (examples / "rules").mkdir()
    for name, number, other in (("MEM901", 1, 2), ("MEM902", 2, 1)):
        (examples / f"rules/{name}.yaml").write_text(RULE.format(id=name, number=number, other=other))
    (examples / "memlint.yaml").write_text("rules_dirs: [rules]\n")
    contradicted = examples / "a.yaml"
    contradicted.write_text(
        "model_name_or_path: Qwen/Qwen2.5-1.5B\nuse_peft: true\nload_in_4bit: true\nmax_length: 1024\nbf16: true\n"
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 1\nlearning_rate: 0.0001\noutput_dir: out\n"
        "num_train_epochs: 1\n"
    )
    before = contradicted.read_bytes()

    done = memlint(examples, "fix", "a.yaml", "llamafactory/llama3_8b_full_sft.yaml", *CARD[:-1])

    assert done.code != 2, done.err
    assert "MEM901 not fixed: it would bring the warning MEM902 (" in done.err
    assert contradicted.read_bytes() == before
    assert "enable_liger_kernel: true" in (examples / "llamafactory/llama3_8b_full_sft.yaml").read_text()


def test_a_rules_page_has_what_its_file_has(examples: Path) -> None:
    shown = memlint(examples, "explain", "memory/full-logits").out
    for part in (
        "Why",
        "When",
        "Fix",
        "Fails",
        "Passes",
        "Sources",
        "# memlint: ignore[MEM003]",
        "rules/memory/MEM003",
    ):
        assert part in shown

    said = json.loads(memlint(examples, "explain", "MEM003", "--format", "json").out)
    assert said["examples"][0]["fails"].startswith("model_name_or_path")
    assert said["fixes"][0]["safe"] is True and said["sources"]
    for rule in ("MEM011", "CFG001", "SUP001"):  # in Python, of a format, about suppressions
        assert memlint(examples, "explain", rule).out.startswith(rule)


def test_the_numbers_behind_a_file_as_json(examples: Path) -> None:
    path = "llamafactory/qwen2_5_1_5b_eager_long.yaml"
    said = json.loads(memlint(examples, "explain", path, "--format", "json", *CARD).out)
    assert {item["rule"] for item in said["findings"]} >= {"MEM001"}
    (run,) = said["runs"]
    origins = {item["field"]: item["origin"] for item in run["assumptions"]}
    assert origins["sequence.length"].startswith(f"{path}:15:")
    assert run["peak"]["allocated_bytes"] == max(phase["allocated_bytes"] for phase in run["phases"])
    estimated = json.loads(memlint(examples, "estimate", path, "--format", "json", *CARD).out)["runs"][0]
    assert estimated["phases"] == run["phases"]
