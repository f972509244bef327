"""Programs that start another one: `srun`, `uv run`, `nohup`, `env A=B`, `docker run ... IMAGE`, `hf jobs run ...`,
`bash -c '...'`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from memlint._record import NamedTuple
from memlint.source.shell.text import Word, joined, literal

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
# Options that take no value of their own; every other option takes the next word, unless it has a `=`.
_SWITCHES = {
    "srun": frozenset(
        ("--exclusive", "-u", "--unbuffered", "-l", "--label", "--pty", "--overlap", "-K", "--kill-on-bad-exit")
        + ("-v", "--verbose", "-Q", "--quiet", "--exact", "--multi-prog", "-X", "-E", "--preserve-env", "-O", "-s")
    ),
    "docker": frozenset(
        ("-d", "--detach", "-i", "-t", "-it", "-ti", "-itd", "-dit", "-di", "--rm", "--privileged", "--init", "--tty")
        + ("--interactive", "-P", "--no-healthcheck", "--read-only", "-T", "--service-ports")
    ),
    "singularity": frozenset(("--nv", "--rocm", "--cleanenv", "-e", "--contain", "-c", "--writable", "-w", "--no-home"))
    | frozenset(("--writable-tmpfs", "--fakeroot", "-f", "--containall", "-C", "-s", "-q", "--nvccli")),
    "uv": frozenset(
        (
            "--no-sync",
            "--frozen",
            "--locked",
            "--isolated",
            "--active",
            "--no-project",
            "--all-extras",
            "--no-dev",
            "-q",
        )
        + ("--quiet", "-v", "--verbose", "--exact", "--script", "-s", "--offline", "--no-cache", "-n", "--dev")
        + ("--prerelease", "--refresh", "--no-config", "--all-groups", "--no-editable", "--all-packages", "--upgrade")
    ),
    "conda": frozenset(("--no-capture-output", "--live-stream", "-v", "--verbose")),
    "sudo": frozenset(("-E", "-n", "-H", "-S", "-i", "-b", "--preserve-env")),
    "mpirun": frozenset(("--allow-run-as-root", "--oversubscribe", "-q", "-v", "--tag-output")),
    "nsys": frozenset(("--show-output", "--wait")),
    "tmux": frozenset(("-A", "-d", "-D", "-E", "-P", "-X", "-l", "-R", "-H", "-K", "-M")),
    "screen": frozenset(("-d", "-m", "-dm", "-D", "-L", "-U", "-dmL", "-md")),
    "hf": frozenset(("-d", "--detach", "--dry-run", "--ssh", "-q", "--quiet", "--json")),
    "bsub": frozenset(("-I", "-Is", "-Ip", "-K", "-x", "-H", "-r", "-B", "-N")),
    "timeout": frozenset(("--foreground", "--preserve-status", "-v")),
    "": frozenset(("-i", "-p", "-c", "-v", "-w", "--wait", "-f")),
}
_PLAIN = ("nohup", "time", "command", "builtin", "setsid", "unbuffer", "caffeinate", "exec", "stdbuf", "nice", "ionice")
_RUNNERS = ("poetry", "pdm", "pipenv", "hatch", "rye", "pixi")
_SHELLS = ("bash", "sh", "zsh", "dash", "ksh")


class Inner(NamedTuple):
    """The command that a wrapper starts: `words`, with variables set for it; or `script`, a text that a shell reads."""

    words: tuple[Word, ...] = ()
    variables: tuple[Word, ...] = ()  # `NAME=value`
    script: Word | None = None
    arguments: tuple[Word, ...] = ()  # arguments of the script
    is_file: bool = False  # `script` is the name of a file, not its text
    is_outside: bool = False  # runs in a container or on another machine, with other folders


def inner(words: Sequence[Word]) -> Inner | None:
    """The command that a wrapper starts; None if `words` are not a wrapper."""
    name = posixpath.basename(words[0].text) if words else ""
    second = words[1].text if len(words) > 1 else ""
    rest = tuple(words[1:])
    if name in _SHELLS:
        return _shell(rest)
    if name == "env":
        return _env(rest)
    if name in _PLAIN:
        return _found(_after_options(rest, name))
    if name in ("sudo", "timeout", "numactl", "taskset", "nsys", "ncu"):
        if name == "nsys":
            rest = rest[1:]
        skipped = _after_options(rest, name)
        return _found(skipped[1:] if name in ("timeout", "taskset") else skipped)
    if name in _RUNNERS and second == "run":
        return _found(_after_options(rest[1:], "conda"))
    if name == "uv" and second == "run":
        return _uv(rest[1:])
    if name == "uvx" or (name == "uv" and second == "tool" and [word.text for word in rest[1:2]] == ["run"]):
        return _found(_after_options(rest if name == "uvx" else rest[2:], "uv"))
    if name == "bsub":
        return _found(_after_options(rest, name))
    if name in ("conda", "mamba", "micromamba") and second == "run":
        return _found(_after_options(rest[1:], "conda"))
    if name in ("srun", "mpirun", "mpiexec"):
        return _found(_after_options(rest, "mpirun" if name != "srun" else name))
    if name in ("tmux", "screen"):
        return _terminal(name, second, rest)
    return _container(name, second, rest)


_KEYS = ("C-m", "Enter", "ENTER")  # what ends the line that tmux types


def _terminal(name: str, second: str, rest: tuple[Word, ...]) -> Inner | None:
    """`tmux new-session -d -s name 'command'`, `tmux send-keys -t name 'command' C-m`, `screen -dmS name command`."""
    if name == "screen":
        return _found(_after_options(rest, "screen"))
    typed = _after_options(rest[1:], "tmux") if second in ("new-session", "new", "send-keys", "send") else ()
    if second in ("send-keys", "send"):
        typed = tuple(word for word in typed if word.text not in _KEYS)
    return Inner(script=_joined(typed)) if typed else None


# `ray job submit --working-dir . -- python train.py`, `runai submit --gpu 1 --image x -- python train.py`.
_SUBMITTING = frozenset({("ray", "job"), ("runai", "submit")})


def _container(name: str, second: str, rest: tuple[Word, ...]) -> Inner | None:
    if name in ("docker", "podman", "nvidia-docker") and second == "compose":
        rest, second = rest[1:], rest[1].text if len(rest) > 1 else ""
    if name in ("docker", "podman", "nvidia-docker") and second in ("run", "exec"):
        found = _found((*_entrypoint(rest), *_after_options(rest[1:], "docker")[1:]))
    elif name in ("singularity", "apptainer") and second in ("exec", "run"):
        found = _found(_after_options(rest[1:], "singularity")[1:])
    elif (name, second) in _SUBMITTING and any(word.text == "--" for word in rest):
        found = _found(rest[[word.text for word in rest].index("--") + 1 :])
    elif name == "ssh":
        after = _after_options(rest, "ssh")[1:]
        found = Inner(script=_joined(after), is_outside=True) if after else None
    elif name == "sbatch":
        found = _sbatch(rest)
    elif (name, second) == ("hf", "jobs"):
        found = _hub_job(rest[1:])
    else:
        return None
    return found._replace(is_outside=name != "sbatch") if found else None


def _hub_job(words: Sequence[Word]) -> Inner | None:
    """`hf jobs run --flavor a100x4 IMAGE command`, `hf jobs uv run --flavor a100-large script.py arguments`
    (huggingface_hub 2.4.0 cli/jobs.py)."""
    first = [word.text for word in words[:2]]
    if first[:1] == ["run"]:
        return _found(_after_options(words[1:], "hf")[1:])
    if first != ["uv", "run"]:
        return None
    rest = _after_options(words[2:], "hf")
    return Inner((Word(literal("python")), *rest)) if rest else None


def _entrypoint(words: Sequence[Word]) -> Sequence[Word]:
    """`docker run --entrypoint python3 IMAGE -m module`: the words after the image are arguments of that program."""
    for index, word in enumerate(words[:-1]):
        if word.text == "--entrypoint":
            return (words[index + 1],)
        if word.text.startswith("--entrypoint="):
            return (word.after(len("--entrypoint=")),)
    return ()


def _found(words: tuple[Word, ...]) -> Inner | None:
    return Inner(words) if words else None


def _after_options(words: Sequence[Word], name: str) -> tuple[Word, ...]:
    """The words after the wrapper's own options."""
    switches = _SWITCHES.get(name, _SWITCHES[""])
    index = 0
    while index < len(words) and words[index].text[:1] == "-" and words[index].text != "-":
        text = words[index].text
        if text == "--":
            return tuple(words[index + 1 :])
        takes_value = (
            "=" not in text and text not in switches and not (name == "srun" and re.match(r"-[a-zA-Z]\w", text))
        )
        index += 2 if takes_value else 1
    return tuple(words[index:])


