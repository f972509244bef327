"""Suggestions for misspelled words: the known word that is nearest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

LONGEST = 64  # longer words are no typos, and the distance is quadratic
_LONG = 4  # words of a name of which one may be left out
_NO_SLIPS = frozenset(("lora",))  # words of which the meaning is plain: `lora` is no slip of Axolotl's `mora`


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` most likely misspells, or "" where none is near."""
    if len(word) > LONGEST or not word or word in _NO_SLIPS:
        return ""
    plain = normal(word)
    letters, parts = _letters(plain), sorted(plain.split("_"))
    best, best_distance, in_full, longer = "", limit(plain) + 1, "", ""
    for candidate in known:
        other = normal(candidate)
        if len(other) == len(plain) and sorted(other.split("_")) == parts:
            return candidate
        if abs(len(other) - len(plain)) < best_distance and _letters_apart(letters, _letters(other)) < best_distance:
            found = distance(plain, other, best_distance)
            if found < best_distance and (found < 2 or other[0] == plain[0]):  # `ranking` is no slip of `packing`
                best, best_distance = candidate, found
        if not in_full and _abbreviates(plain, other):
            in_full = candidate
        if not longer and "_" in plain and other.endswith(f"_{plain}"):
            longer = candidate  # `use_fast` is `tokenizer_use_fast` rather than two slips of `use_eaft`
    return (longer if best_distance > 1 else "") or best or in_full


def _abbreviates(word: str, other: str) -> bool:
    """Whether a name of several words is another one in short, or the other way round with a word left out."""
    words, more = word.count("_") + 1, other.count("_") - word.count("_")
    if more == 0:
        return words >= 2 and word[0] == other[0] and _shortens(word.split("_"), other.split("_"))
    if more == 1:
        return words >= _LONG and _leaves_out(word.split("_"), other.split("_"))
    return more == -1 and words > _LONG and _leaves_out(other.split("_"), word.split("_"))


def _leaves_out(words: list[str], others: list[str]) -> bool:
    """Whether words are those of another long name without one of them: `gather_16bit_weights_on_save` for
    `gather_16bit_weights_on_model_save`."""
    return any(words == others[:index] + others[index + 1 :] for index in range(len(others)))


def _shortens(words: list[str], others: list[str]) -> bool:
    """Whether words are those of another name, some of them cut: `max_live_params` for `max_live_parameters`."""
    return all(
        word == other or (len(word) > 3 and other.startswith(word.removesuffix("s")))
        for word, other in zip(words, others)
    )


def _letters_apart(left: frozenset[str], right: frozenset[str]) -> int:
    """A distance that two words with these letters have at least: an edit brings or removes one letter."""
    return max(len(left - right), len(right - left))


def slip_of(key: str, known: Mapping[str, Any], present: Collection[str]) -> str:
    """The known key that `key` misspells: one slip, two in a long word, never a different word of the same shape."""
    plain = normal(key)
    if len(plain) < 5 or len(plain) > LONGEST:  # `bias` is no slip of `bits`, `mode` none of `model`
        return ""
    allowed = 1 if len(plain) < 12 else 2
    for candidate in known:
        if candidate in present or "x-memlint-removed-in" in known[candidate] or candidate[0] != plain[0]:
            continue
        if _is_other_word(plain, candidate):
            continue
        if abs(len(candidate) - len(plain)) <= allowed and distance(plain, candidate, allowed + 1) <= allowed:
            return "" if _numbered(plain, candidate) else candidate
    return ""


def _is_other_word(key: str, candidate: str) -> bool:
    """`dataset` and `devices` are a script's words, whatever others call `datasets` and `device`; so is `log_dir`,
    which is a folder in any script, beside `logdir`."""
    if "_" not in key and key.removesuffix("s") == candidate.removesuffix("s"):
        return True
    return key.replace("_", "") == candidate.replace("_", "") and len(candidate) < 8


def _numbered(key: str, candidate: str) -> bool:
    """`reward_model_2` beside `reward_model`: a name with another number, no slip."""
    return key.strip("0123456789_") == candidate.strip("0123456789_")


# Of the keys of a few schemas, which are asked again for each unknown one.
_letters: Callable[[str], frozenset[str]] = lru_cache(maxsize=2048)(frozenset)


@lru_cache(maxsize=2048)  # as above
def normal(word: str) -> str:
    """`word` in lower case with underscores, so that spellings of one name are equal."""
    return word.strip().lower().replace("-", "_").replace(" ", "_").replace(".", "_")


def limit(word: str) -> int:
    """How many edits a word of this length may be away from the one that was meant."""
    return 1 if len(word) < 6 else 2 if len(word) < 12 else 3


def distance(left: str, right: str, bound: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words; >= `bound` where it is more."""
    before: list[int] = []
    previous = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        current = [i]
        for j, b in enumerate(right, 1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) >= bound:
            return bound
        before, previous = previous, current
    return previous[-1]
