"""The commands that pages, shell scripts and docstrings show for a repository's own programs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.repository.launch.pages import TrackedNames, docstring
from memlint.repository.launch.starts import ProgramStart, starts_in_text
from memlint.source.python.values import Known

NAMES = TrackedNames("/r", frozenset({"train.py", "src/pkg/fit.py", "conf/a.yaml", "conf/b.json", "README.md"}))


def starts(text: str, name: str = "README.md") -> list[ProgramStart]:
    return list(starts_in_text(name, text, NAMES, lambda path: None))


def options(start: ProgramStart) -> dict[str, list[object]]:
    given = start.line.options.items()
    return {name: [one.value if isinstance(one, Known) else None for one in values] for name, values in given}


@pytest.mark.parametrize(
    ("text", "program", "wanted"),
    [
        ("```bash\npython train.py --bs 8\n```\n", "train.py", {"bs": ["8"]}),
        ("Run `python train.py --bs 8` first.\n", "train.py", {"bs": ["8"]}),
        ("$ CUDA_VISIBLE_DEVICES=0 python3 train.py --bs=8\n", "train.py", {"bs": ["8"]}),
        ("python -m pkg.fit --lr 1e-4\n", "src/pkg/fit.py", {"lr": ["1e-4"]}),
        ("uv run python train.py \\\n    --bs 8 \\\n    --long\n", "train.py", {"bs": ["8"], "long": []}),
        ("torchrun --nproc_per_node 8 train.py --bs 8\n", "train.py", {"bs": ["8"]}),
        ("python train.py\n", "train.py", {}),
    ],
)
def test_a_command_says_program_and_options(text: str, program: str, wanted: dict[str, list[object]]) -> None:
    (found,) = starts(text)
    assert (found.program, options(found)) == (program, wanted)


@pytest.mark.parametrize(
    "text",
    [
        "python other.py --bs 8\n",
        "Python train.py is the script\n",
        "you start python train.py and wait\n",
        "python train.py --model <name>\n",
        "python train.py --model-size [small|base|large]\n",
        "python train.py --model-size={small|base}\n",
        "python -c 'import train'\n",
    ],
)
def test_prose_and_open_commands_are_none(text: str) -> None:
    assert starts(text) == []


@pytest.mark.parametrize(
    ("word", "names", "found"),
    [
        ("workflow/finetune_specialist.py", {"src/finetune_specialist.py"}, ("src/finetune_specialist.py",)),
        ("workflow/finetune_specialist.py", {"a/finetune_specialist.py", "b/finetune_specialist.py"}, ()),
        ("workflow/finetune_specialist.py", {"src/my_finetune_specialist.py"}, ()),
        ("src/train.py", {"own/train.py"}, ()),  # of another repository's, it may be
    ],
)
def test_a_program_that_has_been_moved(word: str, names: set[str], found: tuple[str, ...]) -> None:
    assert TrackedNames("/r", frozenset(names)).programs(word, ("",)) == found


def test_the_files_that_a_command_names() -> None:
    (found,) = starts("python train.py --config conf/a.yaml --deepspeed conf/b.json --other conf/c.yaml\n")
    assert set(found.files.values()) == {"conf/a.yaml", "conf/b.json"}


@pytest.mark.parametrize(
    ("words", "is_open"),
    [("--bs 8", False), ("--bs 8 ...", True), ("--bs 8 --out /data/...", False)],
)
def test_a_page_may_leave_options_out(words: str, is_open: bool) -> None:
    (found,) = starts(f"    python train.py {words}\n")
    assert found.line.is_open is is_open


def test_a_shell_script_is_followed() -> None:
    (found,) = starts('BS=4\npython train.py --bs $BS "$@"\n', "run.sh")
    assert options(found) == {"bs": ["4"]}
    assert found.written_at == "run.sh:2"


def test_a_docstring_is_a_page() -> None:
    text = '#!/usr/bin/env python\n"""Trains.\n\n    python train.py --bs 8\n"""\nx = 1\n'
    (found,) = starts(docstring(text), "train.py")
    assert (options(found), found.written_at) == ({"bs": ["8"]}, "train.py:4")
    assert docstring("x = 1\n") == ""


@given(st.text(alphabet="python train.py-`\\\n\"'$<>{}[]|&;()=é", max_size=120))
def test_any_text_ends(text: str) -> None:
    starts(text)
    starts(text, "run.sh")
    docstring(text)
