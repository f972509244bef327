"""Hydra's composition; the expected values are those of hydra 1.3.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memlint.source import load
from memlint.source.document import Document
from memlint.source.python.follow import follow_script
from memlint.source.python.reader import CommandLine, ScriptFiles
from memlint.source.python.text import SourceText, parse
from memlint.source.python.values import Known, Made, Table
from tests.source.python.following import shown

SCRIPT = "import hydra\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg):\n    use(cfg)\nmain()\n"
FILES = {
    "config.yaml": "defaults:\n- base\n- model: a\n- _self_\n- optional experiment: none\nseed: 1\nmodel:\n  k0: 99\n",
    "base.yaml": "lr: 1\ndeep: {x: 2, y: 3}\n",
    "model/a.yaml": "defaults:\n- attn: a\n- _self_\nk0: 5\nk1: 0\n",
    "model/b.yaml": "k1: 8\n",
    "model/attn/a.yaml": "kind: eager\n",
    "data/c.yaml": "# @package other.place\nrows: 4\n",
    "experiment/x.yaml": "# @package _global_\ndefaults:\n- override /model: b\n- _self_\nlr: 17\nmodel: {k1: 23}\n",
}
PLAIN = {"lr": 1, "deep": {"x": 2, "y": 3}, "model": {"attn": {"kind": "eager"}, "k0": 99, "k1": 0}, "seed": 1}


def composed(changed: Mapping[str, str] = {}, **overrides: Any) -> Any:
    return followed_with(SCRIPT, {f"conf/{name}": text for name, text in {**FILES, **changed}.items()}, **overrides)


def followed_with(code: str, files: Mapping[str, str] = {}, **overrides: Any) -> Any:
    """What the script hands to `use(...)`."""

    def document(name: str) -> Document | None:
        return load(files[name].encode(), name)[0] if name in files else None

    script = parse("train.py", code)
    assert isinstance(script, SourceText)
    seen: list[Made] = []
    line = CommandLine(overrides={name: Known(value) for name, value in overrides.items()})
    follow_script(script, ScriptFiles(lambda name: None, document), seen.append, {}, {}, line)
    (value,) = [shown(made.positional[0]) for made in seen if made.name == "use"]
    return value


def test_a_defaults_list_is_merged_in_its_order() -> None:
    assert composed() == PLAIN


def test_a_group_of_a_group_lies_below_it() -> None:
    assert composed()["model"]["attn"] == {"kind": "eager"}


def test_the_command_line_chooses_a_group() -> None:
    assert composed(model="b")["model"] == {"k1": 8, "k0": 99}


def test_an_experiment_changes_groups_and_values_at_the_root() -> None:
    found = composed(experiment="x")
    assert found["lr"] == 17
    assert found["model"] == {"k1": 23, "k0": 99}


def test_a_header_says_the_package() -> None:
    assert composed(data="c")["other"] == {"place": {"rows": 4}}


@pytest.mark.parametrize(("path", "value"), [("lr", 5), ("deep.x", 7), ("new.key", 1)])
def test_values_of_the_command_line_come_last(path: str, value: int) -> None:
    found = composed(**{path: value})
    for name in path.split("."):
        found = found[name]
    assert found == value


def test_a_package_in_the_list_is_another_choice() -> None:
    text = "defaults:\n- model: a\n- model@second: b\n- _self_\n"
    found = composed({"config.yaml": text}, experiment="x")
    assert found["second"] == {"k1": 8}
    assert composed({"config.yaml": text})["model"]["k0"] == 5


@pytest.mark.parametrize(
    "text",
    [
        "defaults: 4\n",
        "defaults: [[1]]\n",
        "defaults: [config]\n",
        "defaults: [{model: [a, 4]}]\n",
        "[]\n",
        "defaults:\n",
    ],
)
def test_hostile_lists_end(text: str) -> None:
    composed({"config.yaml": text})


def test_a_list_overrides_what_another_file_of_it_chooses() -> None:
    """The first override counts: a list's own, then those of the files that it names."""
    config = "defaults:\n- base\n- override model: c\n- _self_\n"
    files = {"config.yaml": config, "base.yaml": "defaults:\n- model: a\n- deep\nlr: 1\n"}
    files |= {"deep.yaml": "defaults:\n- override /model: b\n", "model/c.yaml": "k1: 6\n"}
    assert composed(files)["model"] == {"k1": 6}


