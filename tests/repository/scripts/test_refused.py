"""Flags that a program refuses: said where its definition is complete, silent where anything may define more."""

from __future__ import annotations

import pytest

from memlint.findings import Finding
from memlint.repository.workspace import in_memory
from tests.repository.scripts.test_documents import FLAGS, analysed

CLASSES = """\
from dataclasses import dataclass
from transformers import HfArgumentParser, TrainingArguments
@dataclass
class ModelArguments:
    model_name_or_path: str = "gpt2"
    use_lora: bool = True
parser = HfArgumentParser((ModelArguments, TrainingArguments))
model, training = parser.parse_args_into_dataclasses()
"""
OWN = """\
import argparse
from transformers import TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--model_name_or_path")
parser.add_argument("--batch_size", type=int)
parser.add_argument("-s", "--save-path")
args = parser.parse_args()
TrainingArguments(output_dir="out", per_device_train_batch_size=args.batch_size)
"""


def refused(program: str, flags: str, **files: str) -> list[Finding]:
    more = {name.replace("_py", ".py"): text for name, text in files.items()}
    found = analysed(f"torchrun --nproc_per_node 1 train.py {flags}\n", {"train.py": program, **more})
    assert found.runs
    return [one for one in found.findings if one.rule == "CFG001" and "its parser refuses it" in one.message]


def test_a_flag_that_no_class_defines_is_an_error_at_the_flag() -> None:
    (found,) = refused(CLASSES, f"{FLAGS} --gradient_acumulation_steps 4")

    assert found.severity == "error"
    assert found.message == (
        "unknown flag `--gradient_acumulation_steps`: did you mean `--gradient_accumulation_steps`? "
        "train.py defines no such flag, and its parser refuses it"
    )
    text = f"torchrun --nproc_per_node 1 train.py {FLAGS} --gradient_acumulation_steps 4\n"
    start = found.location.start
    assert text[start:].startswith("--gradient_acumulation_steps")


SEVERAL = OWN.replace('"--batch_size"', '"--batch_norm")\nparser.add_argument("--batch_size"')


@pytest.mark.parametrize(
    ("program", "flag", "begun"),
    [
        (CLASSES, "--gradient_checkpoint", "`--gradient_checkpointing`, `--gradient_checkpointing_kwargs`:"),
        (CLASSES, "--per_device 2", "`--per_device_eval_batch_size`, `--per_device_train_batch_size`:"),
        (CLASSES, "--gradient_checkpointing", ""),
        (CLASSES, "--save_stra no", ""),
        (SEVERAL, "--batch 2", "`--batch_norm`, `--batch_size`:"),
        (SEVERAL, "--batch_s 2", ""),
        (OWN, "--batch 2", ""),
        (SEVERAL.replace("parse_args()", "parse_args(own())"), "--batch 2", ""),
    ],
)
def test_a_flag_that_begins_several_is_refused(program: str, flag: str, begun: str) -> None:
    """argparse exits: "ambiguous option: --batch could match --batch_norm, --batch_size"."""
    found = analysed(f"torchrun --nproc_per_node 1 train.py {FLAGS} {flag}\n", {"train.py": program}).findings
    said = [one.message for one in found if "may stand for" in one.message]
    assert [message.partition("may stand for ")[2][: len(begun)] for message in said] == ([begun] if begun else [])


@pytest.mark.parametrize("flag", ["batch_size 4", "num_epochs 2", "max_seq_length 512", "num_generations 8"])
def test_a_flag_of_other_classes_is_refused(flag: str) -> None:
    """TrainingArguments alone are parsed: TRL's arguments are none of its flags, nor are names of no release."""
    (found,) = refused(CLASSES, f"{FLAGS} --{flag}")
    assert found.message.startswith(f"unknown flag `--{flag.split()[0]}`")


@pytest.mark.parametrize("flag", ["group_by_length true", "evaluation_strategy no", "no_cuda true", "logging_dir a"])
def test_a_flag_of_an_older_release_is_taken(flag: str) -> None:
    assert refused(CLASSES, f"{FLAGS} --{flag}") == []


def test_the_name_of_a_flag_is_known_beside_an_unknown_value() -> None:
    (found,) = refused(CLASSES, f"{FLAGS} --gradient_acumulation_steps=$STEPS")
    assert "did you mean `--gradient_accumulation_steps`" in found.message


