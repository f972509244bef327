"""The shell's patterns (`*.sh`, `[a-c]?`) as regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache

MOST_LETTERS = 200  # characters of a pattern
MOST_TEXT = (4_096, 2_048, 256)  # longest text for a pattern with 0, 1 and 2 stars, as each star may try every place


class CannotMatch(ValueError):
    """The pattern or the text is too long to be matched in bounded time."""


@lru_cache(maxsize=256)
def expression(pattern: str, greedy: bool = True) -> re.Pattern[str]:
    """The regular expression of a pattern. Raises CannotMatch."""
    if len(pattern) > MOST_LETTERS:
        raise CannotMatch(pattern)
    try:
        return re.compile("".join(_pieces(pattern, greedy)), re.DOTALL)
    except re.error:
        raise CannotMatch(pattern) from None


def matches(pattern: str, text: str) -> bool:
    return expression(pattern).fullmatch(_checked(pattern, text)) is not None


def without_start(pattern: str, text: str, longest: bool) -> str:
    """`${X#pattern}`, and `${X##pattern}` for the longest."""
    found = expression(pattern, longest).match(_checked(pattern, text))
    return text[found.end() :] if found else text


def without_end(pattern: str, text: str, longest: bool) -> str:
    """`${X%pattern}`, and `${X%%pattern}` for the longest."""
    one = expression(pattern)
    places = range(len(_checked(pattern, text)) + 1)
    for start in places if longest else reversed(places):
        if one.fullmatch(text, start):
            return text[:start]
    return text


def replaced(pattern: str, by: str, text: str, every: bool) -> str:
    """`${X/pattern/by}`; with `every`, `${X//pattern/by}`. A pattern with `#` or `%` first only matches at the start or
    end."""
    if pattern[:1] == "#":
        return by + text[len(pattern) - 1 :] if text.startswith(pattern[1:]) else text
    return expression(pattern).sub(lambda found: by if found[0] else "", _checked(pattern, text), 0 if every else 1)


def _checked(pattern: str, text: str) -> str:
    stars = pattern.replace("**", "*").count("*")
    if stars >= len(MOST_TEXT) or len(text) > MOST_TEXT[stars]:
        raise CannotMatch(text[:20])
    return text


def _pieces(pattern: str, greedy: bool) -> list[str]:
    found: list[str] = []
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        group = _GROUP.match(pattern, index) if letter == "[" else None
        if letter == "*":
            if not found or found[-1] not in (".*", ".*?"):
                found.append(".*" if greedy else ".*?")
        elif letter == "?":
            found.append(".")
        elif letter == "\\" and index + 1 < len(pattern):
            index += 1
            found.append(re.escape(pattern[index]))
        elif group is not None:
            found.append(f"[{'^' if group['not'] else ''}{_LETTERS_OF.sub(_letters, group['letters'])}]")
            index = group.end() - 1
        else:
            found.append(re.escape(letter))
        index += 1
    return found


# `[!a-c_]`, `[[:space:]]`; a `]` at the start is a letter of the group.
_GROUP = re.compile(r"\[(?P<not>[!^])?(?P<letters>(?:\]|\[:\w+:\]|[^\]])(?:\[:\w+:\]|[^\]])*)\]")
_LETTERS_OF = re.compile(r"\[:(\w+):\]|([\[\]\\^&|~])")
_CLASSES = {"space": r"\s", "blank": r" \t", "digit": "0-9", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9"} | {
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9a-fA-F",
    "word": r"\w",
    "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
}


def _letters(found: re.Match[str]) -> str:
    """A class of letters as ranges, or one letter that has a meaning inside a regular expression's group."""
    return _CLASSES.get(found[1], "") if found[1] else f"\\{found[2]}"
