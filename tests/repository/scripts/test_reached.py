"""What of a program's modules it cannot reach."""

from __future__ import annotations

import ast
import textwrap

from memlint.repository.scripts.reached import of_other_programs, unreached

TRAINERS = """
class Supervised:
    def fit(self):
        return helper()

class Reward:
    def fit(self):
        return other()

def helper(): ...

def other(): ...

@register("dpo")
class Preferences: ...
"""


def left_out(program: str) -> list[str]:
    """The first lines of what is not reached."""
    texts = {"train.py": program, "own/__init__.py": "from .trainers import Reward, Supervised", "own/t.py": TRAINERS}
    trees = [(path, ast.parse(textwrap.dedent(text))) for path, text in texts.items()]
    lines = TRAINERS.splitlines()
    return [lines[one.start - 1] for one in unreached(trees).get("own/t.py", ())]


def test_a_class_that_a_package_imports_is_reached_where_the_program_names_it() -> None:
    assert left_out("from own import Supervised\nSupervised().fit()") == ["class Reward:", "def other(): ..."]


def test_a_name_in_a_text_and_under_another_name_is_reached() -> None:
    assert left_out("getattr(own, 'Reward')") == ["class Supervised:", "def helper(): ..."]
    assert left_out("from own import Reward as R\nR()") == ["class Supervised:", "def helper(): ..."]


def test_what_a_package_offers_is_not_what_a_program_takes_of_it() -> None:
    offer = ast.parse('from .t import Reward, Supervised\n__all__ = ["Reward", "Supervised"]')
    trees = [("train.py", ast.parse("import own\nown.Supervised()")), ("own/__init__.py", offer)]
    found = unreached([*trees, ("own/t.py", ast.parse(TRAINERS))])["own/t.py"]
    assert [TRAINERS.splitlines()[one.start - 1] for one in found] == ["class Reward:", "def other(): ..."]


OTHER_PROGRAM = """
@dataclass
class Own(DPOConfig): ...

def template(): ...

def main():
    DPOTrainer(args=Own()).train()

if __name__ == "__main__":
    main()
"""


def test_what_another_program_runs_is_not_reached_by_one_that_imports_of_it() -> None:
    """Nor by a `main` of the program itself, nor is a dataclass registered by its decorator."""
    program = "from train import template\ndef main():\n    template()\nmain()"
    trees = [("embed.py", ast.parse(program)), ("train.py", ast.parse(OTHER_PROGRAM))]
    lines = OTHER_PROGRAM.splitlines()
    assert [lines[one.start - 1] for one in unreached(trees)["train.py"]] == [
        "class Own(DPOConfig): ...",
        "def main():",
    ]
    assert [lines[one.start - 1] for one in of_other_programs(trees, unreached(trees))["train.py"]] == ["def main():"]
