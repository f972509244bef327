"""What of a program's modules it cannot reach."""

from __future__ import annotations

import ast
import textwrap

from memlint.repository.scripts.reached import unreached

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
