"""Commands that Python programs start are read as those of a shell script are."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.source.document import Document

FLAGS = "--learning_rate 1e-5 --output_dir out --num_train_epochs 1 --bf16 True --per_device_train_batch_size 3"
COMMAND = f"torchrun --nproc_per_node 2 train.py --model_name_or_path Qwen/Qwen2.5-7B {FLAGS}"
WORDS = repr(COMMAND.split())
PROGRAM = """
from transformers import HfArgumentParser, Trainer, TrainingArguments
(arguments,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(args=arguments).train()
"""


def documents(code: str, path: str = "launch.py", **files: str) -> tuple[Document, ...]:
    return in_memory({path: code, **files}).documents(path)


STARTED = {
    f"import subprocess\nsubprocess.run({WORDS}, check=True)",
    f"import subprocess\nsubprocess.Popen(args={WORDS})",
    f"import subprocess, shlex\nsubprocess.check_call(shlex.split({COMMAND!r}))",
    f"import subprocess as sp\nsp.run({COMMAND!r}, shell=True)",
    f"from subprocess import check_output\ndef main():\n    check_output({WORDS})\nmain()",
    f"import os\nos.system({COMMAND!r})",
    f"import os\nos.execvp('torchrun', {WORDS})",
    f"import asyncio\nasync def go():\n    await asyncio.create_subprocess_exec(*{WORDS})\nasyncio.run(go())",
    f"import asyncio\nasync def go():\n    await asyncio.create_subprocess_shell({COMMAND!r})\nasyncio.run(go())",
    f"import submitit\nsubmitit.helpers.CommandFunction({WORDS})",
    f"import subprocess\nsubprocess.run(' '.join({WORDS}), shell=True)",
    "import subprocess, sys\ncommand = [sys.executable, '-m', 'torch.distributed.run', '--nproc_per_node', '2']\n"
    "command += ['train.py', '--model_name_or_path', 'Qwen/Qwen2.5-7B']\n"
    f"command.extend({FLAGS.split()!r})\nsubprocess.run(command)",
}


@pytest.mark.parametrize("code", sorted(STARTED))
def test_what_a_program_starts_is_a_launch(code: str) -> None:
    (found,) = documents(code)

    assert found.value["model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert found.value["per_device_train_batch_size"] == 3
    assert found.start is not None
    assert (found.start.launcher, found.start.machine.gpus) == ("torchrun", 2)


def test_a_value_has_its_place_in_the_program() -> None:
    code = f"import subprocess\nBATCH = 3\nsubprocess.run({COMMAND.split()[:-1]!r} + [str(BATCH)])"
    (found,) = documents(code)

    place = found.places[("model_name_or_path",)].value
    assert code[place.start : place.end] == "Qwen/Qwen2.5-7B"


def test_what_the_program_decides_later_is_unknown() -> None:
    code = "import subprocess, sys\n"
    code += f'subprocess.run(f"{COMMAND} --max_length {{sys.stdin.readline()}} --optim sgd", shell=True)'
    (found,) = documents(code)

    assert found.value["optim"] == "sgd"
    assert found.start is not None and ("max_length",) in found.start.values.unknown


def test_what_a_condition_adds_does_not_hide_what_follows() -> None:
    code = "import subprocess, sys\ncommand = " + repr(COMMAND.split()[:-2]) + "\nif sys.stdin.readline():\n"
    code += "    command += ['--gradient_checkpointing', 'True']\n"
    code += "command.extend(['--per_device_train_batch_size', '3'])\nsubprocess.run(command)"
    (found,) = documents(code)

    assert "gradient_checkpointing" not in found.value
    assert found.value["per_device_train_batch_size"] == 3
    assert found.start is not None and found.start.accepted.leaves_open


def test_a_job_script_that_a_program_writes_asks_for_its_machines() -> None:
    code = f'open("a.sh", "w").write("""#!/bin/bash\n#SBATCH --gres=gpu:h100:4\n{COMMAND}\n""")'
    (found,) = documents(code)

    assert found.start is not None
    assert (found.start.machine.card, found.start.machine.gpus) == ("h100", 2)


def test_the_folder_and_the_variables_of_a_command_count() -> None:
    words = repr(COMMAND.replace("--nproc_per_node 2", "--nproc_per_node gpu").split())
    code = f"import os, subprocess\nsubprocess.run({words}, cwd='sub', "
    code += "env={**os.environ, 'CUDA_VISIBLE_DEVICES': '0,1,2'})"
    (found,) = documents(code, **{"sub/train.py": PROGRAM})

    assert found.start is not None
    assert (found.start.program.is_foreign, found.start.machine.gpus) == (False, 3)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("launch.py", "import subprocess\nsubprocess.run(['git', 'status'])"),
        ("launch.py", f"print({COMMAND!r})  # as subprocess would"),
        ("tests/test_launch.py", f"import subprocess\nsubprocess.run({WORDS})"),
    ],
)
def test_other_programs_start_no_run(path: str, code: str) -> None:
    assert documents(code, path) == ()
