"""The answer to a question as text: the table, the defaults that were used, the files that describe the run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from memlint.question.answer import Answer
from memlint.question.cards import CardNumbers
from memlint.question.check import option
from memlint.question.model import Default, QuestionFiles
from memlint.question.serving import ServingRoom
from memlint.report.table import run_lines
from memlint.report.terminal import Style, one_line
from memlint.report.units import gib

KIB = 1024


def answer_lines(found: Answer, style: Style) -> Iterator[str]:
    """The table of the run, and the reasons why its framework would refuse it."""
    for run in found.report.runs:
        yield from run_lines(run, style)
    for finding in found.refused:
        yield f"  {style.paint('refused', 'error')}: {one_line(finding.message)} ({finding.rule})"
    for finding in found.warnings:
        yield f"  {style.paint('warning', 'warning')}: {one_line(finding.message)} ({finding.rule})"


def default_lines(taken: Sequence[Default], style: Style) -> Iterator[str]:
    """Each default with its option and its reason."""
    if not taken:
        return
    yield ""
    yield "  not said, so taken:"
    shown = [(_as_option(one), one.why) for one in taken]
    width = max(len(words) for words, _ in shown)
    for words, why in shown:
        yield f"    {words:{width}}  {style.paint(why, 'dim')}"


def _as_option(one: Default) -> str:
    if isinstance(one.value, bool):
        return option(one.field) if one.value else option(f"no-{one.field}")
    return f"{option(one.field)} {one.value}" if one.field != "architecture" else f"{one.value}'s architecture"


def file_lines(found: Answer, written: Sequence[str]) -> Iterator[str]:
    """Where the files are, or how to get them, and the command that starts the run."""
    yield ""
    names = ", ".join(written or found.files.contents)
    yield f"  written: {names}" if written else f"  stands for {names} (--write-config FOLDER writes them)"
    folder = os.path.dirname(written[0]) if written else ""
    yield f"  start{f' in {folder}' if folder else ''} with: {_start(found.files, written)}"
    yield from _ways_out(found, written)


def _ways_out(found: Answer, written: Sequence[str]) -> Iterator[str]:
    """How to see what would make a training fit that does not."""
    estimate, question = found.run.estimate, found.question
    if question.inference or estimate is None or estimate.verdict not in ("tight", "out_of_memory"):
        return
    place = _config(found.files, written) if written else f"FOLDER/{found.files.main}"
    cards = f" --gpus {question.gpus}" if question.gpus else ""
    first = "" if written else "--write-config FOLDER, then "
    yield f"  what makes it fit: {first}memlint plan {shlex.quote(place)} --gpu {shlex.quote(question.gpu)}{cards}"


def _start(files: QuestionFiles, written: Sequence[str]) -> str:
    """The command that starts the run in the folder of its files."""
    return files.start.replace(files.main, os.path.basename(_config(files, written)))


def _config(files: QuestionFiles, written: Sequence[str]) -> str:
    """The place under which the config was written: beside its other files, whose names it does not change."""
    named = (path for path in written if os.path.basename(path) not in files.contents.keys() - {files.main})
    return next(named, files.main)


def _why_only_one(found: ServingRoom, cards: int) -> str:
    """Why only one request is served at a time on several cards: transformers splits the model by layers there."""
    return ", one after the other on several cards; vllm answers more" if found.most_requests == 1 and cards > 1 else ""


def serving_lines(found: ServingRoom | None, requests: int, is_server: bool, cards: int = 1) -> Iterator[str]:
    """The weights in other precisions, the cache per token and per request, and the memory left on the card."""
    if found is None:
        return
    yield ""
    if found.token_bytes:
        each = f"{found.token_bytes / KIB:,.4g} KiB a token, {gib(found.request_bytes)} GiB a request"
        yield f"  KV cache on each card: {each}"
    if found.left is not None and not is_server:
        tokens = f", {found.left // found.token_bytes:,} more tokens of cache" if found.token_bytes else ""
        yield f"  left on the card: {gib(found.left)} GiB{tokens}"
        yield f"  requests of this context at once: {found.most_requests or 'none fits'}{_why_only_one(found, cards)}"
    if is_server and found.most_requests is not None and found.most_requests < requests:
        yield f"  of {requests} requests, {found.most_requests} fit at once; the others wait"
    if found.weights:
        yield "  weights on one card: " + ", ".join(f"{name} {gib(size)}" for name, size in found.weights) + " GiB"


def card_lines(found: CardNumbers, gpu: str) -> Iterator[str]:
    """The smallest sufficient number of the named card and of each common one."""
    yield ""
    if gpu:
        yield f"  fewest {gpu}: {found.number or f'{found.tried[-1]} are not enough'}"
    steps = f"tried: {', '.join(map(str, found.tried[:5]))} ... {found.tried[-1]}"
    yield f"  fewest of each common card ({steps}; -: none of these, or no bf16 for a model in bf16):"
    width = max(len(name) for name, _ in found.by_card)
    for name, count in found.by_card:
        yield f"    {name:{width}}  {count or '-'}"
