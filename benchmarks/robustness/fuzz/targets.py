"""Coverage-guided fuzzing of everything that reads what strangers wrote.

    pip install atheris
    python benchmarks/robustness/fuzz/targets.py TARGET [benchmarks/robustness/fuzz/corpus] [-max_total_time=600]

TARGET: loader, comments, settings, expressions, reports. (Whole expressions from a grammar, which bytes seldom hit:
benchmarks/robustness/fuzz_expression.py.) An input that ends in an exception is written to the working directory; one
worth keeping goes to the corpus.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.command import parser

try:
    import atheris
except ImportError:  # `--help` needs no fuzzer
    parser(__doc__).parse_known_args()
    raise

with atheris.instrument_imports(include=["memlint"]):
    from memlint.expressions.facts import Facts, StepLimit
    from memlint.expressions.language import ExpressionError, compile_expression
    from memlint.expressions.vocabulary import Vocabulary
    from memlint.hardware import find
    from memlint.lint.linter import Linter
    from memlint.lint.request import LintRequest, StatedFacts
    from memlint.report.model import Report
    from memlint.report.outputs import OUTPUTS
    from memlint.run import UNKNOWN, Run
    from memlint.settings import SettingsError, effective, load_settings
    from memlint.source import comments as comments_of
    from memlint.source import in_dialect, load
NAMES = ("x.yaml", "x.json", "x")
DIALECTS = ("yaml11", "yaml12", "omegaconf")
GPU = find("RTX4090")
JOB = LintRequest(StatedFacts(gpu=GPU, gpus=2, isolated=True))
LINTER = Linter(JOB)  # its rules are read once
PLAIN = (int, float, str, bool, type(None), list, tuple, dict, type(UNKNOWN))
VOCABULARIES = (Vocabulary(("llamafactory",)), Vocabulary())
FACTS = Facts(Run("llamafactory", "x.yaml"), None, {"config": {"stage": "sft", "cutoff_len": 2048, "lora_rank": "8"}})


def loader(data: bytes) -> None:
    """Every span lies in the text, whatever the dialect."""
    name, dialect = NAMES[len(data) % 3], DIALECTS[sum(data[:4]) % 3]
    for document in load(data, name, dialect=dialect):
        for problem in document.problems:
            assert 0 <= problem.span.start <= problem.span.end <= len(document.text)
        in_dialect(document, "omegaconf")


def comments(data: bytes) -> None:
    """Suppressions and facts in comments."""
    from memlint.suppressions.apply import read_directives

    for document in load(data, "x.yaml"):
        for comment in comments_of(document):
            assert document.text[comment.span.start : comment.span.end].startswith("#")
        read_directives(document)


def settings(data: bytes) -> None:
    """A settings file is read or refused."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("memlint.yaml", "pyproject.toml"):
            path = os.path.join(folder, name)
            Path(path).write_bytes(data)
            with suppress(SettingsError):
                effective(load_settings(os.path.join(folder, "x.yaml"), path), os.path.join(folder, "x.yaml"))


def expressions(data: bytes) -> None:
    """A rule's condition is refused, or gives a plain value within its steps."""
    text = data.decode("utf-8", "replace")
    for names in VOCABULARIES:
        with suppress(ExpressionError, StepLimit):
            program = compile_expression(text, names)
            FACTS.begin({})
            assert isinstance(program.evaluate(FACTS), PLAIN)


def reports(data: bytes) -> None:
    """A whole check, and every output of it."""
    linter = Linter(JOB._replace(fixes=len(data) % 2 == 0, contents=(("x.yaml", data),)))
    linter.rules._rules, linter.rules._engines = LINTER.rules._rules, LINTER.rules._engines
    report = linter.report_file("x.yaml")
    assert not any(item.rule == "MEM000" for item in report.findings), report.findings
    for module in OUTPUTS.values():
        text = import_module(f"memlint.report.{module}").render(Report((report,), (), "0"))
        assert "\x1b" not in text


TARGETS: dict[str, Callable[[bytes], None]] = {
    "loader": loader,
    "comments": comments,
    "settings": settings,
    "expressions": expressions,
    "reports": reports,
}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("target", choices=sorted(TARGETS))
    options, rest = arguments.parse_known_args()
    atheris.Setup([sys.argv[0], *rest], TARGETS[options.target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
