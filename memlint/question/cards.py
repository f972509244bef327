"""How many cards a question needs: of the card that it names, and of each common one."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.hardware import common
from memlint.lint.request import StatedFacts
from memlint.question.answer import Answer, answer
from memlint.question.defaults import with_defaults
from memlint.question.model import Default, Question
from memlint.run import SERVERS

# Numbers of cards that people have: up to a machine, then whole machines of eight.
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SHARING = (1, 2, 4, 8, 16)  # cards that share each layer: they divide its heads


class CardNumbers(NamedTuple):
    """`answer`: with the fewest of the card that was named, or of any common one, else with the most that was tried.
    `number`: how many, 0 where none is enough. `by_card`: how many of each common card, None where none is enough.
    `tried`: the numbers.
    """

    answer: Answer
    number: int
    by_card: tuple[tuple[str, int | None], ...]
    tried: tuple[int, ...]


def fewest_cards(question: Question, facts: StatedFacts) -> CardNumbers:
    """The smallest numbers of cards that hold the run, found by estimating it for each number. Raises UsageError."""
    question, taken = _shared(question)
    engine = with_defaults(question._replace(gpus=question.gpus or 2))[0].engine
    serves = question.inference and engine in SERVERS
    if serves:
        question = question._replace(engine=engine)
    counts = SHARING if serves else COUNTS
    rows = _served_rows(question, facts) if serves else _rows(question, facts)
    found, count = _smallest(question, facts, counts, dict(rows))
    files = found.files._replace(taken=(*found.files.taken, *taken))
    return CardNumbers(found._replace(files=files), count, rows, counts)


def _shared(question: Question) -> tuple[Question, tuple[Default, ...]]:
    """The question with a way to share the model among the cards: with DDP no number of cards is ever enough."""
    if question.inference or question.zero or question.fsdp:
        return question, ()
    why = "more cards hold a larger run only where they share the model"
    return question._replace(zero=3), (Default("zero", 3, why),)


def _rows(question: Question, facts: StatedFacts) -> tuple[tuple[str, int | None], ...]:
    """The fewest of each common card: an estimate names all cards that hold it."""
    fewest: dict[str, int] = {}
    for count in COUNTS:
        for name in answer(question._replace(gpus=count), facts).run.estimate.fits_on:
            fewest.setdefault(name, count)
        if len(fewest) == len(common()):
            break
    return tuple((gpu.name, fewest.get(gpu.name)) for gpu in common())


def _served_rows(question: Question, facts: StatedFacts) -> tuple[tuple[str, int | None], ...]:
    """The same under a server, whose cache depends on the card: it has to hold all requests at once."""
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
    """The answer for the fewest cards, and their number; 0 with the answer for the most that was tried."""
    if question.gpu:
        count = next((count for count in counts if _is_enough(question, count, facts)), 0)
    else:
        count = min((count for count in by_card.values() if count), default=0)
    return answer(question._replace(gpus=count or counts[-1]), facts), count
