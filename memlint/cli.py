"""The command line: finds the verb, imports its module, runs it and returns the exit code.

Exit codes: 0 clean (or below `--fail-on`), 1 findings, 2 usage, settings, unreadable input or an
internal error. `--version` is answered before anything is imported.
"""

from __future__ import annotations

import gc
import os
import sys

from memlint import __version__

# verb -> (module below memlint.commands, one line of help)
VERBS = {
    "check": ("check", "lint files, folders, or - with --stdin-filename (the default command)"),
    "estimate": ("estimate", "the memory table of files, or of a question: --model llama-3-8b --method lora"),
    "plan": ("plan", "the largest batch or longest sequence that fits, and the fastest way there"),
    "fix": ("fix", "apply safe fixes (--unsafe for the rest); --diff prints a patch"),
    "diff": ("diff", "what a branch changes: peaks, findings and verdicts before and after"),
    "run": ("run", "check what a command would start (sbatch, torchrun, ...), then start it"),
    "map": ("map", "which value of a script or of a file with its own schema becomes which argument"),
    "explain": ("explain", "a rule's page; or, for PATH:LINE, the numbers behind a finding"),
    "rules": ("rules", "the rules in force, and where each setting came from"),
    "simulate": ("simulate", "one training step on fake tensors (needs the exact extra)"),
    "calibrate": ("calibrate", "record a measured run, so that intervals narrow"),
    "cards": ("cards", "the cards and cloud machines that --gpu takes"),
    "models": ("models", "the models that are known by name, with their dimensions"),
    "optimizers": ("optimizers", "the optimizers that are known, and what each keeps of a parameter"),
    "lsp": ("lsp", "the language server for editors (needs the lsp extra)"),
    "mcp": ("mcp", "serve estimate, check, plan and explain to agents over stdio (needs the mcp extra)"),
    "schemas": ("schemas", "where the JSON Schemas of config files lie, for editors"),
    "test": ("test", "run the examples inside rule files"),
    "new-rule": ("new_rule", "write the skeleton of a rule file"),
    "cache": ("cache", "the results that are kept of checks: where they are; clean deletes them"),
    "completion": ("completion", "print the completion script of a shell: bash, zsh, fish, powershell, ..."),
}
# The first verb of each group in `memlint --help`.
GROUPS = {
    "check": "every day",
    "map": "to understand",
    "simulate": "when in doubt of a figure",
    "cards": "names that options and configs take",
    "lsp": "for other programs",
    "test": "your own rules, and the rest",
}
OF_VERBS = ("completion",)  # their modules are given VERBS
DEFAULT = "check"
# Allocations between two runs of the garbage collector. At start memlint makes 60,000 objects that live to the end, and
# with Python's default of 700 collections would cost 3 ms.
GC_THRESHOLD = 100_000
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE, as in `memlint ... | head`


def script() -> None:
    """The console script: runs `main` and ends the process at once; tearing down the interpreter takes over 10 ms."""
    gc.set_threshold(GC_THRESHOLD)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this process
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    code = main()
    os._exit(_write_stdout("") or code)


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code. `argv`: the arguments, those of the process by default."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] in (["--version"], ["-V"]):
        return _write_stdout(f"memlint {_version()}\n")
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
    if arguments[:1] in (["-h"], ["--help"], ["help"]):
        return _write_stdout(_fitted(usage()))
    if misspelt := _misspelt_verb(arguments):
        return _refuse(misspelt)
    return _run_verb(*split_verb(arguments))


def _version() -> str:
    """The version; for a build between two tags with the number of commits since the last one (see hatch_build.py)."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "_shipped", "version.txt")) as stream:
            return stream.read()
    except OSError:
        return __version__


def split_verb(arguments: list[str]) -> tuple[str, list[str]]:
    """(verb, its arguments). Without a verb, everything is an argument of `check`."""
    if arguments and arguments[0] in VERBS:
        return arguments[0], arguments[1:]
    return DEFAULT, arguments


def _misspelt_verb(arguments: list[str]) -> str:
    """The first argument if it is neither a verb nor an option nor an existing path, and looks like a word; else ""."""
    word = arguments[0] if arguments else ""
    is_word = word[:1].isalpha() and word.replace("-", "").isalnum() and word not in VERBS
    return word if is_word and not os.path.exists(word) else ""


def _refuse(word: str) -> int:
    """Prints what was probably meant with a word that is neither a verb nor a path, and returns the exit code."""
    from memlint.formats.schema.suggest import nearest

    near = nearest(word, (*VERBS, "help"))
    hint = f"; did you mean `memlint {near}`?" if near else " (`memlint --help` lists them)"
    if not near and (path := nearest(word, os.listdir())):
        hint = f"; did you mean {path}?"
    elif len(word) == 6 and word[:3].isalpha() and word[3:].isdigit():
        hint = f"; did you mean `memlint explain {word}`?"
    sys.stderr.write(f"memlint: {word}: no such file or folder, and no command{hint}\n")
    return 2


def usage() -> str:
    """The text of `memlint --help`."""
    width = max(map(len, VERBS))
    verbs = ""
    for verb, (_, text) in VERBS.items():
        verbs += f"\n{GROUPS[verb]}:\n" if verb in GROUPS else ""
        verbs += f"  {verb:{width}}  {text}\n"
    return (
        "usage: memlint [COMMAND] [PATH ...] [OPTIONS]\n\n"
        "Lints LLM training configs for GPU memory before a GPU is touched: `memlint train.yaml --gpu H100 --gpus 8`.\n"
        f"{verbs}\n"
        "`memlint help COMMAND` lists a command's options; `memlint --version` prints the version.\n"
    )


def _fitted(text: str) -> str:
    """`text`, wrapped at the width of the terminal if standard output is one."""
    from memlint.report.terminal import style_for
    from memlint.report.wrap import fitted

    return fitted(text, style_for(sys.stdout))


def _write_stdout(text: str) -> int:
    """Writes to standard output and returns the exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except OSError:
        return 2
    return 0


def _run_verb(verb: str, rest: list[str]) -> int:
    """Runs a verb, turns its exceptions into messages and returns the exit code."""
    from memlint.commands import load
    from memlint.errors import UsageError

    try:
        run = load(VERBS[verb][0])
        return run(f"memlint {verb}", rest) if verb not in OF_VERBS else run(f"memlint {verb}", rest, VERBS)
    except UsageError as error:
        sys.stderr.write(f"memlint: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return EXIT_BROKEN_PIPE
    except Exception as error:
        from memlint.crash_report import report

        sys.stderr.write(report(error, [verb, *rest]))
        return 2


if __name__ == "__main__":
    script()