def told(wrapper: str) -> list[str]:
    """The files with a finding of a refused flag: a script with such a flag, and one that runs it."""
    inner = f'torchrun --nproc_per_node 1 train.py {FLAGS} --typo_of_inner 4 "$@"\n'
    workspace = in_memory({"train.py": CLASSES, "inner.sh": inner, "outer.sh": f"# python, training\n{wrapper}\n"})
    documents = [one for path in ("inner.sh", "outer.sh") for one in workspace.documents(path)]
    return [one.path for one in documents if one.start is not None and one.start.accepted.refused]


def test_a_flag_of_another_script_is_told_there_alone() -> None:
    assert told("bash inner.sh") == ["inner.sh"]
    assert told("bash inner.sh --typo_of_outer 4") == ["inner.sh", "outer.sh"]
    assert told("source ./inner.sh") == ["inner.sh", "outer.sh"]


def test_a_class_that_is_imported_under_a_librarys_name_has_its_own_fields() -> None:
    header = "from dataclasses import dataclass\nimport transformers\n@dataclass\n"
    own = f"{header}class Mine(transformers.TrainingArguments):\n    negatives: bool = False\n"
    program = CLASSES.replace("import HfArgumentParser, TrainingArguments", "import HfArgumentParser")
    program = "from own import Mine as TrainingArguments\n" + program
    assert not refused(program, f"{FLAGS} --negatives True", own_py=own)
    assert len(refused(program, f"{FLAGS} --positives True", own_py=own)) == 1


def test_a_program_with_flags_of_its_own_takes_no_others() -> None:
    (found,) = refused(OWN, "--model_name_or_path a/b --batch_size 2 --per_device_train_batch_size 4")

    assert "`--per_device_train_batch_size`" in found.message


@pytest.mark.parametrize(
    "flags",
    [
        f"{FLAGS} --no_use_lora --use-lora False",
        f"{FLAGS} --evaluation_strategy no --per_gpu_train_batch_size 2 --local_rank 0",
        f"{FLAGS} --max_step 5",  # the start of one flag alone
        f"{FLAGS} --$NAME 4 $MORE -x 3",
    ],
)
def test_flags_that_the_classes_take(flags: str) -> None:
    assert refused(CLASSES, flags) == []


@pytest.mark.parametrize("flags", ["--batch_size 2 --save-path a", "--batch 2 -s a", "--batch_size=2 --help"])
def test_flags_that_the_program_takes(flags: str) -> None:
    assert refused(OWN, f"--model_name_or_path a/b {flags}") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("parser.parse_args()", "parser.parse_known_args()[0]"),
        ("parser.parse_args()", "parser.parse_args(read())"),
        ("parser.parse_args()", "library.add_arguments(parser).parse_args()"),
        ("args = ", "deepspeed.add_config_arguments(parser)\nargs = "),
        ("args = ", "for name in names: parser.add_argument(f'--{name}')\nargs = "),
        ("args = ", "sys.argv = sys.argv[:3]\nargs = "),
        ("args = ", "sys.argv[1:] = []\nargs = "),
        ("ArgumentParser()", "ArgumentParser(parents=[base])"),
        ("ArgumentParser()", "ArgumentParser(**options)"),
        ("argparse.ArgumentParser()", "build()"),
        ("import argparse", "import argparse, os\nimport click"),
    ],
)
def test_a_definition_that_may_be_longer_says_nothing(old: str, new: str) -> None:
    assert old in OWN
    assert refused(OWN.replace(old, new), "--model_name_or_path a/b --batch_size 2 --warmup 4") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class ModelArguments:", "class ModelArguments(library.Base):"),
        ("(ModelArguments, ", "(ModelArguments, library.More, "),
        ("parse_args_into_dataclasses()", "parse_args_into_dataclasses(return_remaining_strings=True)"),
        ("use_lora: bool = True", "use_lora: bool = field(metadata={'aliases': ['--lora']})"),
        ("from dataclasses", "@dataclass\nclass ModelArguments: pass\nfrom dataclasses"),
    ],
)
def test_classes_that_are_not_all_known_say_nothing(old: str, new: str) -> None:
    assert old in CLASSES
    assert refused(CLASSES.replace(old, new), f"{FLAGS} --gradient_acumulation_steps 4") == []


def test_a_helper_of_the_repository_adds_flags() -> None:
    helper = "def more(parser):\n    parser.add_argument('--warmup')\n    return parser\n"
    program = "from helper import more\n" + OWN.replace("args = ", "more(parser)\nargs = ")

    assert refused(program, "--batch_size 2 --warmup 4", helper_py=helper) == []
    assert len(refused(program, "--batch_size 2 --cooldown 4", helper_py=helper)) == 1


