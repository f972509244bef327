"""Hostile scripts, Python files and notebooks: `python benchmarks/robustness/hostile_launches.py`.

Each case is checked in a repository of its own. Printed is one line a case with its processor time; exit 1 where one
ends in a traceback or takes more than a second.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine

LIMIT = 1.0  # seconds
TRAIN = (
    "torchrun train.py --model_name_or_path gpt2 --learning_rate 1e-5 --per_device_train_batch_size 1 --num_epochs 1"
)
LOOP = "# Trainer( .backward( AutoModelForCausalLM\nif __name__ == '__main__':\n    main()\n"


def main() -> int:
    parser(__doc__).parse_args()
    failed = 0
    for name, files in cases():
        start = time.process_time()
        try:
            read(files)
            told = ""
        except Exception as error:  # what it is does not matter: none may come out
            told = f" {type(error).__name__}: {error}"[:200]
        spent = time.process_time() - start
        failed += bool(told) or spent > LIMIT
        print(f"{spent * 1000:8.0f} ms {name}{told}{' TOO SLOW' if spent > LIMIT else ''}")
    return 1 if failed else 0


def read(files: dict[str, str]) -> None:
    workspace = in_memory(files)
    engine = Engine(())
    for path in files:
        for document in (*workspace.documents(path), *workspace.config_runs(path)):
            engine.analyse(document, workspace.context())


def cases() -> Iterator[tuple[str, dict[str, str]]]:
    """A name, and the files of a repository."""
    for name, text in _scripts():
        yield f"script: {name}", {"train.sh": text, "train.py": "import argparse\n"}
    for name, text in _python():
        yield f"python: {name}", {"train.py": LOOP + text}
        yield f"launched python: {name}", {"train.sh": TRAIN, "train.py": LOOP + text}
    for name, text in _notebooks():
        yield f"notebook: {name}", {"train.ipynb": text}
    loader = LOOP + "import yaml, sys\nconfig = yaml.safe_load(open(sys.argv[1]))\n"
    for name, text in _configs():
        yield f"config: {name}", {"c.yaml": text, "train.py": loader}


def _scripts() -> Iterator[tuple[str, str]]:
    yield "unterminated quote", f"{TRAIN} '"
    yield "unterminated here-document", f"cat <<EOF\n{TRAIN}\n"
    yield "10 MB", f"{TRAIN}\n" + "# " + "x" * 10_000_000
    yield "a line of 1 MB", f"{TRAIN} " + "--flag value " * 80_000
    yield "null bytes", f"{TRAIN}\x00\x00{TRAIN}"
    yield "here-document bomb", "A=x\n" + "".join("A=$(cat <<E\n$A$A\nE\n)\n" for _ in range(60)) + TRAIN
    yield "variable bomb", "A=xxxxxxxxxx\n" + "A=$A$A$A$A\n" * 60 + f"{TRAIN} --x $A"
    yield "recursion of sources", f"source train.sh\n{TRAIN}"
    yield "recursion of functions", "f() { f; f; }\nf\n" + TRAIN
    yield "endless loop", f"while true; do {TRAIN}; done"
    yield "many loops", "for a in 1 2 3 4 5 6 7 8 9; do\n" * 9 + TRAIN + "\ndone" * 9
    yield "deep braces", "{1..100000000} " + "{a,b}" * 40 + "\n" + TRAIN
    yield "deep subshells", "(" * 5_000 + TRAIN + ")" * 5_000
    yield "deep substitutions", "$(" * 3_000 + TRAIN + ")" * 3_000
    yield "arithmetic", f"{TRAIN} --x $((" + "9**9**9**9 + " * 200 + "1))"
    yield "many launches", f"{TRAIN}\n" * 5_000


def _python() -> Iterator[tuple[str, str]]:
    yield "deep parentheses", "x = " + "(" * 100_000
    yield "deep lists", "x = " + "[" * 90 + "]" * 90
    yield "deep attributes", "x = a" + ".b" * 5_000
    yield "deep additions", "x = 1" + " + 1" * 20_000
    yield "10 MB", "x = 1\n" * 1_700_000
    yield "one long text", "x = '" + "a" * 10_000_000 + "'"
    yield "null bytes", "x = 1\x00"
    yield "invalid", "def ("
    yield "endless loop", "while True:\n    x = [x, x]\n"
    yield "doubling", "x = 'a'\n" + "x = x + x\n" * 200
    twice = "".join(f"{name} = [1]\n" + f"{name} = [{name}, {name}]\n" * 200 for name in "xy")
    yield "lists in lists", f"{twice}z = x == y\nprint(x)\n"
    yield "starred lists", "x = [1]\n" + "x = [*x, *x]\nx = x + x\n" * 100
    yield "joined texts", "x = 'a'\n" + "x = f'{x}{x}'.join([x, x]).replace('a', x)\n" * 100
    yield "multiplied", "x = [0] * 10 ** 12\ny = 'a' * 10 ** 12\nz = 10 ** 10 ** 10\n"
    yield "recursion", "def f(a):\n    return f(f(a))\nf(1)\n"
    yield "branches", "".join(f"if a{i}:\n    x = {i}\nelse:\n    x = -{i}\n" for i in range(2_000))
    yield "nested loops", "".join("    " * i + f"for a{i} in range(16):\n" for i in range(15)) + "    " * 15 + "f(a0)\n"
    yield "import of itself", "from train import *\nimport train\n"
    yield "bidirectional text", "x = '\u202e\u2066'\n\ud800\n".encode("utf-8", "replace").decode()
    yield "a word of 1 MB", "x" * 1_000_000


def _notebooks() -> Iterator[tuple[str, str]]:
    yield "no JSON", "{"
    yield "no cells", "{}"
    yield "cells of other kinds", json.dumps({"cells": [1, None, {"cell_type": "code"}, {"source": 3}]})
    code = [{"cell_type": "code", "source": [f"!{TRAIN}\n", LOOP]}]
    yield "10,000 cells", json.dumps({"cells": code * 10_000})
    yield "an unfinished command", json.dumps({"cells": [{"cell_type": "code", "source": [f"!{TRAIN} '\\"]}]})
    yield "10 MB of output", json.dumps({"cells": code, "outputs": ["x" * 10_000_000]})
    yield "deep", '{"cells":' + "[" * 100_000


def _configs() -> Iterator[tuple[str, str]]:
    yield "a word of 1 MB", "batch_size: " + "a" * 1_000_000
    yield "a long word before a colon", "a" * 120_000 + "\nlr: 1\nbatch_size: 2\n"
    aliases = (f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 90))
    yield "aliases", "b0: &b0 [x, x]\nbatch_size: 1\nlr: 1\n" + "".join(aliases)
    yield "deep", "a: " + "[" * 10_000


if __name__ == "__main__":
    sys.exit(main())
