"""What dataclasses of a repository declare, and which findings on a config they answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.formats.base import Format, Issue
from memlint.formats.llamafactory import format as llamafactory
from memlint.formats.trainer import format as trainer
from memlint.repository.files import walk
from memlint.repository.reader import python_arguments as declared
from memlint.repository.reader.python_arguments import fields, python_files
from memlint.repository.workspace import Workspace, in_memory, on_disk

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
    "model_name_or_path: some/model\ndo_train: true\nfinetuning_type: lora\ntemplate: llama3\ndataset: d\n"
    "output_dir: o\n"
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


def test_what_the_libraries_own_is_outdated_unless_a_class_has_it() -> None:
    script = "@dataclass\nclass Arguments:\n    {}: float = 0.1\n"
    for name, codes in (("warmup_ratio", []), ("ratio", ["renamed-key"])):
        found = issues(trainer, f"{TRAIN}warmup_ratio: 0.1\n", {"run.py": script.format(name)})
        assert [issue.code for issue in found] == codes


@pytest.mark.parametrize("place", ["src/llamafactory/hparams", "LLaMA-Factory/src/llmtuner/hparams"])
def test_arguments_and_stages_of_a_fork(place: str) -> None:
    own = {f"{place}/finetuning_args.py": ARGUMENTS}
    config = f"{FACTORY}stage: modpo\nloss_weight: 1.0\n"
    assert sorted(one.code for one in issues(llamafactory, config, {})) == ["bad-value", "unknown-key"]
    assert issues(llamafactory, config, own) == []
    assert [one.code for one in issues(llamafactory, f"{FACTORY}stage: rmopo\n", own)] == ["bad-value"]


def test_any_of_several_copies_may_be_the_one_in_use() -> None:
    plain = '@dataclass\nclass Arguments:\n    stage: Literal["sft", "dpo"] = "sft"\n'
    own = {f"{name}/src/llamafactory/hparams/finetuning_args.py": plain for name in ("a", "z")}
    config = f"{FACTORY}stage: modpo\n"
    assert [one.code for one in issues(llamafactory, config, own)] == ["bad-value"]
    assert issues(llamafactory, config, {**own, "m/src/llamafactory/hparams/finetuning_args.py": ARGUMENTS}) == []


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


V1 = "model: Qwen/Qwen3-0.6B\nmicro_batch_size: 1\ntrain_dataset: a\noutput_dir: out\nmax_steps: 10\ncutoff_len: 512\n"
V1_OLD = f"{V1}template: qwen3\ndist_config: {{name: fsdp2, cp_size: 2}}\n"


@pytest.mark.parametrize(
    ("copy", "found"),
    [
        ("", [("removed-key", "info"), ("unknown-key", "warning")]),
        ("model: str = 'x'\n    template: str = 'x'\n    dist_config: dict | None = None", []),
        ("model: str = 'x'\n    dist_config: dict | None = None", [("unknown-key", "error")]),
    ],
)
def test_a_copy_of_llamafactory_says_which_keys_v1_has(copy: str, found: list[tuple[str, str]]) -> None:
    own = (
        {"src/llamafactory/v1/config/model_args.py": f"@dataclass\nclass ModelArguments:\n    {copy}\n"} if copy else {}
    )
    assert sorted((one.code, one.severity) for one in issues(llamafactory, V1_OLD, own)) == found


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
    assert workspace.field_annotations("loss_weight").startswith("float")
    (tmp_path / "a.py").unlink()
    assert workspace.overlaid({}).field_annotations("loss_weight", "b")
    assert not workspace.field_annotations("loss_weight", "elsewhere")
    monkeypatch.setattr(walk, "MOST_FOLDERS", 0)
    assert len(list(python_files(root))) == 1


def test_a_tree_of_much_python_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "MOST_BYTES_IN_ALL", len(ARGUMENTS) + 10)
    read = []

    def load(path: str) -> bytes:
        read.append(path)
        return ARGUMENTS.encode()

    assert declared.Python(["a.py", "b.py", "c.py"], load).fields()

    assert read == ["a.py", "b.py"]


def test_which_scripts_read_configs_is_asked_where_one_names_the_file() -> None:
    texts = {"a.py": b"yaml.safe_load(open('sft.yaml'))", "b.py": b"print('dpo.yaml')", "c.py": b"yaml.safe_load(x)"}
    python = declared.Python(texts, texts.__getitem__)

    assert python.scripts_with("kto.yaml") == ()
    assert "scripts" not in vars(python)
    assert [script.path for script in python.scripts_with("sft.yaml")] == ["a.py"]


FOREIGN = f"{FACTORY}stage: sft\nmy_loss_weight: 1\ncurriculum_kind: x\nteacher_path: y\nlora_rnk: 4\n"


def test_keys_of_a_fork_that_is_not_here_are_one_warning() -> None:
    found = [(one.code, one.severity) for one in issues(llamafactory, FOREIGN, {})]
    assert sorted(found) == [("unknown-key", "error"), ("unknown-key", "warning")]  # a slip is an error
    one = issues(llamafactory, FACTORY + "stage: sft\nmy_loss_weight: 1\n", {})
    assert [(issue.code, issue.severity) for issue in one] == [("unknown-key", "warning")]
    source = {
        "src/llamafactory/hparams/finetuning_args.py": "@dataclass\nclass Arguments:\n    finetuning_type: str = 'x'\n"
    }
    assert [issue.severity for issue in issues(llamafactory, FOREIGN, source)] == ["error"] * 4
