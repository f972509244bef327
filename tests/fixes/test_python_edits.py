"""Edits of Python calls: the literal changes and the rest of the script stays as it is."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.findings import Edit
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import broken
from memlint.repository.workspace import in_memory
from memlint.source.document import Document
from tests.repository.test_python_documents import CONFIG, OWN, notebook

HEAD = "from transformers import Trainer, TrainingArguments\n"


def document(code: str, path: str = "/train.py", **files: str) -> Document:
    workspace = in_memory({path: code, **{f"/{name.replace('__', '.')}": text for name, text in files.items()}})
    (found,) = workspace.documents(path)
    return found


def edited(code: str, key: str, value: object, path: str = "/train.py") -> str:
    """The script after one edit, which keeps every law."""
    before = document(code, path)
    edits = (Edit(before.path, (key,), "set", value),)
    found = patches(before, edits)
    assert broken(before, edits, found) == ()
    return apply(before.text, found)


@pytest.mark.parametrize(
    ("old", "key", "value", "new"),
    [
        ("per_device_train_batch_size=8", "per_device_train_batch_size", 4, "per_device_train_batch_size=4"),
        ("per_device_train_batch_size = 8 ,", "per_device_train_batch_size", 4, "per_device_train_batch_size = 4 ,"),
        ("optim='adamw_torch'", "optim", "adamw_8bit", "optim='adamw_8bit'"),
        ('optim="adamw_torch"', "optim", "adamw_8bit", 'optim="adamw_8bit"'),
        ("bf16=True", "gradient_checkpointing", True, "bf16=True, gradient_checkpointing=True"),
        ("bf16=True,", "gradient_checkpointing", True, "bf16=True, gradient_checkpointing=True"),
        ("\n    bf16=True,\n", "optim", "adamw_8bit", "\n    bf16=True,\n    optim='adamw_8bit',\n"),
        ('output_dir="o"', "optim", "adamw_8bit", 'output_dir="o", optim="adamw_8bit"'),
        ("\n    bf16=True\n", "optim", "adamw_8bit", "\n    bf16=True,\n    optim='adamw_8bit'\n"),
        (
            "\n    bf16=True,\n    # a=1,\n    # b=2\n",
            "optim",
            "adamw_8bit",
            "\n    bf16=True,\n    optim='adamw_8bit',\n    # a=1,\n    # b=2\n",
        ),
        ("\n    bf16=True,\n", "deepspeed", {"a": 2}, "\n    bf16=True,\n    deepspeed={'a': 2},\n"),
    ],
)
def test_one_argument_changes(old: str, key: str, value: object, new: str) -> None:
    code = HEAD + "Trainer(model='gpt2', args=TrainingArguments({}))\n"
    assert edited(code.format(old), key, value) == code.format(new)


def test_a_value_changes_where_it_is_written() -> None:
    code = (
        HEAD
        + "BATCH = 8  # keep\nTrainer(model='gpt2', args=TrainingArguments('o', per_device_train_batch_size=BATCH))\n"
    )
    assert edited(code, "per_device_train_batch_size", 2) == code.replace("BATCH = 8", "BATCH = 2")


def test_the_default_of_an_option_changes() -> None:
    code = (
        HEAD + "import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch', type=int, default=8)\n"
        "a = p.parse_args()\nTrainer(model='gpt2', args=TrainingArguments('o', per_device_train_batch_size=a.batch))\n"
    )
    assert edited(code, "per_device_train_batch_size", 2) == code.replace("default=8", "default=2")


@pytest.mark.parametrize(
    ("argument", "key", "value"),
    [
        ("per_device_train_batch_size=2 * 4", "per_device_train_batch_size", 4),
        ("per_device_train_batch_size=int('8')", "per_device_train_batch_size", 4),
        ("bf16=True  # last\n", "optim", "adamw_8bit"),
        ("bf16=True", "lora_r", 8),
        ("bf16=True", "no_such_key", 8),
    ],
)
def test_what_cannot_be_said_is_refused(argument: str, key: str, value: object) -> None:
    before = document(HEAD + f"Trainer(model='gpt2', args=TrainingArguments('o', {argument}))\n")
    with pytest.raises(CannotEdit):
        patches(before, (Edit(before.path, (key,), "set", value),))


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("per_device_train_batch_size", "`per_device_train_batch_size` is given at run.sh:1"),
        ("gradient_checkpointing", "the command in run.sh gives the arguments"),
    ],
)
def test_what_a_command_says_is_refused_with_its_place(key: str, reason: str) -> None:
    code = (
        "import dataclasses, transformers\n"
        "@dataclasses.dataclass\nclass Own(transformers.TrainingArguments):\n    cache_dir: str = None\n"
        "(args,) = transformers.HfArgumentParser((Own,)).parse_args_into_dataclasses()\n"
        "transformers.Trainer(model='gpt2', args=args)\n"
    )
    before = document(code, run__sh="python train.py --output_dir o --per_device_train_batch_size 8\n")
    with pytest.raises(CannotEdit, match=re.escape(reason)):
        patches(before, [Edit(before.path, (key,), "set", 4)])


def test_a_notebook_changes_in_its_cell_alone() -> None:
    code = HEAD + "x = 'é \"quoted\"'; Trainer(model='gpt2', args=TrainingArguments('o', optim=\"adamw_torch\"))\n"
    text = notebook("!pip install x", code)
    changed = edited(text, "optim", "adamw_8bit", "/a.ipynb")
    assert changed == text.replace("adamw_torch", "adamw_8bit")
    assert json.loads(changed)["cells"][1]["source"] == code.replace("adamw_torch", "adamw_8bit").splitlines(True)


def test_a_value_of_a_configuration_file_changes_there(tmp_path: Path) -> None:
    workspace = in_memory({"/train.py": OWN, "/a.yaml": CONFIG})
    (before,) = workspace.config_runs("/a.yaml")
    edits = (Edit(before.path, ("per_device_train_batch_size",), "set", 4),)
    found = patches(before, edits)
    assert broken(before, edits, found) == ()
    assert apply(before.text, found) == CONFIG.replace("batch: 64", "batch: 4")


_SPACE = st.sampled_from(["", " ", "  ", "\n    "])
_ARGUMENT = st.tuples(
    st.sampled_from(["bf16", "learning_rate", "num_train_epochs", "optim", "logging_steps", "seed"]),
    st.sampled_from(["True", "1e-4", "3", "'adamw_torch'", '"adamw_8bit"', "2 + 1", "(4)"]),
    _SPACE,
)


@given(
    st.lists(_ARGUMENT, unique_by=lambda one: one[0], max_size=5), st.booleans(), st.integers(1, 64), st.integers(1, 64)
)
def test_the_syntax_tree_changes_in_that_one_value(
    arguments: list[tuple[str, str, str]], comma: bool, old: int, new: int
) -> None:
    inner = ",".join(f"{space}{name}{space.strip(chr(10))}={value}" for name, value, space in arguments)
    batch = f"{',' if arguments else ''}per_device_train_batch_size={old}"
    code = HEAD + f"Trainer(model='gpt2', args=TrainingArguments(\n{inner}{batch}{',' if comma else ''}\n))\n"
    changed = edited(code, "per_device_train_batch_size", new)
    assert ast.dump(ast.parse(changed)) == ast.dump(ast.parse(code.replace(f"batch_size={old}", f"batch_size={new}")))


@pytest.mark.parametrize(
    ("end", "new"),
    [
        ("optim='x')\n", "optim='x', bf16=True)\n"),
        ("\n    optim='x',\n)\n", "\n    optim='x',\n bf16=True)\n"),
        ("\n    optim='x'\n)\n", "\n    optim='x'\n, bf16=True)\n"),
        ('optim="é\\n", )\n', 'optim="é\\n",  bf16=True)\n'),
    ],
)
def test_an_argument_is_added_in_the_cell_of_a_notebook(end: str, new: str) -> None:
    code = HEAD + "# first\nargs = TrainingArguments('o', "
    trained = "Trainer(model='gpt2', args=args)\n"
    changed = edited(notebook("!pip install x", code + end + trained), "bf16", True, "/a.ipynb")
    assert "".join(json.loads(changed)["cells"][1]["source"]) == code + new + trained


def test_no_engine_is_added_in_a_notebook_which_no_launcher_starts() -> None:
    before = document(notebook(HEAD + "Trainer(model='gpt2', args=TrainingArguments('o'))\n"), "/a.ipynb")
    with pytest.raises(CannotEdit, match="launcher"):
        patches(before, (Edit(before.path, ("deepspeed",), "set", {"a": 2}),))


def test_a_comment_behind_the_last_argument_keeps_its_place_in_a_notebook() -> None:
    before = document(notebook(HEAD + "Trainer(model='gpt2', args=TrainingArguments('o'  # out\n))\n"), "/a.ipynb")
    with pytest.raises(CannotEdit):
        patches(before, (Edit(before.path, ("bf16",), "set", True),))


LOADS = """import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained({})
Trainer(model, TrainingArguments("o"))
"""


@pytest.mark.parametrize(
    ("old", "key", "value", "new"),
    [
        ('"gpt2"', "dtype", "bfloat16", '"gpt2", torch_dtype=torch.bfloat16'),
        ('\n    "gpt2",\n', "dtype", "bfloat16", '\n    "gpt2",\n    torch_dtype=torch.bfloat16,\n'),
        ('"gpt2", torch_dtype=torch.float32', "dtype", "bfloat16", '"gpt2", torch_dtype=torch.bfloat16'),
        ('"gpt2", dtype = torch.float', "dtype", "float16", '"gpt2", dtype = torch.float16'),
        ('"gpt2", dtype="float32"', "dtype", "bfloat16", '"gpt2", dtype="bfloat16"'),
        ('"gpt2"', "attn_implementation", "sdpa", '"gpt2", attn_implementation="sdpa"'),
    ],
)
def test_the_call_that_loads_the_model_changes(old: str, key: str, value: object, new: str) -> None:
    assert edited(LOADS.format(old), key, value) == LOADS.format(new)


def test_a_dtype_is_added_where_torch_is_imported_alone() -> None:
    before = document(LOADS.format('"gpt2"').replace("import torch\n", ""))
    with pytest.raises(CannotEdit, match="does not import torch"):
        patches(before, (Edit(before.path, ("dtype",), "set", "bfloat16"),))


def test_a_call_whose_arguments_are_not_all_seen_gets_none() -> None:
    before = document("options = dict(open('x'))\n" + LOADS.format('"gpt2", **options'))
    with pytest.raises(CannotEdit):
        patches(before, (Edit(before.path, ("dtype",), "set", "bfloat16"),))


NAMED = 'from trl import SFTConfig, SFTTrainer\nSFTTrainer(model="gpt2", args=SFTConfig({}))\n'


def test_a_model_that_trl_loads_by_its_name_gets_its_dtype_from_the_training_arguments() -> None:
    code = NAMED.format('output_dir="o"')
    changed = NAMED.format('output_dir="o", model_init_kwargs={"dtype": "bfloat16"}')
    assert edited(code, "dtype", "bfloat16") == changed
    assert edited(changed, "dtype", "float16") == changed.replace("bfloat16", "float16")


def test_other_arguments_of_a_named_model_are_kept() -> None:
    before = document(NAMED.format('output_dir="o", model_init_kwargs={"attn_implementation": "sdpa"}'))
    with pytest.raises(CannotEdit, match="model_init_kwargs"):
        patches(before, (Edit(before.path, ("dtype",), "set", "bfloat16"),))


def without(code: str, key: str) -> str:
    """The script without one argument, which keeps every law."""
    before = document(code)
    edits = (Edit(before.path, (key,), "remove", None),)
    found = patches(before, edits)
    assert broken(before, edits, found) == ()
    return apply(before.text, found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'o', eval_steps=5, bf16=True", "'o', bf16=True"),
        ("'o', eval_steps=5", "'o'"),
        ("'o', eval_steps=5,", "'o', "),
        ("eval_steps = 5", ""),
        ("\n    'o',\n    eval_steps=5,\n    bf16=True,\n", "\n    'o',\n    bf16=True,\n"),
        ("\n    'o',\n    eval_steps=5\n", "\n    'o',\n"),
        ("\n    'o', eval_steps=5,\n    bf16=True,\n", "\n    'o', \n    bf16=True,\n"),
    ],
)
def test_an_argument_is_taken_away(old: str, new: str) -> None:
    code = HEAD + "Trainer(model='gpt2', args=TrainingArguments({}))\n"
    assert without(code.format(old), "eval_steps") == code.format(new)


def test_an_argument_gets_another_name() -> None:
    code = HEAD + "Trainer(model='gpt2', args=TrainingArguments('o', evaluation_strategy='steps'))\n"
    before = document(code)
    edits = (Edit(before.path, ("evaluation_strategy",), "rename", "eval_strategy"),)
    found = patches(before, edits)
    assert broken(before, edits, found) == ()
    assert apply(code, found) == code.replace("evaluation_strategy", "eval_strategy")


@pytest.mark.parametrize(
    "code",
    [
        "eval_steps = 5\nTrainer(model='gpt2', args=TrainingArguments('o', eval_steps=eval_steps))\n",
        "steps = 5\nTrainer(model='gpt2', args=TrainingArguments('o', eval_steps=steps))\n",
        "args = TrainingArguments('o')\nargs.eval_steps = 5\nTrainer(model='gpt2', args=args)\n",
        "given = {'eval_steps': 5}\nTrainer(model='gpt2', args=TrainingArguments('o', **given))\n",
        "Trainer(model='gpt2', args=TrainingArguments('o', eval_steps=5  # often\n))\n",
    ],
)
def test_neither_a_variable_nor_what_a_comment_says_is_taken_away(code: str) -> None:
    with pytest.raises(CannotEdit):
        without(HEAD + code, "eval_steps")
