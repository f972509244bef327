"""An answer from the cache is the answer of a fresh run, whatever happened to the files or to the cache."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pickle
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlint.file_access as file_access
from memlint.cli import main
from memlint.lint import suppress
from memlint.lint.many import merge_reports, result_cache

DEEPSPEED = (
    '{"zero_optimization": {"stage": %d}, "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}}\n'
)
MODEL = (
    '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 5632,'
    ' "num_hidden_layers": %d, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000}\n'
)


def config(model: str, batch: int, more: str = "") -> str:
    return (
        f"model_name_or_path: {model}\nstage: sft\ndo_train: true\nfinetuning_type: full\n"
        "dataset: d\ntemplate: default\n"
        f"cutoff_len: 2048\noutput_dir: out\nper_device_train_batch_size: {batch}\nbf16: true\n{more}"
    )


def make(folder: Path) -> None:
    (folder / ".git").mkdir()
    for number in range(4):
        (folder / f"run{number}.yaml").write_text(config("Qwen/Qwen2.5-7B", 1 + number % 2))
    (folder / "sub").mkdir()
    (folder / "sub" / "zero.yaml").write_text(config("Qwen/Qwen2.5-7B", 1, "deepspeed: ../ds.json\n"))
    (folder / "sub" / "local.yaml").write_text(config("models/mine", 1))
    (folder / "sub" / "open.yaml").write_text(
        "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 2\nbf16: true\nmax_length: 1024\n"
    )
    (folder / "ds.json").write_text(DEEPSPEED % 3)


def asked(folder: Path, *options: str, path: str = ".", program: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """Exit code and output of a check in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(folder)
            file_access._has_read = False  # caches of this process know other folders alone
            program()
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
                code = main(["check", path, "--format", "json", "--gpu", "A100-80GB", *options])
            with os.fdopen(writing, "w") as stream:
                stream.write(out.getvalue() + errors.getvalue())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


def fresh(folder: Path) -> tuple[int, str]:
    return asked(folder, "--no-cache")


def cached(folder: Path, cache: Path, *options: str) -> tuple[int, str]:
    return asked(folder, "--cache-dir", str(cache), *options)


def no_linting() -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("checked again")

    import memlint.lint.linter as linter

    linter.Linter.lint_file = fail  # type: ignore[assignment,method-assign]


# Files that a result may rest on, or that may come to be one, with what may stand in them.
CONTENTS: dict[str, tuple[str, ...]] = {
    "run0.yaml": (config("Qwen/Qwen2.5-7B", 1), config("Qwen/Qwen2.5-7B", 4), "a: [\n", "deepspeed: ds.json\n"),
    "run1.yaml": (config("models/mine", 2), config("Qwen/Qwen2.5-7B", 1, "deepspeed: ds.json\n")),
    "sub/zero.yaml": (config("Qwen/Qwen2.5-7B", 2, "deepspeed: ../ds.json\n"), config("Qwen/Qwen2.5-7B", 1)),
    "ds.json": (DEEPSPEED % 2, DEEPSPEED % 3, DEEPSPEED % 0, "{"),
    "sub/ds.json": (DEEPSPEED % 2, DEEPSPEED % 3),
    "models/mine/config.json": (MODEL % 10, MODEL % 20, "[]"),
    "sub/models/mine/config.json": (MODEL % 12,),
    "memlint.yaml": ("gpus: 2\n", "gpus: 8\n", "ignore: [MEM001]\n", "exclude: ['sub/*']\n", "nonsense: 1\n"),
    "sub/memlint.yaml": ("gpus: 4\n", "model: Qwen/Qwen2.5-0.5B\n"),
    "pyproject.toml": (
        "[tool.memlint]\ngpus = 4\n",
        "[project]\nname = 'x'\ndependencies = ['transformers==4.40.0']\n",
    ),
    "requirements.txt": ("transformers==4.40.0\n", "transformers==4.57.0\nllamafactory==0.9.2\n"),
    "sub/requirements.txt": ("trl==0.9.6\n",),
    "train.sh": ("accelerate launch --config_file fsdp.yaml train.py --config sub/open.yaml\n", "torchrun x.py\n"),
    "fsdp.yaml": ("distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n", "num_processes: 2\n"),
    "README.md": (
        "```sh\nllamafactory-cli train run0.yaml\nFORCE_TORCHRUN=1 torchrun --nproc_per_node 8 x run1.yaml\n```\n",
    ),
    "train.py": (
        "from trl import SFTConfig, TrlParser\nTrlParser((SFTConfig,))\n",
        "import yaml\nyaml.safe_load(open('x'))\n",
    ),
    ".memlint-measurements.json": (
        "[]",
        '[{"stack": "x", "metric": "nvidia-smi", "measured": 2, "predicted": 1, "path": "a"}]',
    ),
    ".gitignore": ("run2.yaml\n", "sub/\n"),
}


