"""Reads the machines that the header of a job's script requests: Slurm's `#SBATCH`, PBS's `#PBS`, LSF's `#BSUB`.

PBS and LSF have no variables like those of Slurm that say how many nodes and GPUs a job has, so a script that asks for
these learns nothing from the header.
"""

from __future__ import annotations

import re

from memlint.hardware.catalog import find, sizes
from memlint.repository.scripts import slurm
from memlint.repository.scripts.slurm import MOST_LETTERS, Job

_PBS = re.compile(r"(?m)^#PBS[ \t]+-l[ \t]*(\S+)")
# Custom resources "are site-defined" (OpenPBS 20, pbs_resources(7B)), so each site names that for a card as it likes.
_PBS_CARD = re.compile(r"\b(?:gpu_type|gpu_model|gputype|gpu_mod|accelerator_model|gpu_name)=([\w.-]+)")
_BSUB = re.compile(r"(?m)^#BSUB[ \t]+(-\w+)[ \t]*([^\n]*)")
_GPUS = re.compile(r"\bngpus=(\d{1,3})\b|(?<![\w-])gpus=(\d{1,3})\b")
_LSF_GPUS = re.compile(r"\bnum=(\d{1,3})(?!\d*/task)|\bngpus_excl_p=(\d{1,3})")
_LSF_CARD = re.compile(r"\bgmodel=([\w.-]+)")
_MOST_WITHOUT_CHUNK = 4  # GPUs of a request without chunks, which sites with several machines read as the sum of all


def job(text: str) -> Job | None:
    """The request in a script's header; None where it has none."""
    return slurm.job(text) or _pbs(text[:MOST_LETTERS]) or _lsf(text[:MOST_LETTERS])


def _pbs(text: str) -> Job | None:
    """`#PBS -l select=2:ncpus=64:ngpus=4:gpu_type=a100`, `-l nodes=2:ppn=8:gpus=4` of Torque, `-l ngpus=4` (OpenPBS 20,
    pbs_resources(7B), "Allocating Chunks and Job-wide Resources")."""
    requests = (request for line in _PBS.finditer(text) for request in line[1].split(","))
    found = next((one for request in requests if (one := _of_request(request, text)) is not None), None)
    return _with_card(found, _PBS_CARD.search(text)) if found is not None else None


def _of_request(request: str, text: str) -> Job | None:
    """The machines of `select=...`, `nodes=...` or `ngpus=...`; None where it asks for no GPUs. Chunks may share a host
    unless they are scattered; those of the old `nodes` are."""
    name, _, value = request.partition("=")
    gpus = _number(_GPUS, request)
    if not gpus or "+" in value:
        return None
    if name in ("ngpus", "gpus"):
        return Job(1, gpus, is_of_slurm=False) if gpus <= _MOST_WITHOUT_CHUNK else None
    first = value.partition(":")[0]
    nodes = int(first) if first.isdigit() else 1
    if name == "select" and nodes > 1 and "scatter" not in text:
        return Job(is_of_slurm=False)
    return Job(nodes, gpus, is_of_slurm=False) if name in ("select", "nodes") else None


def _lsf(text: str) -> Job | None:
    """`#BSUB -gpu "num=4:gmodel=NVIDIAA100_SXM4_80GB"`, GPUs of each host, and the older
    `-R "rusage[ngpus_excl_p=4]"` (IBM Spectrum LSF 10.1, bsub -gpu, -n, span[ptile])."""
    options = [(one[1], one[2]) for one in _BSUB.finditer(text)]
    asked = [_number(_LSF_GPUS, value) for name, value in options if name in ("-gpu", "-R")]
    if not any(asked):
        return None
    slots = next((int(value) for name, value in options if name == "-n" and value.strip().isdigit()), 1)
    tiles = [re.search(r"ptile=(\d{1,3})", value) for name, value in options if name == "-R"]
    each = next((int(tile[1]) for tile in tiles if tile is not None), slots) or 1
    found = Job(max(1, slots // each), max(asked), is_of_slurm=False)
    return _with_card(found, _LSF_CARD.search(text))


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(next(filter(None, found.groups()), 0)) if found is not None else 0


def _with_card(found: Job, card: re.Match[str] | None) -> Job:
    """The job with the card that it names, where that is one."""
    if card is None or (find(card[1]) is None and not sizes(card[1])):
        return found
    return found._replace(card=card[1], card_at=card.start(1))
