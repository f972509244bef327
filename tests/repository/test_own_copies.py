"""What a fork's copy of a framework accepts and its releases refuse."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml

from memlint.formats.axolotl import format as axolotl
from memlint.formats.llamafactory import format as llamafactory
from memlint.formats.trainer import format as trainer
from memlint.repository.python_arguments import Python, survey
from memlint.repository.workspace import in_memory

RAISES = '            raise ValueError("Cannot use LoRA with GaLore or BAdam together.")\n'
KNOWS = "if adapter == \"lora\":\n    pass\nelif adapter == 'llora':\n    pass\n"


def found(path: str, text: str) -> Python:
    return survey([path], lambda _: text.encode())


def test_a_refusal_counts_unless_it_is_commented_out() -> None:
    path = "/r/src/llamafactory/hparams/finetuning_args.py"
    assert found(path, RAISES).refusals == {"Cannot use LoRA with GaLore or BAdam together."}
    assert found(path, "#" + RAISES).refusals == frozenset()
    assert found("/r/src/other.py", RAISES).refusals == frozenset()


def test_words_that_code_compares_with() -> None:
    text = KNOWS + 'if self.loss_type == "reinforce":\n    pass\n'
    words = {("adapter", "lora"), ("adapter", "llora"), ("loss_type", "reinforce")}
    assert found("/r/src/trainer.py", text).compared == words


def _skips(module: object, rule: str, config: Mapping[str, object], files: Mapping[str, str]) -> bool:
    workspace = in_memory({"train.yaml": yaml.safe_dump(dict(config)), **files})
    (document,) = workspace.documents("train.yaml")
    return bool(module.skips_rule(rule, document, workspace.context()))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("source", "skipped"),
    [("#" + RAISES + '    raise ValueError("something else")', True), (RAISES, False), ("", False)],
)
def test_a_fork_that_takes_lora_with_badam(source: str, skipped: bool) -> None:
    config = {"model_name_or_path": "a/b", "use_badam": True}
    files = {"src/llamafactory/hparams/finetuning_args.py": source}
    assert _skips(llamafactory, "LLF019", config, files) is skipped
    assert not _skips(llamafactory, "LLF001", config, files)


@pytest.mark.parametrize(("adapter", "skipped"), [("llora", True), ("qlorra", False)])
def test_a_fork_with_an_adapter_of_its_own(adapter: str, skipped: bool) -> None:
    files = {"src/axolotl/utils/models.py": KNOWS}
    assert _skips(axolotl, "AXO089", {"base_model": "a/b", "adapter": adapter}, files) is skipped


def test_releases_that_did_not_check_a_type_are_not_held_against_it() -> None:
    workspace = in_memory({"train.yaml": yaml.safe_dump({"base_model": "a/b", "save_safetensors": False})})
    (document,) = workspace.documents("train.yaml")
    for release, codes in (((0, 4, 0), []), ((0, 19, 0), ["bad-value"])):
        issues = axolotl.parse(document, workspace.context(versions={"axolotl": release})).issues
        assert [issue.code for issue in issues if issue.pointer == ("save_safetensors",)] == codes


@pytest.mark.parametrize(("word", "codes"), [("reinforce", []), ("reinforced", ["bad-value"])])
def test_a_loss_of_a_trainer_of_the_repository(word: str, codes: list[str]) -> None:
    config = {"model_name_or_path": "a/b", "dataset_name": "c/d", "output_dir": "out", "num_generations": 8}
    text = yaml.safe_dump({**config, "max_completion_length": 64, "loss_type": word, "learning_rate": 0.1})
    workspace = in_memory({"grpo.yaml": text, "own.py": 'if self.loss_type == "reinforce":\n    pass\n'})
    (document,) = workspace.documents("grpo.yaml")
    issues = trainer.parse(document, workspace.context()).issues
    assert [issue.code for issue in issues if issue.pointer == ("loss_type",)] == codes