def disturb(folder: Path, chance: random.Random) -> str:
    """Changes, adds, removes, renames or links a file."""
    name = chance.choice(list(CONTENTS))
    path = folder / name
    what = chance.choice(("write", "write", "remove", "rename", "link", "touch"))
    if what == "remove" or (what == "rename" and not path.exists()):
        path.unlink(missing_ok=True)
    elif what == "rename":
        path.rename(path.with_name(chance.choice(("other.yaml", "ds2.json", "run9.yaml"))))
    elif what == "link":
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(folder / chance.choice(("ds.json", "run3.yaml", "nowhere")))
    elif what == "touch" and path.is_file():
        os.utime(path, (1, 1))
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(chance.choice(CONTENTS[name]))
        os.utime(path, (1_000_000_000, 1_000_000_000))  # a time that says nothing
    return f"{what} {name}"


@pytest.mark.parametrize("seed", range(3))
def test_after_any_change_the_answer_is_that_of_a_fresh_run(seed: int, tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    chance = random.Random(seed)
    done = []
    for _ in range(8):
        assert cached(folder, cache) == fresh(folder), done
        done.append(disturb(folder, chance))
    assert cached(folder, cache, "--jobs", "2") == fresh(folder), done


def test_nothing_is_checked_again_on_an_unchanged_tree(tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    first = cached(folder, cache)
    again = asked(folder, "--cache-dir", str(cache), program=no_linting)
    assert first == again == fresh(folder)
    assert "checked again" in asked(folder, "--no-cache", program=no_linting)[1]


def test_of_very_many_files_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    monkeypatch.setattr(result_cache, "MOST_FILES", 7)

    assert cached(folder, cache) == fresh(folder)
    assert not cache.exists()


def test_a_changed_config_is_checked_again_and_no_other(tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    checked_again(folder, cache, tmp_path)
    (folder / "run3.yaml").write_text(config("Qwen/Qwen2.5-7B", 8))
    assert checked_again(folder, cache, tmp_path) == ["run3.yaml"]

    # A file that may launch the others concerns their results.
    (folder / "run3.yaml").write_text("distributed_type: FSDP\nnum_processes: 8\n")
    assert "run0.yaml" in checked_again(folder, cache, tmp_path)


def checked_again(folder: Path, cache: Path, besides: Path) -> list[str]:
    """The files that a check with the cache reads anew; its answer is that of a fresh run."""
    checked = besides / "checked"
    checked.unlink(missing_ok=True)

    def counting() -> None:
        import memlint.lint.linter as linter

        real = linter.Linter.lint_file

        def lint_file(self: Any, path: str, named: bool = True) -> Any:
            with checked.open("a") as stream:
                stream.write(f"{path}\n")
            return real(self, path, named)

        linter.Linter.lint_file = lint_file  # type: ignore[method-assign]

    assert asked(folder, "--cache-dir", str(cache), "--gpus", "2", program=counting) == asked(
        folder, "--no-cache", "--gpus", "2"
    )
    return sorted(checked.read_text().splitlines())


def test_a_config_that_becomes_a_link_is_checked_again(tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    for name in (".here", ".there"):  # hidden: reached by name alone
        (folder / name).mkdir()
        (folder / name / "run.yaml").write_text(config("Qwen/Qwen2.5-7B", 1))
    (folder / ".there" / ".git").mkdir()  # a repository of its own
    (folder / "requirements.txt").write_text("transformers==4.40.0\n")
    named = ".here/run.yaml"
    first = asked(folder, "--cache-dir", str(cache), path=named)
    (folder / ".here" / "run.yaml").unlink()
    (folder / ".here" / "run.yaml").symlink_to(folder / ".there" / "run.yaml")
    again = asked(folder, "--no-cache", path=named)
    assert asked(folder, "--cache-dir", str(cache), path=named) == again != first


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign", "head", "folder"])
def test_a_damaged_cache_file_is_as_good_as_none(damage: str, tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    expected = cached(folder, cache)
    (path,) = cache.glob("*.results")
    data = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
        assert cached(folder, cache) == expected
        return
    flipped = bytearray(data)
    for at in range(40, len(data), 97):
        flipped[at] ^= 255
    start = len(result_cache.FORMAT)
    harm = {"empty": b"", "cut": data[:-30], "flipped": bytes(flipped), "foreign": b"#!/bin/sh\n" + data[10:]}
    harm["head"] = data[:start] + b"\0" * 200 + data[start + 200 :]  # the first results, not what says where they are
    path.write_bytes(harm[damage])
    assert cached(folder, cache) == expected
    assert cached(folder, cache) == expected


class _Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit(99)",))


@pytest.mark.parametrize(
    "value", [_Runs(), os.system, Path("/"), random.Random(1), [1, 2]], ids=lambda one: type(one).__name__
)
def test_nothing_in_a_result_is_executed(value: object) -> None:
    assert result_cache._unpacked(zlib.compress(pickle.dumps(value))) is None


def test_a_cache_folder_that_is_a_file_is_no_matter(tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    cache.write_text("mine")
    assert cached(folder, cache) == fresh(folder)
    assert cache.read_text() == "mine"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_folder_that_takes_no_file_is_no_matter(tmp_path: Path, code: int) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    make(folder)

    def refuse() -> None:
        def write(*_: Any) -> None:
            raise OSError(code, os.strerror(code))

        result_cache.write_whole = write  # type: ignore[assignment]

    assert asked(folder, "--cache-dir", str(tmp_path / "other"), program=refuse) == fresh(folder)
    assert not list((tmp_path / "other").glob("*.results"))


def test_processes_at_the_same_time_do_not_disturb_each_other(tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    expected = fresh(folder)
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            same = False
            try:
                same = all(cached(folder, cache) == expected for _ in range(2 + number % 2))
            finally:
                os._exit(0 if same else 1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4


def test_another_option_has_results_of_its_own(tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    cached(folder, cache)
    assert cached(folder, cache, "--gpus", "8") == asked(folder, "--no-cache", "--gpus", "8")
    assert cached(folder, cache, "--no-fixes") == asked(folder, "--no-cache", "--no-fixes")
    assert len(list(cache.glob("*.results"))) == 3


UNTIL = "reason: known, until: 2026-06-30"


def on_day(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    for module in (result_cache, suppress, merge_reports):
        monkeypatch.setattr(module, "today", lambda: day)


def test_results_without_dates_hold_on_another_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    on_day(monkeypatch, "2026-01-01")
    expected = cached(folder, cache)
    on_day(monkeypatch, "2999-01-01")
    assert asked(folder, "--cache-dir", str(cache), program=no_linting) == expected == fresh(folder)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run0.yaml", config("Qwen/Qwen2.5-7B", 1) + "# memlint: ignore-file[all] known until=2026-06-30\n"),
        ("memlint.yaml", f"suppressions:\n  files:\n    - {{path: run0.yaml, ignore: [all], {UNTIL}}}\n"),
    ],
)
def test_results_with_a_date_hold_until_it_is_past(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    (folder / name).write_text(text)
    on_day(monkeypatch, "2026-01-01")
    before = cached(folder, cache)
    on_day(monkeypatch, "2026-06-30")
    assert asked(folder, "--cache-dir", str(cache), program=no_linting) == before == fresh(folder)
    on_day(monkeypatch, "2026-07-01")
    after = cached(folder, cache)
    assert after == fresh(folder) != before


def test_old_results_go(tmp_path: Path) -> None:
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    cached(folder, cache)
    (path,) = cache.glob("*.results")
    os.utime(path, (1, 1))
    (cache / "notes.txt").write_text("mine")
    cached(folder, cache, "--gpus", "8")
    assert not path.exists()
    assert (cache / "notes.txt").exists()


def test_clean_deletes_results_and_nothing_else(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    folder, cache = tmp_path / "tree", tmp_path / "cache"
    folder.mkdir()
    make(folder)
    cached(folder, cache)
    (cache / "notes.txt").write_text("mine")
    assert main(["cache", "--cache-dir", str(cache)]) == 0
    assert "results of 1 checks kept" in capsys.readouterr().out
    assert main(["cache", "clean", "--cache-dir", str(cache)]) == 0
    assert [path.name for path in cache.iterdir()] == ["notes.txt"]
    assert main(["cache", "clean", "--cache-dir", str(tmp_path / "none")]) == 0
