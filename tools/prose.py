"""The house style of README and docs, as far as a program can see it. Exits 1 where a page breaks it.

Checked is prose alone: no code, no tables, no pages that a tool writes from data. Vale would do the same with a binary
that its package downloads at the first start; proselint does not know Markdown and stumbles over code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("guide", "recipes", "reference", "integrations")
PAGES = ("index", "settings", "python", "diff", "plugins", "comparison", "rules-format", "architecture")
LONGEST = 45  # words of a sentence
# Words that say nothing, flatter the reader or the program, or have a shorter twin.
AVOID = {
    "actually": "",
    "basically": "",
    "blazing": "",
    "effortless(?:ly)?": "",
    "easily": "",
    "facilitate": "help",
    "in order to": "to",
    "just": "",
    "leverage": "use",
    "obviously": "",
    "please note": "",
    "powerful": "",
    "seamless(?:ly)?": "",
    "simply": "",
    "state-of-the-art": "",
    "utili[sz]e": "use",
    "very": "",
}
WORDS = {re.compile(rf"\b{word}\b", re.IGNORECASE): instead for word, instead in AVOID.items()}
# A word twice in a row on one line; "that that" is English.
TWICE = re.compile(r"\b(?!that\b)(\w+) \1\b", re.IGNORECASE)
NOT_PROSE = re.compile(
    r"^```.*?^```|^<!--.*?-->|^(?: *\|.*\n)+|^ {4,}[^\s*-].*$|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL
)
SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n\s*[-*#\d]+\.?\s")


def pages() -> list[Path]:
    docs = ROOT / "docs"
    found = [page for folder in FOLDERS for page in sorted((docs / folder).glob("*.md"))]
    return [ROOT / "README.md", *(docs / f"{name}.md" for name in PAGES), *found]


def prose(text: str) -> str:
    """The text with everything that is no prose blanked, line by line."""
    return NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def problems(text: str) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of a page."""
    told = prose(text)
    for pattern, instead in WORDS.items():
        for found in pattern.finditer(told):
            yield _line(told, found.start()), f"`{found[0]}`: {f'say `{instead}`' if instead else 'leave it out'}"
    for found in TWICE.finditer(told):
        yield _line(told, found.start()), f"`{found[1]}` twice"
    start = 0
    for sentence in SENTENCE.split(told):
        start = told.index(sentence, start)
        if (number := len(sentence.split())) > LONGEST:
            yield _line(told, start), f"a sentence of {number} words (at most {LONGEST})"


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def main() -> int:
    found = [(page, *one) for page in pages() for one in sorted(problems(page.read_text(encoding="utf-8")))]
    for page, line, problem in found:
        print(f"{page.relative_to(ROOT)}:{line}: {problem}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
