"""Reads the resources that a Slurm job requests: `#SBATCH --gres=gpu:a100_80gb:4 --nodes=2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from memlint._record import NamedTuple
from memlint.hardware.catalog import find

_LINE = re.compile(r"(?m)^#SBATCH[ \t]+(\S.*)$")
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:[= \t]\s*([^\s-]\S*))?")
_COUNT = re.compile(r"(?:[\w.-]+:)*(\d{1,4})(?:\(.*\))?")
_SHORT = {"-N": "--nodes", "-n": "--ntasks", "-c": "--cpus-per-task", "-G": "--gpus", "-C": "--constraint"}
MOST_LETTERS = 16_384  # characters at the start of a script that are searched for directives


class Job(NamedTuple):
    """The request of a job, Slurm's or another scheduler's. 0: not stated. `gpus`: of one node.

    `card`: the card's name in the job ("a100_80gb"), "" if it names none; `card_at`: its offset. `is_of_slurm`: it is
    Slurm that starts it.
    """

    nodes: int = 0
    gpus: int = 0
    tasks: int = 0  # of all nodes
    tasks_per_node: int = 0
    card: str = ""
    card_at: int = 0
    is_of_slurm: bool = True

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that Slurm sets for the job (sbatch's manual, "output environment variables")."""
        if not self.is_of_slurm:
            return {}
        named = {
            "SLURM_NNODES": self.nodes,
            "SLURM_JOB_NUM_NODES": self.nodes,
            "SLURM_NTASKS": self.tasks,
            "SLURM_NPROCS": self.tasks,
            "SLURM_NTASKS_PER_NODE": self.tasks_per_node,
            "SLURM_GPUS_ON_NODE": self.gpus,
            "SLURM_GPUS_PER_NODE": self.gpus,
        }
        return {name: str(number) for name, number in named.items() if number}


def job(text: str) -> Job | None:
    """The request in a script's header; None where it has none."""
    options = dict(pair for line in _LINE.findall(text[:MOST_LETTERS]) for pair in _options(line))
    if not options and not _LINE.search(text[:MOST_LETTERS]):
        return None
    found = _request(options)
    return found._replace(card_at=max(0, text.find(found.card)) if found.card else 0)


def step(arguments: Iterable[str]) -> Job:
    """What `srun` asks for with options of its own: `srun --nodes=2 --gpus-per-node=8`."""
    return _request(dict(_options(" ".join(arguments))))


def _request(options: Mapping[str, str]) -> Job:
    nodes = _number(options.get("--nodes", "")) or 1
    per_node = _number(options.get("--ntasks-per-node", ""))
    tasks = _number(options.get("--ntasks", "")) or per_node * nodes or nodes
    gpus, card = _gpus(options, nodes, tasks, per_node), _card(options)
    return Job(nodes, gpus, tasks, per_node or max(1, tasks // nodes), card)


def _card(options: Mapping[str, str]) -> str:
    """a100 of `--gres=gpu:a100:4`, h100 of `--constraint=h100`; "" where the header names none."""
    for name in ("--gres", "--gpus-per-node", "--gpus", "--gpus-per-task"):
        for one in options.get(name, "").split(","):
            parts = one.split(":")
            kind = parts[1:] if parts[0] == "gpu" else parts if name != "--gres" else []
            if kind and not kind[0].partition("(")[0].isdigit() and kind[0]:
                return kind[0]
    constraint = options.get("--constraint", "").strip("\"'")
    return constraint if find(constraint) is not None else ""  # a constraint may also name other features of nodes


def _options(line: str) -> list[tuple[str, str]]:
    line = line.partition(" #")[0]
    return [(_SHORT.get(name, name), value) for name, value in _OPTION.findall(line)]


def _gpus(options: Mapping[str, str], nodes: int, tasks: int, per_node: int) -> int:
    """GPUs of one node, by whichever option asks for them."""
    for resources in (options.get("--gres", ""), options.get("--gpus-per-node", "")):
        for one in resources.split(","):
            if one and (resources is not options.get("--gres") or one.startswith("gpu")):
                return _number(one) or _of_a_kind(one)
    if options.get("--gpus"):
        return _number(options["--gpus"]) // nodes
    each = _number(options.get("--gpus-per-task", ""))
    return each * (per_node or max(1, tasks // nodes))


def _of_a_kind(resource: str) -> int:
    """1 of `gpu` and `gpu:a40`, whose count "default value of 1" is (sbatch's manual, --gres)."""
    return int(re.fullmatch(r"gpu(?::[A-Za-z][\w.-]*)?", resource) is not None)


def _number(text: str) -> int:
    """The number in `gpu:a100:4`, `4` and `2-4` (the smaller one)."""
    match = _COUNT.fullmatch(text.partition("-")[0] if text[:1].isdigit() else text)
    return int(match[1]) if match else 0