def _env(words: Sequence[Word]) -> Inner | None:
    rest = _after_options(words, "")
    count = 0
    while count < len(rest) and _ASSIGNMENT.match(rest[count].text):
        count += 1
    return Inner(rest[count:], rest[:count]) if rest[count:] else None


def _uv(words: Sequence[Word]) -> Inner | None:
    """`uv run train.py` runs it with Python; `-m` names a module, behind options of uv's own."""
    module = next((index for index, word in enumerate(words) if word.text in ("-m", "--module")), len(words))
    rest = _after_options(words, "uv")
    if module < len(words) - len(rest):
        return Inner((Word(literal("python")), *words[module:]))
    if rest and rest[0].text.endswith(".py"):
        return Inner((Word(literal("python")), *rest))
    return _found(rest)


def _shell(words: Sequence[Word]) -> Inner | None:
    """`bash -lc 'text'`, `bash script.sh a b`."""
    index, is_text = 0, False
    while index < len(words) and words[index].text[:1] in "-+" and words[index].text:
        text = words[index].text
        is_text = is_text or (text[:2] != "--" and "c" in text[1:])
        index += 2 if text in ("-o", "+o", "--rcfile", "--init-file") else 1
    rest = words[index:]
    if not rest:
        return None
    return Inner(script=rest[0], arguments=tuple(rest[1:]), is_file=not is_text)


def _sbatch(words: Sequence[Word]) -> Inner | None:
    """`sbatch job.sh a b`, `sbatch --wrap="command"`, `sbatch --wrap "command"`."""
    for index, word in enumerate(words):
        if word.text.startswith("--wrap="):
            return Inner(script=word.after(len("--wrap=")))
        if word.text == "--wrap" and index + 1 < len(words):
            return Inner(script=words[index + 1])
    rest = _after_options(words, "sbatch")
    return Inner(script=rest[0], arguments=rest[1:], is_file=True) if rest else None


def _joined(words: Sequence[Word]) -> Word:
    parts = [part for index, word in enumerate(words) for part in ((literal(" ") if index else ()), word.pieces)]
    return Word(joined(parts), words[0].at)
