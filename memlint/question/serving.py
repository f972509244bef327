"""The room for requests of a model that serves them: cache per token and request, tokens and requests that fit."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.lint.request import StatedFacts
from memlint.question.answer import Answer, answer
from memlint.question.model import Question

MOST_REQUESTS = 1 << 14
PRECISIONS = (("fp32", None), ("bf16", None), (None, 8), (None, 4))  # dtype, bits


class ServingRoom(NamedTuple):
    """Bytes on one card. `left`: what remains free even at the high end of the estimate (None without a card).

    `most_requests`: how many requests with this context fit at once; 0 if none fits, None without a card. `weights`:
    (name of a precision, bytes of the weights in it).
    """

    token_bytes: int
    request_bytes: int
    left: int | None
    most_requests: int | None
    weights: tuple[tuple[str, int], ...]


def serving(found: Answer, facts: StatedFacts) -> ServingRoom | None:
    """The room that the answer's run leaves for requests; None if it has no estimate."""
    estimate = found.run.estimate
    if not estimate.phases:
        return None
    details = estimate.details
    left = None
    if estimate.budget_bytes and estimate.device_high_bytes is not None:
        left = max(0, estimate.budget_bytes - estimate.device_high_bytes)
    most = details.get("cache_requests")
    if most is None and left is not None:
        engine = found.neutral.parallelism.engine
        asked = found.question._replace(engine=engine if engine in ("vllm", "sglang") else "transformers")
        most = _most_requests(asked, facts)
    token, request = details.get("cache_token_bytes", 0), details.get("cache_request_bytes", 0)
    return ServingRoom(token, request, left, most, _weights(found.question, facts))


def _most_requests(question: Question, facts: StatedFacts) -> int:
    """The largest batch of requests that fits, by bisection with one estimate per step."""
    low, high = 0, 1
    while high <= MOST_REQUESTS and _fits(question, high, facts):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(question, middle, facts) else (low, middle)
    return low


def _fits(question: Question, requests: int, facts: StatedFacts) -> bool:
    try:
        return answer(question._replace(requests=requests), facts).run.estimate.verdict == "fits"
    except UsageError:  # a batch of several requests on several cards is refused
        return False


def _weights(question: Question, facts: StatedFacts) -> tuple[tuple[str, int], ...]:
    """(precision, bytes of the weights) as transformers would load them on one card. Precisions that it refuses for the
    model are left out, as those of a checkpoint that is stored quantised."""
    alone = Question(model=question.model, inference=True)
    alone = alone._replace(**{field: getattr(question, field) for field in _SHAPE})
    found = []
    for dtype, bits in PRECISIONS:
        asked = alone._replace(dtype=dtype or "", bits=bits, gpus=1, engine="transformers", requests=1)
        one = answer(asked, facts)
        phases = one.run.estimate.phases
        if phases and bits in (None, one.neutral.model.quantization.bits):
            found.append((dtype or f"{bits}-bit", phases[0].components["weights"]))
    return tuple(found)


_SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "ffn", "tied")
