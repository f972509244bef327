"""Parses commands that start a training program into launcher, program and arguments.

`accelerate launch --config_file zero3.yaml train.py --bf16 True` is the launcher accelerate with one option, the
program train.py and its arguments. Options were read in torch 2.13 distributed/run.py, accelerate 1.15
commands/launch.py, deepspeed 0.19 launcher/runner.py and lightning 2.6 fabric/cli.py.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from memlint._record import NamedTuple
from memlint.source.shell.text import Word, literal

# Options of launchers without a value; every other option takes the next word, unless it has a `=`.
_SWITCHES: Mapping[str, frozenset[str]] = {
    "torchrun": frozenset(("standalone", "no_python", "run_path", "use_env", "dry_run", "m", "module")),
    "accelerate": frozenset(
        {
            *("cpu", "multi_gpu", "tpu", "ipex", "use_xpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "debug"),
            *("quiet", "q", "use_mps_device", "same_network", "module", "m", "no_python", "enable_cpu_affinity"),
            *("use_parallelism_config", "downcast_bf16", "tpu_cluster", "no_tpu_cluster", "dynamo_use_fullgraph"),
            *("dynamo_use_dynamic", "use_cpu", "main_training_function_only", "tpu_use_sudo"),
        }
    ),
    "deepspeed": frozenset(
        ("no_python", "no_local_rank", "no_ssh_check", "force_multi", "save_pid", "module", "enable_each_rank_log_none")
        + ("elastic_training", "bind_cores_to_rank", "no_ssh")
    ),
    # torchtune 0.6.1 _cli/run.py: torchrun's own, before the recipe.
    "tune": frozenset(("standalone", "no_python", "run_path", "use_env", "dry_run", "m", "module")),
    "lightning": frozenset(),
    "python": frozenset(("u", "O", "OO", "B", "s", "S", "E", "I", "i", "v", "q", "b", "d", "x")),
}
MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
# Launchers that give the program `--local_rank=N`, unless told not to: deepspeed 0.19.7 launcher/launch.py main, torch
# 2.13.0 distributed/run.py config_from_args (which writes it `--local-rank`).
_PASSING_RANK = ("torch.distributed.launch", "deepspeed.launcher.runner")
_PASS_NO_RANK = ("no_local_rank", "use_env")
# Programs that train by a word of their own, and the words.
PROGRAMS: Mapping[str, frozenset[str]] = {
    "trl": frozenset(("sft", "dpo", "grpo", "kto", "reward", "rloo", "orpo", "cpo", "bco")),
    "llamafactory-cli": frozenset(("train",)),
    "lmf": frozenset(("train",)),
    "swift": frozenset(("sft", "pt", "rlhf")),
    "megatron": frozenset(("sft", "pt", "rlhf")),
    "axolotl": frozenset(("train",)),
    # oumi 0.9 cli/distributed_run.py: `oumi distributed torchrun -m oumi train -c FILE` takes all GPUs that there are
    "oumi": frozenset(("train", "distributed")),
    "autotrain": frozenset(("llm",)),  # `autotrain --config FILE` is read by its file
}
_SCRIPTS_OF_TRL = "trl.scripts."
# The packages of those that are not called as their command.
_PACKAGES = {"llamafactory-cli": "llamafactory", "lmf": "llamafactory", "megatron": "swift"}
# The first words of launches, besides Python.
LAUNCHER_WORDS = frozenset(
    (*PROGRAMS, "torchrun", "accelerate", "accelerate-launch", "deepspeed", "tune", "lightning", "fabric")
)
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?|ipython|pypy3?")
_WHICH = re.compile(r"\$\(which ([\w-]+)\)")
_VALUE = re.compile(r"-\.?\d")  # a negative number is no option


class Option(NamedTuple):
    """`--name value`. `name`: without dashes and with underscores, as argparse names it. `flag`: the word with the
    name. `values`: the words after it, or the text after its `=`."""

    name: str
    flag: Word
    values: tuple[Word, ...] = ()
    is_joined: bool = False  # `--name=value`


class LaunchCommand(NamedTuple):
    """A launcher with its options, the program that it starts (`program`: file, module or `trl sft`), its arguments."""

    launcher: str
    options: tuple[Option, ...]
    program: Word | None
    is_module: bool
    arguments: tuple[Word, ...]
    task: str = ""  # sft of `trl sft`
    passes_rank: bool = False  # the launcher gives each process `--local_rank=N`

    def option(self, *names: str) -> Option | None:
        """The last of the launcher's options that has one of these names."""
        return next((one for one in reversed(self.options) if one.name in names), None)

    @property
    def trl_task(self) -> str:
        """`sft` of `trl sft`, and of `torchrun -m trl.scripts.sft`, the program that it starts (trl 0.14 to 1.16)."""
        if self.launcher == "trl":
            return self.task
        module = self.program.text if self.program is not None and self.is_module else ""
        return module.removeprefix(_SCRIPTS_OF_TRL) if module.startswith(_SCRIPTS_OF_TRL) else ""


