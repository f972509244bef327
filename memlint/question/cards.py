"""Finds how many cards the run of a question needs: of the named card, and of each common one."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.hardware import common
from memlint.lint.request import StatedFacts
from memlint.question.answer import Answer, answer
from memlint.question.defaults import with_defaults
from memlint.question.model import Default, Question
from memlint.run import SERVERS

# Numbers of cards to try: up to one machine of eight, then whole machines.
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SHARING = (1, 2, 4, 8, 16)  # numbers of cards with tensor parallelism, which must divide the heads


class CardNumbers(NamedTuple):
    """How many cards are enough.

    `number`: the fewest of the named card (if none is named, of any common card) that hold the run; 0 if none does.
    `answer`: the answer for this number, or for the most that was tried. `by_card`: the fewest of each common card,
    None if no number is enough. `tried`: the numbers that were tried.
    """

    answer: Answer
    number: int
    by_card: tuple[tuple[str, int | None], ...]
    tried: tuple[int, ...]


def fewest_cards(question: Question, facts: StatedFacts) -> CardNumbers:
    """The smallest numbers of cards that hold the run, found by estimating it for each number. Raises UsageError."""
    question, taken = _with_sharding(question)
    engine = with_defaults(question._replace(gpus=question.gpus or 2))[0].engine
    serves = question.inference and engine in SERVERS
    if serves:
        question = question._replace(engine=engine)
    counts = SHARING if serves else COUNTS
    rows = _served_rows(question, facts) if serves else _rows(question, facts)
    found, count = _smallest(question, facts, counts, dict(rows))
    files = found.files._replace(taken=(*found.files.taken, *taken))
    return CardNumbers(found._replace(files=files), count, rows, counts)


def _with_sharding(question: Question) -> tuple[Question, tuple[Default, ...]]:
    """The question, with sharding added if it has none: with DDP more cards would never help. Also the new defaults."""
    if question.inference or question.zero or question.fsdp:
        return question, ()
    why = "more cards hold a larger run only where they share the model"
    return question._replace(zero=3), (Default("zero", 3, why),)


def _rows(question: Question, facts: StatedFacts) -> tuple[tuple[str, int | None], ...]:
    """The fewest of each common card. One estimate per number is enough: it lists all cards that hold the run."""
    fewest: dict[str, int] = {}
    for count in COUNTS:
        for name in answer(question._replace(gpus=count), facts).run.estimate.fits_on:
            fewest.setdefault(name, count)
        if len(fewest) == len(common()):
            break
    return tuple((gpu.name, fewest.get(gpu.name)) for gpu in common())


def _served_rows(question: Question, facts: StatedFacts) -> tuple[tuple[str, int | None], ...]:
    """The fewest of each common card for a server. Each card is estimated by itself: the server's cache depends on it,
    and must hold all requests at once."""
    rows = []
    for gpu in common():
        asked = question._replace(gpu=gpu.name)
        rows.append((gpu.name, next((count for count in SHARING if _is_enough(asked, count, facts)), None)))
    return tuple(rows)


def _is_enough(question: Question, count: int, facts: StatedFacts) -> bool:
    found = answer(question._replace(gpus=count), facts)
    run = found.run
    requests = run.estimate.details.get("cache_requests")
    enough = requests is None or requests >= (question.requests or 1)
    supported = requests is None or run.hardware.gpu in run.estimate.fits_on
    return run.estimate.verdict == "fits" and enough and supported and not found.refused


def _smallest(
    question: Question, facts: StatedFacts, counts: tuple[int, ...], by_card: dict[str, int | None]
) -> tuple[Answer, int]:
    """(answer for the fewest sufficient cards, their number); if no number suffices, (answer for the most tried, 0)."""
    if question.gpu:
        count = next((count for count in counts if _is_enough(question, count, facts)), 0)
    else:
        count = min((count for count in by_card.values() if count), default=0)
    return answer(question._replace(gpus=count or counts[-1]), facts), count
