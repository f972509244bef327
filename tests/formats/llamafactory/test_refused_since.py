"""Rules that state what LLaMA-Factory refuses, and the release that first does."""

from __future__ import annotations

import pytest

from memlint.formats.llamafactory.issues import _REFUSED_SINCE
from memlint.repository.workspace import in_memory
from memlint.ruleset import examples
from memlint.ruleset.engine import Engine
from memlint.ruleset.folder import read_document
from memlint.ruleset.rule_file import parse_rule
from memlint.ruleset.shipped import shipped
from memlint.shipped_data import folder

BEFORE = {(0, 8, 2): "0.8.1", (0, 8, 3): "0.8.2", (0, 9): "0.8.3", (0, 9, 3): "0.9.2", (0, 9, 4): "0.9.3"}


@pytest.mark.parametrize("rule", sorted(_REFUSED_SINCE))
def test_a_release_before_the_check_is_not_said_to_refuse(rule: str) -> None:
    document = read_document(f"{folder('rules')}/llamafactory/{rule}.yaml", f"llamafactory/{rule}.yaml")
    first = next(one for one in examples.examples(document) if one.expected == "fails")
    since = _REFUSED_SINCE[rule]

    def problem(release: str) -> str:
        versions = {"versions": {"llamafactory": release}}
        (outcome,) = examples.run(parse_rule(document), (first._replace(fields={**first.fields, **versions}),))
        return outcome.problem

    assert problem(".".join(map(str, since))) == ""
    assert "the rule is silent" in problem(BEFORE[since])


def test_a_release_that_the_program_tells_is_not_said_to_refuse() -> None:
    """src/train_bash.py left with 0.7.0; LLF043's check came with 0.8.3."""
    flags = "--stage sft --do_train --model_name_or_path a/b --dataset d --template default --finetuning_type full"
    badam = f"{flags} --use_badam --output_dir o"

    def rules(program: str, folder: str = "/data/LLaMA-Factory") -> set[str]:
        files = {"go.sh": f"cd {folder}\ntorchrun --nproc_per_node 2 {program} {badam}\n"}
        workspace = in_memory(files)
        (document,) = workspace.documents("go.sh")
        return {one.rule for one in Engine(tuple(shipped())).analyse(document, workspace.context()).findings}

    assert "LLF043" in rules("src/train.py")
    assert "LLF043" not in rules("src/train_bash.py")
    assert "LLF043" not in rules("src/train.py", "/path/to/LLaMA-Factory-0.8.2")
    assert "LLF043" not in rules("/path/to/llama_factory-v0.8.2/src/train.py")
    assert "LLF043" in rules("src/train.py", "/path/to/LLaMA-Factory-0.9.2")


@pytest.mark.parametrize("raised", ["Please specify dataset for evaluation.", "make sure eval_dataset be provided", ""])
def test_a_copy_without_the_check_is_not_said_to_refuse(raised: str) -> None:
    """0.8.3 hparams/parser.py:209 and 0.9.5 :365; a copy may have data for evaluation of its own."""
    arguments = "@dataclass\nclass FinetuningArguments:\n    finetuning_type: str = 'lora'\n\n"
    check = f"    raise ValueError({(raised or 'Please specify dataset for training.')!r})\n"
    config = "model_name_or_path: a/b\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: d\noutput_dir: o\n"
    workspace = in_memory(
        {
            "src/llamafactory/hparams/finetuning_args.py": f"from dataclasses import dataclass\n\n{arguments}",
            "src/llamafactory/hparams/parser.py": f"def get_train_args():\n{check}",
            "my.yaml": f"{config}eval_strategy: steps\n",
        }
    )
    (document,) = workspace.documents("my.yaml")
    analysed = Engine(tuple(shipped())).analyse(document, workspace.context())
    assert ("LLF037" in {one.rule for one in analysed.findings}) is bool(raised)


def test_a_key_that_the_folders_release_takes_is_not_called_old() -> None:
    """0.8.2 allows transformers 4.42, which takes `evaluation_strategy`."""
    config = "stage: sft\nmodel_name_or_path: a/b\nfinetuning_type: lora\nevaluation_strategy: steps\noutput_dir: o\n"

    def rules(path: str) -> set[str]:
        workspace = in_memory({path: config})
        (document,) = workspace.documents(path)
        return {one.rule for one in Engine(tuple(shipped())).analyse(document, workspace.context()).findings}

    assert "CFG005" in rules("LLaMA-Factory/my.yaml")
    assert "CFG005" not in rules("LLaMA-Factory-0.8.2/my.yaml")


@pytest.mark.parametrize(("program", "is_refused"), [("src/train_bash.py", False), ("src/train.py", True)])
def test_attention_was_a_flag_while_the_program_had_its_old_name(program: str, is_refused: bool) -> None:
    """llmtuner/hparams/model_args.py at 056d2d956: `flash_attn: bool`."""
    flags = "--stage sft --do_train --model_name_or_path a/b --dataset d --template default --output_dir o"
    workspace = in_memory({"go.sh": f"python {program} {flags} --flash_attn --finetuning_type full\n"})
    (document,) = workspace.documents("go.sh")
    analysed = Engine(tuple(shipped())).analyse(document, workspace.context())
    assert ("CFG003" in {one.rule for one in analysed.findings}) is is_refused
    assert is_refused or analysed.parsed.runs[0].attention.implementation == "flash_attention_2"


@pytest.mark.parametrize(("said", "attention"), [("True", "flash_attention_2"), ("False", "sdpa")])
def test_the_flag_may_have_a_value(said: str, attention: str) -> None:
    """transformers hf_argparser.py, string_to_bool: `--flash_attn False` of the old program."""
    flags = "--stage sft --do_train --model_name_or_path a/b --dataset d --template default --output_dir o"
    workspace = in_memory({"go.sh": f"python src/train_bash.py {flags} --flash_attn {said} --finetuning_type full\n"})
    (document,) = workspace.documents("go.sh")
    analysed = Engine(tuple(shipped())).analyse(document, workspace.context())
    assert "CFG003" not in {one.rule for one in analysed.findings}
    assert analysed.parsed.runs[0].attention.implementation == attention


@pytest.mark.parametrize(("release", "length"), [((0, 8, 3), 1024), ((0, 9), 1024), ((0, 9, 1), 2048), ((), 2048)])
def test_the_default_length_is_that_of_the_release(release: tuple[int, ...], length: int) -> None:
    """0.9.0 and 0.9.1 hparams/data_args.py, cutoff_len."""
    config = "model_name_or_path: a/b\nstage: sft\ndo_train: true\ndataset: d\ntemplate: default\noutput_dir: o\n"
    workspace = in_memory({"a.yaml": config})
    (document,) = workspace.documents("a.yaml")
    versions = {"llamafactory": release} if release else {}
    analysed = Engine(()).analyse(document, workspace.context(versions=versions))
    assert analysed.parsed is not None
    assert analysed.parsed.runs[0].sequence.length == length
