"""Finds how many GPUs a launch uses, from its launcher, its environment variables and its job."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, takewhile

from memlint._record import NamedTuple
from memlint.formats.fields import as_int
from memlint.hardware.catalog import find, instance
from memlint.repository.scripts.commands import LaunchCommand, Option, options
from memlint.repository.scripts.slurm import Job, step
from memlint.source.document import Document
from memlint.source.shell.text import Text, Where, Word, known

_PROCESSES = "PET_NPROC_PER_NODE"  # torch 2.13 distributed/run.py: `PET_...` stand for options that are not given
_NUMBER = re.compile(r"[1-9]\d{0,4}")
_DEVICES = re.compile(r"\s*\d+\s*(?:,\s*\d+\s*)*,?\s*")


class World(NamedTuple):
    """The number of GPUs of all machines and of one; 0 if unknown. `at`: the place where it is written."""

    gpus: int = 0
    per_node: int = 0
    at: Where | None = None


UNKNOWN = World()


def world(
    command: LaunchCommand,
    variables: Mapping[str, Text],
    wrappers: Sequence[tuple[Word, ...]],
    job: Job | None,
    read: Callable[[str], str | None] = lambda reference: None,
) -> World:
    """The GPUs of a launch: by the launcher's options, else by the visible devices, else by the job.

    `read`: returns the text of a file that the command names (DeepSpeed's host file).
    """
    hosts = _of_hosts(command, read)
    if hosts is not None:
        return hosts
    reader = _LAUNCHERS.get(command.launcher)
    found = reader(command, variables) if reader else None
    if found is not None:
        return found
    own = _own_arguments(command)
    if own is not None:
        return own
    nodes = _nodes(command)
    if nodes == 0:
        return UNKNOWN
    visible = visible_devices(variables)
    if visible:
        return World(visible * nodes, visible, _assigned_at(variables["CUDA_VISIBLE_DEVICES"]))
    tasks = _tasks(wrappers, job)
    if tasks is not None:
        return tasks
    asked = asked_for(wrappers, job)
    if asked is not None and asked.gpus:
        return World(asked.gpus * max(nodes, asked.nodes if command.launcher != "python" else 1), asked.gpus)
    return UNKNOWN


def told(command: LaunchCommand, variables: Mapping[str, Text]) -> World:
    """The GPUs that options or variables tell a program which starts its processes itself; UNKNOWN where it takes all
    that there are."""
    found = _LAUNCHERS[command.launcher](command, variables) if command.launcher in _LAUNCHERS else None
    return UNKNOWN if found is None else found


def no_more_than_in_file(size: World, file: Document | None) -> World:
    """accelerate starts as many processes as its launch file says, on the first of the visible devices (1.0
    commands/launch.py:1035-1044: what no option gives is taken from the file)."""
    value = file.value if file is not None and isinstance(file.value, dict) else {}
    count, machines = as_int(value.get("num_processes")) or 0, as_int(value.get("num_machines")) or 1
    return World(count, max(1, count // machines), size.at) if 0 < count < size.gpus else size


_HOST = re.compile(r"^\s*[\w.-]+\s+slots=(\d{1,3})\s*(?:#.*)?$", re.MULTILINE)


def _of_hosts(command: LaunchCommand, read: Callable[[str], str | None]) -> World | None:
    """deepspeed 0.19 launcher/runner.py: the host file has `name slots=8` lines; `--num_nodes` and `--num_gpus` take
    the first of them, `--include` and `--exclude` choose."""
    option = command.option("hostfile", "H")
    if command.launcher != "deepspeed" or option is None or not option.values:
        return None
    chosen = command.option("include", "i", "exclude", "e")
    name = option.values[0].known
    text = read(name) if name and chosen is None else None
    slots = [int(count) for count in _HOST.findall(text or "")]
    nodes, each = _number(command.option("num_nodes")), _number(command.option("num_gpus"))
    slots = slots[: nodes or len(slots)]
    if not slots:
        return None
    counts = [min(each, count) if each else count for count in slots]
    return World(sum(counts), max(counts), _at(option))


_ACTOR = (
    ("actor.num_gpus_per_node", "actor.num_nodes"),
    ("actor_num_gpus_per_node", "actor_num_nodes"),
)


def _own_arguments(command: LaunchCommand) -> World | None:
    """verl and OpenRLHF start their own workers: `trainer.n_gpus_per_node=8 trainer.nnodes=2`,
    `--actor_num_gpus_per_node 8 --actor_num_nodes 2`."""
    own = {one.name: one for one in options(command.arguments)[0] if one.name.startswith("actor")}
    for gpus, nodes in _ACTOR:
        if gpus in own:
            each, count = _number(own[gpus]) or 0, _number(own.get(nodes))
            return World(each * (1 if count is None else count), each, _at(own[gpus]))
    given = {word.text.partition("=")[0]: word for word in command.arguments if word.text.startswith("trainer.n")}
    word = given.get("trainer.n_gpus_per_node")
    if word is None:
        return None
    each = _value(word)
    return World(each * (_value(given["trainer.nnodes"]) if "trainer.nnodes" in given else 1), each, word.at)


def _value(word: Word) -> int:
    text = word.after(word.text.index("=") + 1).known or ""
    return int(text) if _NUMBER.fullmatch(text) else 0


def _number(option: Option | None) -> int | None:
    """The option's number: None if the option is not given, 0 if its value is unknown."""
    if option is None:
        return None
    text = option.values[0].known if option.values else None
    return int(text) if text is not None and _NUMBER.fullmatch(text) else 0


def _nodes(command: LaunchCommand) -> int:
    found = _number(command.option("nnodes", "num_nodes", "num_machines"))
    return 1 if found is None else found


def _torchrun(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    option = command.option("nproc_per_node")
    each = _number(option)
    told = option.values[0].known if option is not None and option.values else known(variables.get(_PROCESSES, ()))
    if told in ("gpu", "auto"):
        return None
    if option is None and _PROCESSES in variables:
        each = _variable(variables, _PROCESSES)
        nodes = _nodes(command) if command.option("nnodes") else _variable(variables, "PET_NNODES")
        return World(each * nodes, each)
    if each is None:
        return World(_nodes(command), 1, command.program.at if command.program else None)  # torchrun's default is one
    return World(each * _nodes(command), each, _at(option))


def _tune(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    """torchtune starts torchrun where one of its options is given, else one process (0.6.1 _cli/run.py, _run_cmd)."""
    if not command.options:
        return World(1, 1, command.program.at if command.program else None)
    return _torchrun(command, variables)


def _lightning(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    """`fabric run --devices 8 --num-nodes 2` starts as many processes; one on one machine unless said (lightning 2.6
    fabric/cli.py, run)."""
    option = command.option("devices")
    each = 1 if option is None else _number(option)
    return World(each * _nodes(command), each, _at(option)) if each else None


def _accelerate(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    option = command.option("num_processes")
    total = _number(option)
    if total is None:
        return None
    machines = _nodes(command) or 1
    return World(total, max(1, total // machines) if total else 0, _at(option))


def _handed_on(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    """`trl sft --num_processes 4`: what its own parser does not know, it hands to `accelerate launch` (trl 1.16.0
    cli/commands/training.py; 0.19.0 cli.py). Axolotl hands on what follows `--`, `--launcher torchrun --
    --nproc_per_node=8`, and up to 0.8 `--num-processes` (0.16.0 and 0.8.1 cli/main.py, train)."""
    launched = command._replace(options=options(command.arguments)[0])
    of_torchrun = command.launcher == "axolotl" and launched.option("nproc_per_node") is not None
    return _torchrun(launched, variables) if of_torchrun else _accelerate(launched, variables)


def _deepspeed(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    option = command.option("num_gpus")
    each = _number(option)
    if each is not None:
        return World(each * _nodes(command), each, _at(option))
    include = command.option("include", "i")
    if include is not None and include.values:
        return _included(include)
    return None


def _included(option: Option) -> World:
    """`--include localhost:0,1,2,3`; hosts are separated by `@`."""
    text = option.values[0].known or ""
    counts = []
    for host in text.split("@"):
        _, colon, devices = host.partition(":")
        if not colon or not _DEVICES.fullmatch(devices):
            return UNKNOWN
        counts.append(len([one for one in devices.split(",") if one.strip()]))
    return World(sum(counts), max(counts), _at(option))


def _swift(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    """ms-swift starts torchrun if `NPROC_PER_NODE` is set (4.2 swift/cli/main.py, `use_torchrun`)."""
    if "NPROC_PER_NODE" not in variables and "NNODES" not in variables:
        return None
    each, nodes = _variable(variables, "NPROC_PER_NODE"), _variable(variables, "NNODES")
    return World(each * nodes, each)


def _variable(variables: Mapping[str, Text], name: str) -> int:
    if name not in variables:
        return 1
    text = known(variables[name])
    return int(text) if text is not None and _NUMBER.fullmatch(text) else 0


def visible_devices(variables: Mapping[str, Text]) -> int:
    """The number of devices in CUDA_VISIBLE_DEVICES; 0 if it is not set or unknown."""
    text = known(variables.get("CUDA_VISIBLE_DEVICES", ()))
    if text is None or not _DEVICES.fullmatch(text):
        return 0
    return len([one for one in text.split(",") if one.strip()])


def _assigned_at(value: Text) -> Where | None:
    return value[0].at if value else None


def _tasks(wrappers: Sequence[tuple[Word, ...]], job: Job | None) -> World | None:
    """`srun -n 8 python train.py`: a process for each task."""
    for words in wrappers:
        if words[0].text.rpartition("/")[2] == "srun" and job is not None and job.tasks > 1:
            given = {one.name: one for one in options(words[1:])[0]}
            count = _number(given.get("ntasks")) or _number(given.get("n")) or job.tasks
            return World(count, max(1, count // max(1, job.nodes)))
    return None


def asked_for(wrappers: Sequence[tuple[Word, ...]], job: Job | None) -> Job | None:
    """What the command that starts a program asks for, else what the job around it does: `srun --gres=gpu:h100:4`. Its
    card is the job's where it names none."""
    found = next((one for one in map(_step, wrappers) if one.gpus), job)
    if found is None or found.card or job is None:
        return found
    return found._replace(card=job.card, card_at=job.card_at)


def _step(words: tuple[Word, ...]) -> Job:
    """What a wrapper asks Slurm, LSF, Run:ai or Hugging Face for."""
    name = words[0].text.rpartition("/")[2]
    if name == "runai":
        return Job(nodes=1, gpus=_of_runai(words))
    if name == "hf":
        found = _of_flavor(words)
    elif name == "bsub":
        found = _of_lsf(words)
    else:
        own = takewhile(lambda word: not word.text.startswith("--wrap"), words[1:])
        found = step(word.text for word in own) if name in ("srun", "sbatch") else Job()
    at = next((word.at for word in words if found.card and found.card in word.text and word.at is not None), None)
    return found._replace(card_at=at.start) if at is not None else found._replace(card="")


def _of_flavor(words: tuple[Word, ...]) -> Job:
    """`hf jobs run --flavor a100x4`: a machine of Hugging Face's, or a card's name for one of it (huggingface_hub 2.4.0
    _jobs_api.py, JobHardware)."""
    flavor = _value_of(words, "--flavor")
    machine = instance(flavor)
    if machine is not None:
        return Job(nodes=1, gpus=machine[1], card=flavor)
    return Job(nodes=1, gpus=1, card=flavor) if find(flavor) is not None else Job()


def _of_lsf(words: tuple[Word, ...]) -> Job:
    """`bsub -gpu "num=4:gmodel=NVIDIAA100_SXM4_80GB"` (IBM Spectrum LSF 10.1, `bsub -gpu`)."""
    asked = re.search(r"\bnum=(\d{1,3})", _value_of(words, "-gpu"))
    return Job(nodes=1, gpus=int(asked[1])) if asked else Job()


def _value_of(words: tuple[Word, ...], option: str) -> str:
    """The value of a wrapper's option; "" where it is not given."""
    for index, word in enumerate(words):
        if word.text == option and index + 1 < len(words):
            return words[index + 1].text
        if word.text.startswith(f"{option}="):
            return word.text.partition("=")[2]
    return ""


def _of_runai(words: tuple[Word, ...]) -> int:
    """The GPUs of `runai submit --gpu 1 -- ...`; 0 for a fraction of one (Run:ai 2.x command line, `submit`: `-g, --gpu
    float`)."""
    texts = [word.text for word in words]
    options = texts[: texts.index("--")] if "--" in texts else texts
    given = [value for name, value in pairwise(options) if name in ("-g", "--gpu")]
    given += [one.partition("=")[2] for one in options if one.startswith("--gpu=")]
    return int(given[0]) if given and _NUMBER.fullmatch(given[0]) else 0


def _at(option: Option | None) -> Where | None:
    return option.flag.at if option is not None else None


def _llamafactory(command: LaunchCommand, variables: Mapping[str, Text]) -> World | None:
    """The GPUs of torchrun, which LLaMA-Factory starts if `FORCE_TORCHRUN` is set: `NPROC_PER_NODE` on each of `NNODES`
    machines, by default all that a machine has (0.9.5 launcher.py); None where that is not said here."""
    if not known(variables.get("FORCE_TORCHRUN", ())):
        return None
    nodes, each = _variable(variables, "NNODES"), visible_devices(variables)
    if "NPROC_PER_NODE" in variables:
        each = _variable(variables, "NPROC_PER_NODE")
    return World(each * nodes, each) if each else None


_LAUNCHERS: Mapping[str, Callable[[LaunchCommand, Mapping[str, Text]], World | None]] = {
    "torchrun": _torchrun,
    "tune": _tune,
    "lightning": _lightning,
    "accelerate": _accelerate,
    "trl": _handed_on,
    "axolotl": _handed_on,
    "deepspeed": _deepspeed,
    "swift": _swift,
    "megatron": _swift,
    "llamafactory-cli": _llamafactory,
}