def command(words: Sequence[Word], installed: Mapping[str, str] = {}) -> LaunchCommand | None:
    """The launch in a command; None if it is not a launch. `installed`: command that a package of the repository
    installs -> the module that it starts."""
    name = posixpath.basename(words[0].text) if words else ""
    rest = tuple(words[1:])
    second = rest[0].text if rest else ""
    trains = name in PROGRAMS and second in PROGRAMS[name]
    is_its_own = installed.get(name, "").partition(".")[0] == _PACKAGES.get(name, name)  # the framework's repository
    if name in installed and not (trains and is_its_own):
        return LaunchCommand("python", (), Word(literal(installed[name])), True, rest)
    if trains:
        return LaunchCommand(name, (), words[0], False, rest[1:], second)
    if name == "accelerate-launch" or (name == "accelerate" and second == "launch"):
        return _launched("accelerate", rest if name == "accelerate-launch" else rest[1:])
    if name == "torchrun":
        return _with_installed(_with_task_of_swift(_launched(name, rest)), installed)
    if name == "deepspeed":
        return _passing_rank(_with_task_of_swift(_launched(name, rest)))
    if name == "tune":
        return _launched("tune", rest[1:]) if second == "run" else None
    if name in ("lightning", "fabric"):  # `lightning run model` until 2.1, `fabric run` since
        rest = rest[2 if [one.text for one in rest[1:2]] == ["model"] else 1 :]
        return _launched("lightning", rest) if second == "run" else None
    if name in ("deepspeed.sh", "python.exe"):
        return None
    return _python(rest) if _PYTHON.fullmatch(name) or "PYTHON" in name else None


def _python(words: tuple[Word, ...]) -> LaunchCommand | None:
    found = _launched("python", words)
    if found is None or found.program is None:
        return found
    if not found.is_module:
        return _installed_script(found.program, found.arguments) or _submitted(found.arguments) or found
    module = found.program.text
    if module in MODULES:
        inner = _launched(MODULES[module], found.arguments)
        return _passing_rank(inner) if module in _PASSING_RANK else inner
    task = found.arguments[0].text if found.arguments else ""
    if module in ("trl", "llamafactory.cli", "swift.cli.main") and task:
        name = {"llamafactory.cli": "llamafactory-cli", "swift.cli.main": "swift"}.get(module, module)
        return found._replace(launcher=name, task=task, arguments=found.arguments[1:])
    return found


def _passing_rank(found: LaunchCommand | None) -> LaunchCommand | None:
    if found is None or found.option(*_PASS_NO_RANK) is not None:
        return found
    return found._replace(passes_rank=True)


def _installed_script(program: Word, arguments: tuple[Word, ...]) -> LaunchCommand | None:
    """The launch of a command that Python is given as a file: `python $(which torchrun) ...`, `python bin/torchrun`."""
    name = _WHICH.sub(r"\1", program.text)
    if posixpath.basename(name) not in LAUNCHER_WORDS:
        return None
    return command((Word(literal(name)), *arguments))


def _submitted(arguments: tuple[Word, ...]) -> LaunchCommand | None:
    """The launch that a program submits as a job: `python mason.py --gpus 8 -- source setup.sh \\&\\& torchrun ...`
    (allenai/open-instruct mason.py, parse_commands)."""
    texts = [word.text for word in arguments]
    if "--" not in texts:
        return None
    starts = [index + 1 for index, text in enumerate(texts) if text in ("--", "&&") and index >= texts.index("--")]
    launches = (command(arguments[start:]) for start in reversed(starts))
    return next((one for one in launches if one is not None), None)


def _with_installed(found: LaunchCommand | None, installed: Mapping[str, str]) -> LaunchCommand | None:
    """`torchrun $(which train)` of a command that the repository's package installs: the launch of its module."""
    which = _WHICH.fullmatch(found.program.text) if found is not None and found.program is not None else None
    if found is None or found.program is None or which is None or which[1] not in installed:
        return found
    return found._replace(program=Word(literal(installed[which[1]]), found.program.at), is_module=True)


def _with_task_of_swift(found: LaunchCommand | None) -> LaunchCommand | None:
    """The launch of ms-swift's command that a launcher is given as a file, `torchrun $(which swift) sft ...`, as that
    of the module that it starts (ms-swift 4.6.0 cli/main.py, ROUTE_MAPPING)."""
    if found is None or found.program is None or not found.arguments:
        return found
    name, task = posixpath.basename(_WHICH.sub(r"\1", found.program.text)), found.arguments[0].text
    if name != "swift" or task not in PROGRAMS["swift"]:
        return found
    module = Word(literal(f"swift.cli.{task}"), found.program.at)
    return found._replace(program=module, is_module=True, arguments=found.arguments[1:])


