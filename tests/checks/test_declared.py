"""What dataclasses of a repository declare, and which findings on a config they answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.checks import declared
from memlint.checks.declared import fields, python_files
from memlint.checks.workspace import Workspace, in_memory, on_disk
from memlint.formats import llamafactory, trainer
from memlint.formats.base import Format, Issue

ARGUMENTS = '''
import dataclasses

limit: int = 3

@dataclass
class Arguments(Base):
    """Words: of a docstring.
    """

    loss_weight: float = field(
        default=1.0, metadata={"help": "..."},
    )
    stage: Literal[
        "sft",
        'modpo',
    ] = "sft"

    def method(self, inner: int) -> None:
        local: int = 1

@dataclasses.dataclass(frozen=True)
class Other: size: int
def function(
    parameter: int,
): ...
class Plain:
    plain: int = 1
'''
TRAIN = "model_name_or_path: some/model\noutput_dir: out\nper_device_train_batch_size: 1\ndataset_text_field: text\n"
FACTORY = (
    "model_name_or_path: some/model\ndo_train: true\nfinetuning_type: lora\ntemplate: x\ndataset: d\noutput_dir: o\n"
)


def issues(kind: Format, config: str, files: dict[str, str]) -> list[Issue]:
    workspace = in_memory({**files, "train.yaml": config})
    (document,) = workspace.documents("train.yaml")
    return [one for one in kind.parse(document, workspace.context()).issues if one.code != "missing-reference"]


def test_fields_of_dataclasses_alone() -> None:
    found = dict(fields(ARGUMENTS))
    assert {"loss_weight", "stage"} <= found.keys()
    assert not {"limit", "inner", "local", "parameter", "plain"} & found.keys()
    assert "'modpo'" in found["stage"]


@pytest.mark.parametrize("key", ["loss_weight", "use_flash_attention_2", "max_seq_length"])
def test_a_key_that_a_script_declares_is_the_script_s(key: str) -> None:
    config = f"{TRAIN}{key}: 1\n"
    script = f"@dataclass\nclass ScriptArguments:\n    {key}: int = 1\n"
    assert issues(trainer, config, {}) != []
    assert issues(trainer, config, {"scripts/run.py": script}) == []
    assert issues(trainer, config, {"scripts/run.txt": script}) != []


def test_what_the_libraries_own_stays_outdated() -> None:
    script = "@dataclass\nclass Arguments:\n    warmup_ratio: float = 0.1\n"
    (issue,) = issues(trainer, f"{TRAIN}warmup_ratio: 0.1\n", {"run.py": script})
    assert issue.code == "renamed-key"


@pytest.mark.parametrize("place", ["src/llamafactory/hparams", "LLaMA-Factory/src/llmtuner/hparams"])
def test_arguments_and_stages_of_a_fork(place: str) -> None:
    own = {f"{place}/finetuning_args.py": ARGUMENTS}
    config = f"{FACTORY}stage: modpo\nloss_weight: 1.0\n"
    assert sorted(one.code for one in issues(llamafactory, config, {})) == ["bad-value", "unknown-key"]
    assert issues(llamafactory, config, own) == []
    assert [one.code for one in issues(llamafactory, f"{FACTORY}stage: rmopo\n", own)] == ["bad-value"]


def test_another_script_s_arguments_are_not_llamafactory_s() -> None:
    found = issues(llamafactory, f"{FACTORY}stage: sft\nloss_weight: 1.0\n", {"scripts/run.py": ARGUMENTS})
    assert [one.code for one in found] == ["unknown-key"]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))", []),
        ("parser = H4ArgumentParser((ModelArguments, SFTConfig))", ["string-number"]),
        ("from trl import TrlParser", ["string-number"]),
    ],
)
def test_trl_s_parser_makes_numbers_of_text(script: str, found: list[str]) -> None:
    config = f"{TRAIN}learning_rate: 2e-5\n"
    assert [one.code for one in issues(trainer, config, {"train.py": script})] == found
    plain = config.replace("dataset_text_field: text\n", "")  # no keys of TRL: another script's
    assert [one.code for one in issues(trainer, plain, {"train.py": script})] == ["string-number"]


def test_the_tree_is_searched_once_and_with_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/run.py", "a.py", ".hidden/x.py", "venv/y.py", "b/c/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(ARGUMENTS)
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    (tmp_path / "large.py").write_text(ARGUMENTS + "#" * declared.MOST_BYTES)
    root = str(tmp_path)
    assert [path.removeprefix(f"{root}/") for path in python_files(root)] == [
        "a.py",
        "large.py",
        "b/run.py",
        "b/c/d.py",
    ]
    workspace: Workspace = on_disk(root, root)
    assert workspace.declared("loss_weight").startswith("float")
    (tmp_path / "a.py").unlink()
    assert workspace.overlaid({}).declared("loss_weight", "b")
    assert not workspace.declared("loss_weight", "elsewhere")
    monkeypatch.setattr(declared, "MOST_FOLDERS", 0)
    assert len(list(python_files(root))) == 1


def test_a_tree_of_much_python_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "MOST_BYTES_IN_ALL", len(ARGUMENTS) + 10)
    read = []

    def load(path: str) -> bytes:
        read.append(path)
        return ARGUMENTS.encode()

    declared.survey(["a.py", "b.py", "c.py"], load)

    assert read == ["a.py", "b.py"]
