"""Checks a command before it runs: its launches, the configs and scripts that it names, the card that it requests."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

from memlint._record import NamedTuple
from memlint.hardware.named import REQUESTED_AS_NAMED, requested_card, unknown_gpu
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest
from memlint.report.model import PART, FileReport
from memlint.repository.files.discovery import SUFFIXES
from memlint.repository.programs import PYTHON
from memlint.repository.scripts.job_headers import job
from memlint.repository.workspace import read_bytes
from memlint.source.encoding import decode

COMMAND = "command.sh"  # the file name under which the command line is linted
CONFIGS = (".yaml", ".yml", ".json")
_CONFIG = re.compile(r"[\w./-]+\.(?:ya?ml|json)\b")


class Preflight(NamedTuple):
    """`reports`: about the command and the files that it names. `notes`: why something was not judged."""

    reports: tuple[FileReport, ...]
    notes: tuple[str, ...] = ()


def preflight(words: Sequence[str], request: LintRequest) -> Preflight:
    """Checks the command `words` like a one-line script in the working directory. Nothing is run.

    If the command line itself determines a run, only that is reported; else the configs that it names, else the
    scripts. The card that the job requests is used if the caller named none.
    """
    named = _named_files(words)
    notes: tuple[str, ...] = ()
    if request.facts.gpu is None:
        request, notes = _with_card_of_job(words, named, request)
    text = (shlex.join(words) + "\n").encode("utf-8", "surrogateescape")
    linter = Linter(request._replace(contents=(*request.contents, (COMMAND, text))))
    first = linter.report_file(COMMAND)
    if _is_estimated(first):
        return Preflight((first,), notes)
    scripts = tuple(path for path in named if not path.endswith(CONFIGS))
    configs = dict.fromkeys((*(path for path in named if path.endswith(CONFIGS)), *_configs_named_in(scripts)))
    for paths in (configs, scripts):  # configs first: a script's launch leaves most values to its config
        reports = tuple(filter(_is_estimated, map(linter.report_file, paths)))
        if reports:
            return Preflight(reports, notes)
    return Preflight((first,) if first.runs else (), notes)


def _is_estimated(report: FileReport) -> bool:
    """Whether a file has a complete run (not only a part, such as a DeepSpeed JSON) whose memory is known."""
    return any(run.purpose != PART and run.estimate.allocated_bytes is not None for run in report.runs)


def _named_files(words: Sequence[str]) -> tuple[str, ...]:
    """The existing configs and scripts among the words, also after the `=` of an option (`--config=a.yaml`)."""
    candidates = (word.rpartition("=")[2] if word.startswith("-") else word for word in words[1:])
    files = (word for word in candidates if word.endswith(SUFFIXES) and os.path.isfile(word))
    return tuple(dict.fromkeys(posixpath.normpath(name.replace(os.sep, "/")) for name in files))


def _configs_named_in(scripts: Sequence[str]) -> Iterator[str]:
    """The configs that the text of job scripts names, from the working directory or the script's folder."""
    for path in scripts:
        if path.endswith(PYTHON):
            continue
        folder = posixpath.dirname(path)
        for name in _CONFIG.findall(decode(read_bytes(os.path.abspath(path))).text):
            places = (posixpath.normpath(place) for place in (name, posixpath.join(folder, name)))
            yield from list(filter(os.path.isfile, places))[:1]


def _with_card_of_job(
    words: Sequence[str], named: Sequence[str], request: LintRequest
) -> tuple[LintRequest, tuple[str, ...]]:
    """(the request with the card that the Slurm job asks for, notes): `--gres=gpu:h100:4` on the command line, else in
    the header of a job script."""
    texts = ["#SBATCH " + " ".join(words[1:])] if posixpath.basename(words[0]) in ("sbatch", "srun", "salloc") else []
    texts += [decode(read_bytes(os.path.abspath(path))).text for path in named if not path.endswith(PYTHON)]
    name = next((asked.card for text in texts if (asked := job(text)) and asked.card), "")
    if not name:
        return request, ()
    card, detail = requested_card(name)
    if card is None:
        return request, (f"the job asks for a card called {name}: {unknown_gpu(name)}; name it with --gpu",)
    notes = () if detail == REQUESTED_AS_NAMED else (f"{detail}: judged as {card.name}; --gpu names another one",)
    return request._replace(facts=request.facts._replace(gpu=card)), notes
