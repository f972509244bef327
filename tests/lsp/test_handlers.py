"""A session of the language server with a real client: what it says is what the command line says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from memlint.lsp.handlers import logged
from memlint.lsp.server import MemlintServer
from tests.commands.running import memlint
from tests.lsp.editor import Editor, editor

EXAMPLES = Path(__file__).parents[2] / "examples"
FULL = (EXAMPLES / "llamafactory" / "llama3_8b_full_sft.yaml").read_text("utf-8")
ZERO2 = (EXAMPLES / "deepspeed" / "train_zero2.yaml").read_text("utf-8")
ZERO2_JSON = (EXAMPLES / "deepspeed" / "zero2.json").read_text("utf-8")
QLORA = (EXAMPLES / "python" / "train_qlora.py").read_text("utf-8")
SCRIPT = (EXAMPLES / "scripts" / "train_7b.sh").read_text("utf-8")
PROGRAM = (EXAMPLES / "scripts" / "train_full.py").read_text("utf-8")
SCRIPT_JSON = (EXAMPLES / "scripts" / "zero2.json").read_text("utf-8")
OWN = """\
model:
  name: Qwen/Qwen2.5-7B
train:
  batch_size: 8
  lr: 1.0e-5
"""
OWN_READER = """\
import sys
import yaml
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

