"""Writes a repository like those that people train from: configs, the programs around them, and their commands.

    python benchmarks/speed/make_repository.py FOLDER [--python 1500] [--configs 1000]

The Python is made of imports, classes and functions; some files declare options, or read a config that they name. Each
tenth config is launched by a shell script, each third by a page. Needs git: memlint searches the files that it tracks.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.speed.make_configs import configs

LIBRARIES = ("os", "json", "math", "torch", "numpy as np", "logging", "argparse", "torch.nn as nn", "transformers")
WORDS = ("batch", "loss", "model", "tokens", "state", "length", "mask", "score", "sample", "weight", "stage", "epoch")
FUNCTION = """

def {name}_{number}({first}, {second}=None):
    \"\"\"Returns the {first} of one {second}, as the last release computed it.\"\"\"
    found = {{"{first}": {first}, "{second}": {second}}}
    for index, one in enumerate(found.values()):
        if one is None or index == {number}:
            raise ValueError(f"no {first} in {{one}}: see the {second} of `{name}`")
    return found["{first}"] * {number} + len(str(found.get("{second}")))
"""
OPTIONS = '\nparser = argparse.ArgumentParser()\nparser.add_argument("--{}_{}", type=int, default=1)\n'
SETTINGS = "\n@dataclass\nclass Settings:\n    {}_{}: int = 1\n"
READS = """
import yaml

with open("{}") as stream:
    config = yaml.safe_load(stream)
print(config["seed"], config["{}_{}"])
"""
SCRIPT = "#!/bin/bash\nexport GPUS={}\naccelerate launch --num_processes $GPUS train.py --config configs/{}\n"
COMMAND = "```\nllamafactory-cli train configs/{}\n```\n"


def write(folder: Path, python: int, number: int) -> None:
    random = Random(0)
    found = dict(configs(number))
    for name, text in found.items():
        _write(folder / "configs" / name, text)
    for index in range(python):
        _write(folder / _module(index), _python(random, index, python, sorted(found)))
    for index, name in enumerate(found):
        if index % 10 == 0:
            _write(folder / "scripts" / f"run_{index}.sh", SCRIPT.format(random.choice((1, 2, 4, 8)), name))
    _write(folder / "README.md", "\n".join(COMMAND.format(name) for name in list(found)[::3]))
    for words in (("init", "--quiet"), ("add", ".")):
        subprocess.run(["git", *words], cwd=folder, check=True)


def _module(index: int) -> str:
    return f"src/part_{index % 40}/module_{index}.py"


def _python(random: Random, index: int, modules: int, names: list[str]) -> str:
    """A module of some 6 KB."""
    lines = [f"import {name}" for name in random.sample(LIBRARIES, 4)]
    for other in (random.randrange(modules) for _ in range(4)):
        lines.append(f"from part_{other % 40}.module_{other} import {random.choice(WORDS)}_{other}")
    first, second = random.sample(WORDS, 2)
    text = "\n".join(lines) + "\n"
    text += OPTIONS.format(first, index) if index % 10 == 0 else ""
    text += SETTINGS.format(second, index) if index % 15 == 0 else ""
    text += READS.format(f"configs/{random.choice(names)}", first, index) if index % 25 == 0 else ""
    for number in range(random.randrange(4, 20)):
        first, second = random.sample(WORDS, 2)
        text += FUNCTION.format(name=random.choice(WORDS), number=number, first=first, second=second)
    return text


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--python", type=int, default=1500)
    arguments.add_argument("--configs", type=int, default=1000)
    options = arguments.parse_args()
    write(options.folder, options.python, options.configs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