def _launched(launcher: str, words: tuple[Word, ...]) -> LaunchCommand | None:
    """The launch of a launcher, whose own options come before the program's file or module."""
    options: list[Option] = []
    index, is_module, switches = 0, False, _SWITCHES[launcher]
    while index < len(words) and words[index].text[:1] == "-" and words[index].text not in ("-", "--"):
        word = words[index]
        name, joined, _ = word.text.lstrip("-").partition("=")
        name = name.replace("-", "_") if launcher != "python" else name
        if launcher == "python" and name == "c":
            return None
        is_module = is_module or name in ("m", "module")
        if joined:
            options.append(Option(name, word, (word.after(word.text.index("=") + 1),), True))
        elif name in switches or name in ("m", "module"):
            options.append(Option(name, word))
        elif index + 1 < len(words):
            index += 1
            options.append(Option(name, word, (words[index],)))
        index += 1
    rest = words[index:]
    return LaunchCommand(launcher, tuple(options), rest[0], is_module, rest[1:]) if rest else None


def options(words: Sequence[Word]) -> tuple[tuple[Option, ...], tuple[Word, ...]]:
    """(options of a program with argparse, words that belong to no option, such as `config.yaml`, `key=value`).

    All words up to the next option belong to an option, but for those of Hydra's that take one.
    """
    found: list[Option] = []
    others: list[Word] = []
    for word in words:
        text = word.text
        if text[:1] == "-" and len(text) > 1 and not _VALUE.match(text) and text != "--":
            name, joined, _ = text.lstrip("-").partition("=")
            values = (word.after(text.index("=") + 1),) if joined else ()
            found.append(Option(name.replace("-", "_"), word, values, bool(joined)))
        elif found and not found[-1].is_joined and not _is_filled(found[-1], text):
            found[-1] = found[-1]._replace(values=(*found[-1].values, word))
        else:
            others.append(word)
    return tuple(found), tuple(others)


# hydra 1.3 _internal/utils.py `get_args_parser`: options with one value, before or between the overrides. NeMo-RL's
# programs take `--config` so (0.7.0 examples/run_grpo.py).
_OF_HYDRA = frozenset(("config_name", "config_path", "config_dir", "cn", "cp", "cd", "config"))


def _is_filled(option: Option, text: str) -> bool:
    """Whether the word after an option's value is an override: `--config-name grpo data.max_length=4096`."""
    return option.name in _OF_HYDRA and bool(option.values) and "=" in text


def is_open(arguments: Sequence[Word]) -> bool:
    """Whether the caller of a script may add options to a command of it: `train.py --model $1 $2`.

    A word behind the value of an option may be one. What nobody sets (`$EXTRA`) is empty in a plain environment, as is
    `"$@"` of a script without arguments; a script that asks for `$2` is called with it.
    """
    named, others = options(arguments)
    return any(_may_be_options(word) for word in (*others, *(word for one in named for word in one.values[1:])))


def may_have_more(arguments: Sequence[Word], switches: Collection[str]) -> bool:
    """Whether a command has words that may be further options, also those that nobody sets here: a file that is not
    read may set them. `switches`: flags that take no value."""
    named, others = options(arguments)
    behind = (word for one in named for word in one.values[one.name not in switches :])
    return any(len(word.pieces) == 1 and bool(word.unknown) for word in (*others, *behind))


_OF_CALLER = re.compile(r"\$\{?[1-9]")
_WHOLE_ARRAY = re.compile(r"\[@\]\}?$")


_LEFT_OUT = ("...", "…")  # what a page writes in place of more options


def _may_be_options(word: Word) -> bool:
    """Whether a word is nothing but an expression that the shell splits into words nobody knows, or stands for options
    that a page leaves out."""
    if word.text in _LEFT_OUT:
        return True
    if len(word.pieces) != 1 or not word.unknown:
        return False
    (piece,) = word.pieces
    is_split = not piece.quoted or _WHOLE_ARRAY.search(piece.text) is not None
    return is_split and (not piece.is_unset or _OF_CALLER.match(piece.text) is not None)


def overrides(words: Iterable[Word]) -> Iterator[Option]:
    """Hydra's `a.b=value` as options of that name."""
    for word in words:
        name, joined, _ = word.text.lstrip("+").partition("=")
        if joined and name and name[0] != "~":
            yield Option(name, word, (word.after(word.text.index("=") + 1),), True)