config = yaml.safe_load(open(sys.argv[1]))
model = AutoModelForCausalLM.from_pretrained(config["model"]["name"])
args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=config["train"]["batch_size"],
    learning_rate=config["train"]["lr"],
    bf16=True,
)
Trainer(model=model, args=args).train()
"""
NOTEBOOK = json.dumps(
    {
        "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": QLORA}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    },
    indent=1,
)
# Each file kind that memlint reads: the file that is typed in, and what lies beside it.
KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "yaml": ("train.yaml", {"train.yaml": FULL}),
    "deepspeed": ("zero2.json", {"zero2.json": ZERO2_JSON}),
    "shell": ("train_7b.sh", {"train_7b.sh": SCRIPT, "train_full.py": PROGRAM, "zero2.json": SCRIPT_JSON}),
    "python": ("train_qlora.py", {"train_qlora.py": QLORA}),
    "notebook": ("train.ipynb", {"train.ipynb": NOTEBOOK}),
    "own yaml": ("configs/sft.yaml", {"configs/sft.yaml": OWN, "train.py": OWN_READER}),
}


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def command_line(folder: Path, name: str, *options: str) -> list[tuple[str, str, int]]:
    """(rule, message, line) of each finding in the file `name`, as `memlint check` reports them."""
    done = memlint(folder, "check", name, "--format", "json", *options)
    findings = json.loads(done.out)["findings"]
    return sorted(
        (one["rule"], one["message"], one["location"]["line"]) for one in findings if one["location"]["path"] == name
    )


async def server_says(window: Editor, name: str) -> list[tuple[str, str, int]]:
    return sorted((str(one.code), one.message, one.range.start.line + 1) for one in await window.findings(name))


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_says_what_the_command_line_says(tmp_path: Path, kind: str) -> None:
    name, files = KINDS[kind]

    async def scenario() -> None:
        async with editor(tmp_path, files, {"gpu": "RTX 4090", "gpus": 1}) as window:
            window.open(name)
            said = await server_says(window, name)
            assert said == command_line(tmp_path, name, "--gpu", "RTX 4090", "--gpus", "1")
            assert said or kind == "deepspeed"
            titles = await window.lenses(name)
            assert len(titles) == (kind != "deepspeed")
            assert all("GiB" in title and " on 1 x RTX 4090: " in title for title in titles) or kind == "own yaml"
            reason = "not estimated: the script decides: no length key: at least 56.7 GiB with sequences of one token"
            assert kind != "own yaml" or titles == [reason]
            assert window.log == ""

    play(scenario())


def test_unsaved_text_stands_for_the_file_and_for_companions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": ZERO2, "zero2.json": ZERO2_JSON}) as window:
            window.open("train.yaml")
            window.open("zero2.json")
            before = await window.lenses("train.yaml")
            window.replace("zero2.json", '"stage": 2', '"stage": 3')
            await window.lenses("zero2.json")
            after = await window.lenses("train.yaml")
            assert before != after
            assert await window.lenses("zero2.json") == [f"train.yaml: {after[0]}"]
            assert '"stage": 2' in (tmp_path / "zero2.json").read_text()
            window.close("zero2.json")
            assert await window.lenses("train.yaml") == before

    play(scenario())


def test_a_companion_that_only_the_editor_has(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": ZERO2}) as window:
            window.open("train.yaml")
            assert any("zero2.json" in one.message for one in await window.findings("train.yaml"))
            window.open("zero2.json", ZERO2_JSON)
            assert not any("zero2.json" in one.message for one in await window.findings("train.yaml"))

    play(scenario())


def test_a_finding_in_a_companion_stands_there_and_goes_with_its_config(tmp_path: Path) -> None:
    files = {"train.yaml": (EXAMPLES / "deepspeed" / "train_mismatched.yaml").read_text(), "mismatched.json": ""}
    files["mismatched.json"] = (EXAMPLES / "deepspeed" / "mismatched.json").read_text()

    async def scenario() -> None:
        async with editor(tmp_path, files) as window:
            window.open("train.yaml")
            await window.findings("train.yaml")
            shown = {one.code for one in window.client.diagnostics[window.uri("mismatched.json")]}
            assert shown == {rule for rule, _, _ in command_line(tmp_path, "mismatched.json")} | shown
            assert shown
            window.close("train.yaml")
            await window.lenses("train.yaml")
            assert not window.client.diagnostics[window.uri("mismatched.json")]

    play(scenario())


def test_the_newest_edit_wins(tmp_path: Path) -> None:
    """A hundred edits at once: what is shown in the end is of the last one."""

    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL}) as window:
            window.open("train.yaml")
            first = await window.lenses("train.yaml")
            for batch in range(1, 100):
                window.type(
                    "train.yaml",
                    FULL.replace("per_device_train_batch_size: 2", f"per_device_train_batch_size: {batch}"),
                )
            window.type("train.yaml", FULL)
            assert await window.lenses("train.yaml") == first
            assert await server_says(window, "train.yaml") == command_line(tmp_path, "train.yaml")

    play(scenario())


def test_a_hover_tells_what_half_and_double_would_take(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL}) as window:
            window.open("train.yaml")
            text = await window.hover("train.yaml", "per_device_train_batch_size")
            assert "| GiB | 2 (now) | 1 | 4 |" in text
            rows = {
                line.split(" | ")[0].strip("| "): line.split(" | ")[1:] for line in text.splitlines() if "|" in line
            }
            for batch, cell in zip((2, 1, 4), rows["on the card"]):
                window.type("train.yaml", FULL.replace("batch_size: 2", f"batch_size: {batch}"))
                (title,) = await window.lenses("train.yaml")
                assert title.startswith(cell.strip(" |"))
            assert "Activations" in text

    play(scenario())


def test_a_hover_over_what_changes_nothing_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL, "zero2.json": ZERO2_JSON}) as window:
            window.open("train.yaml")
            assert "it takes the same" in await window.hover("train.yaml", "learning_rate")
            assert await window.hover("train.yaml", "# memlint") == ""
            window.open("zero2.json")
            assert "GiB" not in await window.hover("zero2.json", '"stage"')  # no run has it

    play(scenario())


def test_a_fix_makes_its_figures_true(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL}) as window:
            window.open("train.yaml")
            line = next(one.range.start.line for one in await window.findings("train.yaml") if one.code == "MEM001")
            found = await window.actions("train.yaml", line)
            title = next(title for title in found if "train a LoRA adapter" in title)
            assert "; fits: peak 148.3 -> " in title
            action = found[title]
            assert isinstance(action, types.CodeAction) and action.edit is not None
            window.apply(action.edit)
            (lens,) = await window.lenses("train.yaml")
            assert lens.endswith(": fits")
            assert lens.split(" on ")[0] in title
            assert "MEM001" not in await window.rules("train.yaml")

    play(scenario())


SUPPRESSED = {
    "yaml": KINDS["yaml"],
    "python": KINDS["python"],
    "shell": KINDS["shell"],
    "one command": (
        "run.sh",
        {
            "run.sh": "torchrun --nproc_per_node 1 train_full.py \\\n  --model_name_or_path Qwen/Qwen2.5-7B \\\n"
            "  --per_device_train_batch_size 64 \\\n  --output_dir out\n",
            "train_full.py": PROGRAM,
        },
    ),
}


@pytest.mark.parametrize("kind", SUPPRESSED)
def test_a_suppression_hides_its_finding(tmp_path: Path, kind: str) -> None:
    name, files = SUPPRESSED[kind]

    async def scenario() -> None:
        async with editor(tmp_path, files, {"gpu": "RTX 4090", "gpus": 1}) as window:
            window.open(name)
            first = (await window.findings(name))[0]
            action = (await window.actions(name, first.range.start.line))[f"Suppress {first.code} here, with a reason"]
            assert isinstance(action, types.CodeAction) and action.edit is not None
            before = await window.rules(name)
            window.apply(action.edit)
            after = await window.rules(name)
            assert after.count(str(first.code)) == before.count(str(first.code)) - 1
            assert not [rule for rule in after if rule.startswith("SUP")]

    play(scenario())


def test_json_has_no_comments_to_suppress_with(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": ZERO2, "zero2.json": ZERO2_JSON}) as window:
            window.open("train.yaml")
            window.open("zero2.json")
            (finding,) = await window.findings("zero2.json")
            titles = list(await window.actions("zero2.json", finding.range.start.line))
            assert f"Explain {finding.code}" in titles
            assert not any(title.startswith("Suppress") for title in titles)

    play(scenario())


def test_explain_and_the_table_are_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL}) as window:
            window.open("train.yaml")
            await window.lenses("train.yaml")
            page = await window.command("memlint.explain", "MEM001", "train.yaml", 20)
            assert page.startswith("train.yaml:20:") and "\nWhy\n" in page and "fix 1" in page
            table = await window.command("memlint.showTable", "train.yaml", 0)
            assert table == memlint(tmp_path, "estimate", "train.yaml").out

    play(scenario())


def test_keys_are_completed_while_the_file_does_not_parse(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL}) as window:
            window.open("train.yaml")
            await window.lenses("train.yaml")
            window.type("train.yaml", f"{FULL}gradient_check")
            end = types.Position(FULL.count("\n"), len("gradient_check"))
            found = await window.complete("train.yaml", end)
            assert "gradient_checkpointing_kwargs" in found
            assert "per_device_train_batch_size" not in found
            window.type("train.yaml", f"{FULL}enable_liger_kernel: ")
            end = types.Position(FULL.count("\n"), len("enable_liger_kernel: "))
            assert [*await window.complete("train.yaml", end)] == ["false", "true"]

    play(scenario())


def test_the_card_is_selected_in_the_editor(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL}) as window:
            window.open("train.yaml")
            assert "on 1 x A100-80GB" in (await window.lenses("train.yaml"))[0]
            assert "H200" in await window.command("memlint.cards")
            await window.command("memlint.selectCard", "B200")
            assert "on 1 x B200" in (await window.lenses("train.yaml"))[0]
            await window.command("memlint.selectCard", "")
            assert "on 1 x A100-80GB" in (await window.lenses("train.yaml"))[0]
            window.client.workspace_did_change_configuration(
                types.DidChangeConfigurationParams({"memlint": {"gpu": "no card"}})
            )
            await window.lenses("train.yaml")
            assert "unknown GPU 'no card'" in window.log

    play(scenario())


def test_settings_on_disk_count_when_they_are_saved(tmp_path: Path) -> None:
    text = FULL.replace("# memlint:", "# ")

    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": text}) as window:
            window.open("train.yaml")
            assert "no GPU named" in (await window.lenses("train.yaml"))[0]
            window.write("memlint.yaml", "gpu: H200\n", types.FileChangeType.Created)
            assert "H200" in (await window.lenses("train.yaml"))[0]
            window.write("memlint.yaml", "gpus: none\n")
            (mistake,) = await window.findings("train.yaml")
            assert "memlint.yaml:1" in mistake.message
            window.write("memlint.yaml", "exclude: [train.yaml]\n")
            assert await window.findings("train.yaml") == []
            assert await window.lenses("train.yaml") == []

    play(scenario())


def test_files_that_are_no_configs_are_left_alone(tmp_path: Path) -> None:
    files = {"compose.yaml": "services: {a: [\n", "notes.txt": "per_device_train_batch_size: 8", "data.json": "[1, 2]"}

    async def scenario() -> None:
        async with editor(tmp_path, files) as window:
            for name in files:
                window.open(name)
                assert await window.findings(name) == []
                assert await window.lenses(name) == []
                assert await window.hover(name, files[name][:4]) == ""
                assert await window.complete(name, types.Position(0, 3)) == {}
            assert window.log == ""

    play(scenario())


def test_hostile_texts_end_nothing(tmp_path: Path) -> None:
    texts = ["", "\x00", "a: &x [*x]", "\ud800: 1", "- " * 5000, "a: " + "[" * 5000, "{" * 3000, "😋: \u2028é\r\r\n"]

    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": FULL}) as window:
            window.open("train.yaml")
            first = await window.lenses("train.yaml")
            for text in texts:
                window.type("train.yaml", text)
                await window.lenses("train.yaml")
                await window.complete("train.yaml", types.Position(0, 1))
            window.type("train.yaml", FULL)
            assert await window.lenses("train.yaml") == first
            assert window.log == ""

    play(scenario())


def test_a_file_of_five_megabytes_and_wrong_encodings(tmp_path: Path) -> None:
    lines = "".join(f"# {number:04} per_device_train_batch_size: 8\n" for number in range(120_000))
    (tmp_path / "utf16.yaml").write_bytes(FULL.encode("utf-16"))
    (tmp_path / "broken.yaml").write_bytes(FULL.encode() + b"# \xff\n")

    async def scenario() -> None:
        async with editor(
            tmp_path, {"large.yaml": FULL + lines[: 5_000_000 - len(FULL)], "train.yaml": FULL}
        ) as window:
            window.open("train.yaml")
            window.open("large.yaml")
            assert await window.lenses("large.yaml") == await window.lenses("train.yaml")
            window.open("utf16.yaml", FULL)
            assert "the file is UTF-16" in " ".join(one.message for one in await window.findings("utf16.yaml"))
            window.open("broken.yaml", f"{FULL}# \ufffd\n")
            assert "not UTF-8" in " ".join(one.message for one in await window.findings("broken.yaml"))

    play(scenario())


def test_two_hundred_open_files(tmp_path: Path) -> None:
    files = {f"train{number:03}.yaml": FULL for number in range(200)}

    async def scenario() -> None:
        async with editor(tmp_path, files) as window:
            for name in files:
                window.open(name)
            titles = {(await window.lenses(name))[0] for name in files}
            assert len(titles) == 1
            await window.command("memlint.selectCard", "B200")
            assert "B200" in (await window.lenses("train199.yaml"))[0]  # the one that changed last is checked first

    play(scenario())


class Broken(MemlintServer):
    """A server whose every check fails, and that keeps what it would log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def log(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.lines.append(message)


def test_a_request_that_crashes_is_one_line_in_the_log() -> None:
    async def divide(server: MemlintServer, by: int) -> float:
        return 1 / by

    async def scenario() -> list[str]:
        server = Broken()
        assert [await logged(divide)(server, by) for by in (2, 0, 0)] == [0.5, None, None]
        return server.lines

    (line,) = asyncio.run(scenario())
    assert line.startswith("divide failed; this is a bug in memlint. Traceback") and "ZeroDivisionError" in line


def test_a_long_session_keeps_no_answered_message() -> None:
    async def scenario() -> int:
        server = Broken()
        loop = asyncio.get_running_loop()
        futures: dict[Any, Any] = {number: loop.create_future() for number in range(500)}
        for future in list(futures.values())[1:]:
            future.set_result(None)
        server.protocol._request_futures = futures
        server.drop_answered()
        return len(futures)

    assert asyncio.run(scenario()) == 1


def test_a_check_that_crashes_ends_nothing(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        server = Broken()
        server.buffers.put((tmp_path / "train.yaml").as_uri(), 1, FULL)
        server.check_soon(str(tmp_path / "train.yaml"))  # nothing is configured
        assert await server.checked((tmp_path / "train.yaml").as_uri()) is not None
        return server.lines

    (line,) = asyncio.run(scenario())
    assert f"check of {tmp_path / 'train.yaml'} failed" in line


def test_columns_count_utf_16(tmp_path: Path) -> None:
    text = FULL.replace("finetuning_type: full", "finetuning_type: full  # 😋")

    async def scenario() -> None:
        async with editor(tmp_path, {"train.yaml": "run_name: 😋\n" + text}) as window:
            window.open("train.yaml")
            found = next(one for one in await window.findings("train.yaml") if one.code == "OPT001")
            action = (await window.actions("train.yaml", found.range.start.line))["Explain OPT001"]
            assert action
            line = window.texts["train.yaml"].split("\n")[found.range.start.line]
            units = line.encode("utf-16-le")
            marked = units[2 * found.range.start.character : 2 * found.range.end.character].decode("utf-16-le")
            assert marked == "full"

    play(scenario())
