"""`memlint diff` over the history of a team: what each commit does to the memory of the runs it changes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from memlint.report.comparison import markdown as diff_markdown
from memlint.report.comparison.model import DiffReport, FileDiff
from tests.commands.history import FULL, LLAMA, Repository, deepspeed, team
from tests.commands.running import ROOT, memlint

QUOTING = ("diff.md", "recipes/pull-request.md", "editors.md")  # pages with figures of a branch that changes examples
SCHEMA = json.loads((ROOT / "schemas" / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, list[str]]:
    return team(tmp_path_factory.mktemp("team") / "repository")


def diff(repository: Repository, *arguments: str) -> dict[str, Any]:
    done = memlint(repository.folder, "diff", *arguments, "--format", "json")
    assert done.err == ""
    told: dict[str, Any] = json.loads(done.out)
    jsonschema.Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": "#/$defs/diff"}]}).validate(told)
    return told


def commit(history: tuple[Repository, list[str]], number: int) -> dict[str, Any]:
    repository, commits = history
    return diff(repository, commits[number - 1], commits[number])


def test_every_commit_is_told_for_what_it_does(history: tuple[Repository, list[str]]) -> None:
    assert len(history[1]) >= 10
    told = {
        number: [(file["path"], file["status"], file["regression"]) for file in commit(history, number)["files"]]
        for number in range(1, len(history[1]))
    }

    lora, full, dpo, moved = (
        f"configs/{name}.yaml" for name in ("lora/support", "full/support", "dpo/preferences", "dpo/tickets")
    )
    assert told == {
        1: [("configs/deepspeed/shared.json", "added", False), (full, "added", False)],
        2: [(dpo, "added", False)],
        3: [(lora, "changed", False)],
        4: [(lora, "changed", True)],
        5: [(full, "affected", False)],
        6: [],
        7: [(moved, "renamed", True)],
        8: [(lora, "changed", True)],
        9: [(full, "affected", True)],  # lora has not started since 8, and its samples need not be so long
        10: [(lora, "changed", False)],
        11: [],
    }


def test_a_run_says_what_grew_and_why(history: tuple[Repository, list[str]]) -> None:
    (file,) = commit(history, 4)["files"]
    (run,) = file["runs"]

    assert run["trend"] == "worse"
    assert (run["before"]["verdict"], run["after"]["verdict"]) == ("fits", "out_of_memory")
    assert run["device_delta_bytes"] == run["after"]["peak"]["device_bytes"] - run["before"]["peak"]["device_bytes"] > 0
    assert run["components"][0]["name"] == "logits"
    (change,) = run["changes"]
    assert (change["name"], change["before"], change["after"]) == ("per_device_train_batch_size", "1", "8")
    assert change["place"] == "configs/lora/support.yaml:18"
    assert change["alone_delta_bytes"] == run["device_delta_bytes"]
    assert file["new"][0]["fixes"]


@pytest.fixture(scope="module")
def cardless(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """What most branches do to most repositories, where nobody named a card."""
    repository = Repository(tmp_path_factory.mktemp("cardless") / "repository")
    vague = LLAMA.replace("meta-llama/Meta-Llama-3-8B", "us/our-own")
    repository.write({"a.yaml": LLAMA, "b.yaml": LLAMA, "gone.yaml": LLAMA, "vague.yaml": vague})
    repository.commit("first")
    repository.edit("a.yaml", lambda text: text.replace("batch_size: 1", "batch_size: 4"))
    repository.edit("b.yaml", lambda text: text.replace("batch_size: 1", "batch_size: 99"))
    repository.edit("vague.yaml", lambda text: text.replace("batch_size: 1", "batch_size: 4"))
    repository.write({"new.yaml": LLAMA})
    (repository.folder / "gone.yaml").unlink()
    return repository


def test_without_a_card_the_text_says_which_one_it_takes(cardless: Repository) -> None:
    told = memlint(cardless.folder, "diff", "HEAD").out
    b, a, gone, new, vague = ("\n".join(part.splitlines()[1:]) for part in told.split("\n\n")[:5])

    assert re.search(r"peak  [\d.]+ -> [\d.]+ GiB \([\d.]+ - [\d.]+\), \+[\d.]+: smallest common card A100-40GB\n", a)
    assert "needs L4 before, A100-40GB now\n" in a
    assert re.search(r"peak  .*: no common card holds it\n", b)
    assert "needs L4 before, none now\n" in b
    assert re.fullmatch(r"  peak  [\d.]+ GiB \([\d.]+ - [\d.]+\): smallest common card L4", gone)
    assert gone == new
    assert (
        "peak  not estimated, because model.architecture is unknown: `us/our-own` is not in memlint's catalog" in vague
    )
    assert "why   per_device_train_batch_size 1 -> 4 (vague.yaml:18)" in vague


def test_without_a_card_the_table_says_which_one_it_takes(cardless: Repository) -> None:
    told = memlint(cardless.folder, "diff", "HEAD", "--format", "markdown").out
    rows = {row.split("|")[1].strip(): row.split("|")[5].strip() for row in told.splitlines() if row.count("|") == 7}

    assert {name: rows[name] for name in rows if ".yaml" in name} == {
        "a.yaml": "needs L4 → needs A100-40GB",
        "b.yaml": "needs L4 → ❌ no common card holds it",
        "gone.yaml *(removed)*": "needs L4",
        "new.yaml *(added)*": "needs L4",
    }
    assert "- smallest common card: L4 before, none now" in told
    assert "Not estimated, because model.architecture is unknown: " in told


def test_a_json_that_changes_alone_changes_the_runs_that_use_it(history: tuple[Repository, list[str]]) -> None:
    (file,) = commit(history, 5)["files"]

    assert file["via"] == ["configs/deepspeed/shared.json"]
    assert file["runs"][0]["device_delta_bytes"] > 0
    assert file["runs"][0]["changes"][0]["name"] == "zero_optimization.stage"


def test_findings_that_come_and_go(history: tuple[Repository, list[str]]) -> None:
    broken, mended = commit(history, 8)["files"][0], commit(history, 10)["files"][0]

    assert [item["rule"] for item in broken["new"]] == ["CFG001"]
    assert "CFG001" in [item["rule"] for item in mended["resolved"]]
    assert mended["new"] == []


def test_a_renamed_config_is_compared_with_itself(history: tuple[Repository, list[str]]) -> None:
    (file,) = commit(history, 7)["files"]

    assert file["old_path"] == "configs/dpo/preferences.yaml"
    assert file["runs"][0]["before"]["path"] == "configs/dpo/preferences.yaml"


def test_settings_of_each_side_hold_for_it(history: tuple[Repository, list[str]]) -> None:
    told = commit(history, 9)
    file = told["files"][0]

    assert [file["runs"][0][side]["hardware"]["gpu"] for side in ("before", "after")] == ["A100-80GB", "A100-40GB"]
    assert [(c["name"], c["place"]) for c in file["runs"][0]["changes"]] == [("gpu", "memlint.yaml:1")]
    assert told["unaffected"] == 3


def test_the_whole_branch_as_a_comment(history: tuple[Repository, list[str]]) -> None:
    repository, commits = history

    text = memlint(repository.folder, "diff", commits[2], commits[-1], "--format", "markdown").out

    assert text.startswith("<!-- memlint-diff -->\n### ")
    assert text.count("<details") == text.count("</details>") >= 2
    assert "configs/dpo/tickets.yaml" in text


def test_only_regressions_fail_and_only_when_asked(history: tuple[Repository, list[str]]) -> None:
    repository, commits = history

    worse, better = (commits[3], commits[4]), (commits[9], commits[10])
    assert memlint(repository.folder, "diff", *worse, "--fail-on", "regression").code == 1
    assert memlint(repository.folder, "diff", *worse).code == 0
    assert memlint(repository.folder, "diff", *better, "--fail-on", "regression").code == 0


def test_the_working_tree_is_the_other_side_and_stays_as_it_is(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    repository.write({"a.yaml": FULL, "configs/deepspeed/shared.json": deepspeed(3), "sub/README": ""})
    repository.commit("first")
    repository.write({"configs/deepspeed/shared.json": deepspeed(2), "new.yaml": FULL})
    before = repository.git("status", "--porcelain")

    told = diff(repository, "HEAD", "--gpu", "H100", "--gpus", "8")
    below = json.loads(memlint(repository.folder / "sub", "diff", "HEAD", "--format", "json").out)

    assert [(file["path"], file["status"]) for file in told["files"]] == [("a.yaml", "affected"), ("new.yaml", "added")]
    assert [file["path"] for file in below["files"]] == ["a.yaml", "new.yaml"]
    assert repository.git("status", "--porcelain") == before


def test_what_happened_on_the_base_since_is_not_the_branch_s(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    repository.write({"a.yaml": FULL, "configs/deepspeed/shared.json": deepspeed(3)})
    repository.commit("first")
    repository.git("checkout", "-q", "-b", "branch")
    repository.write({"README": "x"})
    repository.commit("words")
    repository.git("checkout", "-q", "main")
    repository.write({"configs/deepspeed/shared.json": deepspeed(2)})
    repository.commit("elsewhere")

    assert diff(repository, "main", "branch")["files"] == []
    assert [file["path"] for file in diff(repository, "main", "branch", "--direct")["files"]] == ["a.yaml"]


def test_links_and_folders_of_a_commit_are_followed_and_nothing_outside(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text(deepspeed(2))
    repository = Repository(tmp_path / "repository")
    repository.write({"a.yaml": FULL, "b.yaml": FULL.replace("shared.json", "out.json"), "real.json": deepspeed(3)})
    (repository.folder / "configs/deepspeed").mkdir(parents=True)
    (repository.folder / "configs/deepspeed/shared.json").symlink_to("../../real.json")
    (repository.folder / "configs/deepspeed/out.json").symlink_to("../../../outside.json")
    first = repository.commit("links")
    repository.write({"real.json": deepspeed(2), "b.yaml": FULL.replace("shared.json", "out.json") + "seed: 1\n"})
    second = repository.commit("the file behind the link")

    told = {file["path"]: file for file in diff(repository, first, second, "--gpu", "H100", "--gpus", "8")["files"]}

    assert told["a.yaml"]["runs"][0]["device_delta_bytes"] > 0
    assert "b.yaml" not in told


def test_a_run_that_cannot_be_estimated_is_told_all_the_same(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    repository.write({"a.yaml": FULL, "configs/deepspeed/shared.json": deepspeed(3)})
    repository.commit("first")
    repository.write({"configs/deepspeed/shared.json": deepspeed(2)})

    told = memlint(repository.folder, "diff", "HEAD").out

    assert (
        "a.yaml (through configs/deepspeed/shared.json)\n  peak  not estimated, because parallelism.world_size is"
        in told
    )
    assert "why   zero_optimization.stage 3 -> 2" in told


@pytest.mark.parametrize("base", ["nowhere", "--output=x", "HEAD^{tree}", ""])
def test_names_that_are_no_commits_are_refused(history: tuple[Repository, list[str]], base: str) -> None:
    done = memlint(history[0].folder, "diff", base)

    assert done.code == 2
    assert "Traceback" not in done.err


def test_outside_of_a_repository(tmp_path: Path) -> None:
    done = memlint(tmp_path, "diff", "main", environment={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("memlint: git rev-parse:")


def test_a_comment_is_never_longer_than_github_takes() -> None:
    files = tuple(FileDiff(f"{'x' * 900}{number}.yaml", "changed", resolved=()) for number in range(2000))

    assert len(diff_markdown.render(DiffReport("main", "HEAD", files, "0.1.0"))) < 65_536


def test_pages_show_what_diff_prints(tmp_path: Path) -> None:
    """docs/diff.md shows a branch that changes two examples; other pages quote its first run."""
    repository = Repository(tmp_path / "repository")
    shutil.copytree(ROOT / "examples", repository.folder / "examples")
    repository.commit("examples")
    config, batch = "examples/llamafactory/llama3_8b_full_zero3.yaml", "per_device_train_batch_size: "
    table = memlint(repository.folder, "estimate", config).out
    repository.edit(config, lambda text: text.replace(f"{batch}2", f"{batch}8"))
    repository.edit("examples/deepspeed/zero2_offload.json", lambda text: text.replace('"stage": 2', '"stage": 1'))
    said = memlint(repository.folder, "diff", "HEAD").out.replace("HEAD..", "main..")

    pages = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in QUOTING}
    assert f"$ memlint diff main\n{said}```" in pages["diff.md"]
    assert f"`{said.splitlines()[1].strip().replace('peak  ', 'peak ')}`" in pages["recipes/pull-request.md"]
    figure = re.search(r"fits: (\S+ GiB \([^)]*\))", table)
    assert figure and f"`{figure[1]} on 8 x A100-80GB: fits`" in pages["editors.md"]