def test_the_fix_renames_the_flag() -> None:
    flags = f"{FLAGS} --gradient_acumulation_steps 4"
    (found,) = refused(CLASSES, flags)
    (fix,) = found.fixes

    assert [(edit.action, edit.pointer) for edit in fix.edits] == [("rename", ("gradient_acumulation_steps",))]


@pytest.mark.parametrize(
    ("call", "is_another"),
    [
        ("bash inner.sh 2>&1 | tee log", False),
        ("export WANDB_PROJECT=a\nbash inner.sh", False),
        ("export CUDA_VISIBLE_DEVICES=0\nbash inner.sh", True),
        ("export BATCH=4\nbash inner.sh", True),
        ("bash inner.sh --learning_rate 1e-4", True),
    ],
)
def test_a_script_that_runs_another_as_it_stands_launches_nothing_else(call: str, is_another: bool) -> None:
    inner = "torchrun train.py --output_dir o --per_device_train_batch_size ${BATCH:-2} $@\n"
    workspace = in_memory({"train.py": CLASSES, "inner.sh": inner, "outer.sh": f"# python, training\n{call}\n"})
    assert (len(workspace.documents("inner.sh")), len(workspace.documents("outer.sh"))) == (1, int(is_another))


def test_a_program_of_an_installed_package_is_none_of_the_repository() -> None:
    """`cd` below what a program prints leaves the repository, unless it has a folder of that name."""
    command = f"python train.py --learning_rate 1e-5 --config a.json {FLAGS}\n"
    package = 'cd "$(pip show llmtuner | grep Location | cut -d" " -f2)/llmtuner"\n'
    workspace = in_memory({"train.sh": f"{package}{command}", "train.py": OWN})
    assert all(one.start is not None and not one.start.accepted.refused for one in workspace.documents("train.sh"))
    here = analysed(f'cd "$(hostname)/own"\n{command}', {"own/train.py": OWN, "train.py": OWN})
    assert [one for one in here.findings if "its parser refuses it" in one.message]


CLICK = """\
import click
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
@click.command()
@click.option("--local_rank", default=True)
@click.option("--learning_rate", default=1e-5)
def main(local_rank, learning_rate):
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    args = TrainingArguments("out", learning_rate=learning_rate, local_rank=local_rank)
    Trainer(model=model, args=args).train()
main()
"""


@pytest.mark.parametrize(("program", "rules"), [(CLICK, []), (CLASSES, ["CFG002"])])
def test_the_type_of_a_flag_is_what_the_programs_parser_makes_of_it(program: str, rules: list[str]) -> None:
    found = analysed("deepspeed train.py --learning_rate 1e-4 --local_rank True\n", {"train.py": program})
    assert found.runs
    assert [one.rule for one in found.findings if one.rule == "CFG002"] == rules


def test_the_start_of_a_flag_of_the_program_is_no_slip() -> None:
    """argparse takes `--dataset_` for `--dataset_use`: it is no `--datasets`."""
    program = CLASSES.replace("    use_lora", "    dataset_use: str = ''\n    use_lora")
    found = analysed(f"torchrun --nproc_per_node 1 train.py {FLAGS} --dataset_ a,b\n", {"train.py": program})
    assert not [one for one in found.findings if one.rule == "CFG001"]
    found = analysed(f"torchrun --nproc_per_node 1 train.py {FLAGS} --dataset_ a,b\n", {"train.py": CLASSES})
    assert [one for one in found.findings if one.rule == "CFG001"]


BARE = "`--save-path` stands without a value: the parser of train.py expects one and refuses the command"


@pytest.mark.parametrize(
    ("definition", "flags", "said"),
    [
        ('"--save-path"', "--save-path --batch_size 4", [BARE]),
        ('"--save-path"', "--batch_size 4 --save-path", [BARE]),
        ('"--save-path"', "--batch_size 4 --save-path \\\n  2>&1", []),
        ('"--save-path"', "--save-path $OUT --batch_size 4", []),
        ('"--save-path", nargs="?"', "--save-path --batch_size 4", []),
        ('"--save-path", action="store_true"', "--save-path --batch_size 4", []),
    ],
)
def test_a_flag_that_takes_a_value_does_not_stand_alone(definition: str, flags: str, said: list[str]) -> None:
    """Python 3.12 argparse.py: "expected one argument"."""
    program = OWN.replace('"-s", "--save-path"', definition)
    found = analysed(f"torchrun --nproc_per_node 1 train.py --model_name_or_path gpt2 {flags}\n", {"train.py": program})
    assert [one.message for one in found.findings if "without a value" in one.message] == said
