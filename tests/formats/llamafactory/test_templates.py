"""Chat templates that no release of LLaMA-Factory registers."""

from __future__ import annotations

import pytest
import yaml

from memlint.formats.base import Issue
from memlint.formats.llamafactory.format import parse
from memlint.repository.workspace import in_memory

CONTENT = {
    "model_name_or_path": "Qwen/Qwen2.5-7B",
    "stage": "sft",
    "do_train": True,
    "finetuning_type": "lora",
    "dataset": "alpaca_en_demo",
    "cutoff_len": 1024,
    "output_dir": "out",
}


def issues(template: str, **versions: tuple[int, ...]) -> list[Issue]:
    workspace = in_memory({"train.yaml": yaml.safe_dump({**CONTENT, "template": template})})
    (document,) = workspace.documents("train.yaml")
    return list(parse(document, workspace.context(versions=versions)).issues)


@pytest.mark.parametrize(("word", "meant"), [("lama3", "llama3"), ("qwen2.5", "qwen"), ("chat_ml", "chatml")])
def test_a_template_that_is_not_registered(word: str, meant: str) -> None:
    (found,) = issues(word)
    assert (found.code, found.severity, found.suggestion) == ("bad-value", "warning", meant)


def test_it_is_an_error_where_the_release_is_stated() -> None:
    assert [issue.severity for issue in issues("lama3", llamafactory=(0, 9, 5))] == ["error"]
    assert [issue.severity for issue in issues("lama3", llamafactory=(0, 9, 6))] == ["warning"]


@pytest.mark.parametrize("word", ["qwen", "llama3", "default", "qwen2_vl"])
def test_a_template_that_is_registered(word: str) -> None:
    assert not issues(word)


def test_a_placeholder_is_no_name() -> None:
    assert not [issue for issue in issues("${TEMPLATE}") if issue.code == "bad-value"]
