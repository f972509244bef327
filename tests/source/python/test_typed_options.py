"""Command lines that classes and parameters declare, as their libraries read them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from memlint.source import load
from memlint.source.document import Document
from memlint.source.python.follow import follow_script
from memlint.source.python.reader import CommandLine, ScriptFiles
from memlint.source.python.text import SourceText, parse
from memlint.source.python.values import Known, Made, Value
from tests.source.python.following import handed, shown

CLASSES = """from dataclasses import dataclass, field
@dataclass
class Model:
    name: str = "small"
@dataclass
class Config:
    batch: int = 2
    model: Model = field(default_factory=Model)
def train(cfg: Config):
    use([cfg.batch, cfg.model.name])
"""
FLAGS = """from absl import app, flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("batch", 2, "rows")
_NAME = flags.DEFINE_string("name", "small", "model")
def main(argv):
    use([FLAGS.batch, _NAME.value])
if __name__ == "__main__":
    app.run(main)
"""
OBJECT = """import fire
class Training:
    def __init__(self, name="small"):
        self.name = name
    def train(self, batch=2):
        use([batch, self.name])
"""
FILE = "batch: 4\nmodel: {name: of the file}\n"


def said(code: str, line: str) -> Any:
    """What the script hands to `use(...)` with this command line, beside the file c.yaml."""
    options: dict[str, tuple[Value, ...]] = {}
    positional: list[Value] = []
    overrides: dict[str, Value] = {}
    words = shlex.split(line)
    while words:
        word = words.pop(0)
        name, _, value = word.partition("=")
        if word.startswith("--"):
            options[word[2:].replace("-", "_")] = (Known(words.pop(0)),)
        elif value:
            overrides[name] = Known(int(value) if value.isdecimal() else value)
        else:
            positional.append(Known(word))
    script = parse("train.py", code)
    assert isinstance(script, SourceText)

    def document(name: str) -> Document | None:
        return load(FILE.encode(), name)[0] if name == "c.yaml" else None

    seen: list[Made] = []
    command = CommandLine(positional=tuple(positional), options=options, overrides=overrides)
    follow_script(script, ScriptFiles(lambda name: None, document), seen.append, {}, {}, command)
    (found,) = [shown(made.positional[0]) for made in seen if made.name == "use"]
    return found


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (CLASSES + "import tyro\ntrain(tyro.cli(Config))\n", "--batch 8 --model.name big"),
        (CLASSES + "import tyro\ntyro.cli(train)\n", "--cfg.batch 8 --cfg.model.name big"),
        (CLASSES + "import jsonargparse\njsonargparse.CLI(train)\n", "--cfg.batch 8 --cfg.model.name big"),
        (
            CLASSES + "from jsonargparse import ArgumentParser\np = ArgumentParser()\n"
            "p.add_class_arguments(Config, 'cfg')\ntrain(p.parse_args().cfg)\n",
            "--cfg.batch 8 --cfg.model.name big",
        ),
        (CLASSES + "import simple_parsing\ntrain(simple_parsing.parse(Config))\n", "--batch 8 --model.name big"),
        (
            CLASSES + "from simple_parsing import ArgumentParser\np = ArgumentParser()\n"
            "p.add_arguments(Config, dest='cfg')\ntrain(p.parse_args().cfg)\n",
            "--batch 8 --name big",
        ),
        (CLASSES + "import pyrallis\ntrain(pyrallis.parse(config_class=Config))\n", "--batch 8 --model.name big"),
        (
            CLASSES.replace("def train", "import draccus\n@draccus.wrap()\ndef train") + "train()\n",
            "--batch 8 --model.name big",
        ),
        (
            CLASSES.replace("@dataclass", "@chz.chz") + "import chz\nchz.nested_entrypoint(train)\n",
            "batch=8 model.name=big",
        ),
        (FLAGS, "--batch 8 --name big"),
        (OBJECT + "fire.Fire(Training)\n", "train --batch 8 --name big"),
    ],
)
def test_options_set_the_fields_of_classes(code: str, line: str) -> None:
    assert said(code, line) == [8, "big"]
    assert said(code, line.partition(" ")[0] if line.startswith("train") else "") == [2, "small"]


@pytest.mark.parametrize("code", ["train(draccus.parse(Config))\n", "train(draccus.parse(config_class=Config))\n"])
def test_options_stand_over_the_file_that_they_name(code: str) -> None:
    code = CLASSES + "import draccus\n" + code
    assert said(code, "--config_path c.yaml") == [4, "of the file"]
    assert said(code, "--batch 8 --config_path c.yaml") == [8, "of the file"]
    assert said(code, "--config_path other.yaml") == ["?", "?"]


def test_a_function_of_a_mapping_is_named_first() -> None:
    code = "import fire\ndef train(batch=2):\n    use(batch)\ndef test():\n    use('test')\n"
    assert said(code + "fire.Fire({'train': train, 'test': test})\n", "train --batch 8") == 8


def test_a_default_object_keeps_what_no_option_sets() -> None:
    code = CLASSES.replace("cfg: Config", "cfg: Config = Config(batch=16)") + "import tyro\ntyro.cli(train)\n"
    assert said(code, "") == [16, "small"]
    assert said(code, "--cfg.model.name big") == [16, "big"]
    assert said(code, "--cfg.batch 8") == [8, "small"]


@pytest.mark.parametrize("decorator", ["@gin.configurable", "@gin.configurable('main')", "@gin.register"])
def test_gin_may_give_what_a_call_leaves_out(decorator: str) -> None:
    code = f"import gin\n{decorator}\ndef main(batch=2, rows=3):\n    use([batch, rows])\nmain(batch=4)\n"
    assert handed(code) == [4, "?"]
    of_class = (
        f"import gin\n{decorator}\nclass Training:\n"
        "    def __init__(self, batch=2):\n        use(batch)\n"
        "    def run(self, rows=3):\n        use(rows)\n"
        "Training().run()\n"
    )
    assert handed(of_class) == ["?", 3]


OWN_ACTION = """import argparse
class Mode(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, "lora", False)
p = argparse.ArgumentParser()
p.add_argument("--mode", action=Mode)
p.set_defaults(lora=True)
args = p.parse_args()
use([args.lora, args.mode])
"""


def test_an_own_action_sets_what_it_likes() -> None:
    """What it makes of the words, and the other attributes that it sets, are not known."""
    assert said(OWN_ACTION, "") == [True, None]
    assert said(OWN_ACTION, "--mode full") == ["?", "?"]
