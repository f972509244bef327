"""What the last lines of the text say of what memlint could not judge, and how ways out are described."""

from __future__ import annotations

from pathlib import Path

from memlint.card_bytes import CardBytes
from memlint.findings import Fix
from memlint.report.text import describe_fix
from tests.commands.history import LLAMA
from tests.commands.running import memlint, write

GIB = 1 << 30


def test_a_run_without_a_card_is_told_how_to_name_one(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA})
    assert "no GPU is named for the run, so memlint does not say whether it fits: --gpu " in memlint(tmp_path, ".").out
    assert "no GPU is named" not in memlint(tmp_path, ".", "--gpu", "H100-80GB").out


def test_files_that_are_no_configs_are_told_as_such(tmp_path: Path) -> None:
    write(tmp_path, {"compose.yaml": "services: {}\n"})
    assert "no config that memlint knows" in memlint(tmp_path, "compose.yaml").out
    assert "no config that memlint knows" not in memlint(tmp_path, ".", "--exclude", "*.yaml").out


def test_a_folder_without_files_is_told(tmp_path: Path) -> None:
    assert memlint(tmp_path, ".").out.startswith("no file to check: memlint reads YAML")


def test_a_way_out_says_what_changes() -> None:
    hundred, ninety = (CardBytes(size * GIB, 85 * GIB, 110 * GIB, 110 * GIB, 80 * GIB) for size in (100, 90))
    less = Fix("x", before=hundred, after=ninety, verdict_after="out_of_memory")
    assert describe_fix(less) == "x; still out of memory: peak 100.0 -> 90.00 GiB (85.00 - 110.0 of 80.00)"
    other_card = Fix("use H200", before=hundred, verdict_after="fits")
    assert describe_fix(other_card) == "use H200; fits"
    no_card = Fix("x", before=hundred, after=ninety._replace(usable=0), verdict_after="unknown")
    assert describe_fix(no_card) == "x; peak 100.0 -> 90.00 GiB (85.00 - 110.0)"
    slow = Fix("x", before=hundred, after=ninety._replace(usable=0), verdict_after="unknown", speed=7.22)
    assert describe_fix(slow).endswith("; a step takes about 7.2 times as long")
    more = Fix("x", before=ninety, after=hundred, verdict_after="out_of_memory")
    assert describe_fix(more) == "x; out of memory: peak 90.00 -> 100.0 GiB (85.00 - 110.0 of 80.00)"


def test_a_place_is_not_shown_twice(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA.replace("finetuning_type: lora", "finetuning_type: full")})
    told = memlint(tmp_path, "train.yaml", "--gpu", "A100-80GB", "--gpus", "1", "--select", "OPT001").out
    assert "OPT001" in told and "see train.yaml:8:18" not in told


def test_explain_shows_values_and_not_the_insides_of_rules(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA.replace("finetuning_type: lora", "finetuning_type: full")})
    told = memlint(tmp_path, "explain", "train.yaml", "--gpu", "A100-80GB", "--gpus", "1").out
    assert "certain = True" not in told and "Quantization(" not in told and "catalog: catalog" not in told
    assert "states = 64242238976 (59.83 GiB)" in told
    assert "model.quantization = none" in told
    assert "  fix 1: " in told and ": peak " in told


def test_a_run_that_cannot_be_estimated_says_why(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA.replace("meta-llama/Meta-Llama-3-8B", "us/our-own")})
    assert "not estimated: model.architecture: `us/our-own` is not in" in memlint(tmp_path, "plan", "train.yaml").out
    assert "\nTerms" not in memlint(tmp_path, "explain", "train.yaml").out


def test_the_only_run_says_what_it_takes_where_no_finding_does(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA, "more/train.yaml": LLAMA})
    cardless = memlint(tmp_path, "train.yaml").out
    assert cardless.startswith("train.yaml: on the card ") and "; smallest common cards that hold it: " in cardless
    assert memlint(tmp_path, "train.yaml", "--gpu", "H100-80GB", "--gpus", "1").out.startswith("train.yaml: fits: ")
    assert "on the card" not in memlint(tmp_path, "train.yaml", "more/train.yaml").out
    assert "fits: " not in memlint(tmp_path, "train.yaml", "--gpu", "8GiB", "--gpus", "1").out.splitlines()[-2]