@pytest.mark.parametrize(("experiment", "rows"), [({}, 5), ({"experiment": "x"}, 4)])
def test_overrides_of_a_file_that_is_not_chosen_say_nothing(experiment: dict[str, str], rows: int) -> None:
    files = {"config.yaml": "defaults:\n- data: c\n- model: a\n- _self_\n- optional experiment: none\n"}
    files |= {"model/a.yaml": "defaults:\n- override /data: d\n- _self_\nk1: 0\n"}
    files |= {"data/d.yaml": "# @package other.place\nrows: 5\n"}
    assert composed(files, **experiment)["other"] == {"place": {"rows": rows}}


def test_a_group_is_looked_for_along_the_search_path() -> None:
    """hydra 1.3 docs, "Config Search Path": `hydra.searchpath` of the primary configuration."""
    config = "defaults:\n- model@here: far\n- _self_\nhydra: {searchpath: ['file://conf/more', 'pkg://other', 4]}\n"
    assert composed({"config.yaml": config, "more/model/far.yaml": "k1: 3\n"})["here"] == {"k1": 3}


@pytest.mark.parametrize(("entry", "is_open"), [("model@here: lost", True), ("optional model@here: lost", False)])
def test_a_file_that_is_not_here_may_say_anything_in_its_package(entry: str, is_open: bool) -> None:
    config = f"defaults:\n- {entry}\n- _self_\nhere: {{k0: 1}}\n"
    files = {"conf/config.yaml": config}
    script = parse("train.py", SCRIPT)
    assert isinstance(script, SourceText)
    seen: list[Made] = []
    find = ScriptFiles(lambda name: None, lambda name: load(files[name].encode(), name)[0] if name in files else None)
    follow_script(script, find, seen.append, {}, {}, CommandLine())
    (whole,) = [made.positional[0] for made in seen if made.name == "use"]
    assert isinstance(whole, Table) and isinstance(whole.values["here"], Table)
    assert whole.values["here"].is_open is is_open


STORED = """import hydra
from dataclasses import dataclass, field
from hydra.core.config_store import ConfigStore
@dataclass
class Model:
    name: str = "small"
@dataclass
class Config:
    defaults: list = field(default_factory=lambda: ["_self_", {"model": "small"}])
    batch: int = 2
    rows: int = 3
store = ConfigStore.instance()
store.store(name="config", node=Config)
store.store(group="model", name="small", node=Model)
store.store(group="model", name="big", node=Model(name="big"))
@hydra.main(version_base=None, config_name="config")
def main(cfg):
    use(cfg)
main()
"""


def test_a_script_stores_configurations() -> None:
    assert followed_with(STORED) == {"batch": 2, "rows": 3, "model": {"name": "small"}}
    assert followed_with(STORED, batch=8, model="big") == {"batch": 8, "rows": 3, "model": {"name": "big"}}


def test_a_main_without_a_name_has_the_file_that_its_command_names() -> None:
    code = SCRIPT.replace(", config_name='config'", "")
    files = {"conf/base.yaml": FILES["base.yaml"]}
    script = parse("train.py", code)
    assert isinstance(script, SourceText)

    def used(line: CommandLine) -> list[Any]:
        seen: list[Made] = []
        found = ScriptFiles(
            lambda name: None, lambda name: load(files[name].encode(), name)[0] if name in files else None
        )
        follow_script(script, found, seen.append, {}, {}, line)
        return [shown(made.positional[0]) for made in seen if made.name == "use" and made.positional]

    named = CommandLine(options={"config_name": (Known("base"),)})
    assert used(named) == used(CommandLine("conf/base.yaml")) == [{"lr": 1, "deep": {"x": 2, "y": 3}}]
    assert used(CommandLine()) != used(named)
