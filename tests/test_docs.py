"""What README and docs show: links that lead somewhere, and options that the commands have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from memlint.cli import DEFAULT, VERBS, main, split_verb

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```[a-z-]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*(?:\$ |- run: )?memlint(?= )(.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for fence in _FENCE.finditer(page.read_text(encoding="utf-8")):
            for found in _COMMAND.finditer(fence[1]):
                yield page.name, found[1].partition(" #")[0].partition("|")[0].strip()


COMMANDS = sorted(set(commands()))


def test_pages_show_commands() -> None:
    assert COMMANDS


def _cells(text: str) -> Iterator[list[str]]:
    """The cells of each row of the tables in a page's text."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip(" *") for cell in line.strip("|").split("|")]


def test_readme_has_the_figures_of_the_comparison() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace("\n", " ")
    table = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8").partition("<!-- six-cases: end")[0]
    (_, *_), (_, *simulated), *others, (_, *memlint) = _cells(table)
    fourth = [float(row[4]) for row in others]
    nearest = min(fourth, key=lambda figure: abs(figure - float(simulated[3])))

    assert len(fourth) == 12 and "twelve other estimators" in readme
    assert f"takes {simulated[3]} GiB. memlint says {memlint[3]};" in readme
    assert f"say from {min(fourth):g} to {max(fourth):g}, the nearest {nearest:g}." in readme


def test_readme_has_the_figures_of_the_accuracy_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8").partition("## Random steps\n")[2]
    _, steps, median, _, _, worst, _ = next(row for row in _cells(page) if row[0] == "peak")

    assert f"Over {steps} random steps" in readme
    assert f"by {median.replace('%', ' %')} in the median and by {worst.replace('%', ' %')} at worst" in readme


@cache
def options_of(verb: str) -> str:
    if VERBS.get(verb) is None:
        return ""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        said: list[str] = []
        patch.setattr("sys.stdout", type("Out", (), {"write": said.append, "flush": lambda self: None})())
        try:
            main([verb, "--help"])
        finally:
            options_of.text = "".join(said)  # type: ignore[attr-defined]
    return str(options_of.text)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{page}: {command}" for page, command in COMMANDS])
def test_a_command_has_the_options_that_a_page_gives_it(page: str, command: str) -> None:
    words = command.split()
    if words[0] in ("--version", "--help"):
        return
    verb, rest = split_verb(words)
    known = options_of(verb)

    assert verb == DEFAULT or verb in VERBS
    for word in rest[: rest.index("--")] if "--" in rest else rest:  # behind it stands another program's command
        if word.startswith("--"):
            assert re.search(rf"{re.escape(word.partition('=')[0])}\b", known), f"{page}: `memlint {command}`: {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]

    assert [target for target in targets if not (page.parent / target).exists() and "mailto:" not in target] == []


def _scripts(value: object) -> Iterator[object]:
    """The items of `script`, `before_script`, `after_script`, `run` and `entry`, wherever they stand."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("script", "before_script", "after_script", "run", "entry"):
                yield from item if isinstance(item, list) else [item]
            yield from _scripts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scripts(item)


def test_a_pipelines_commands_are_texts() -> None:
    """An unquoted `-H "TOKEN: x"` is a mapping in YAML, and GitLab refuses the job."""
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs/integrations").glob("*.md")]
    pipelines = [text for page in pages for text in re.findall(r"(?ms)^```yaml\n(.*?)^```", page)]
    commands = [command for text in pipelines for command in _scripts(yaml.safe_load(text))]
    assert commands
    assert [command for command in commands if not isinstance(command, str)] == []
