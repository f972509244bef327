"""References: the order of places, and nothing outside of the root, whatever the name says."""

from __future__ import annotations

import posixpath

from hypothesis import given
from hypothesis import strategies as st

from memlint.api.calls import check
from memlint.formats.base import MissingFile
from memlint.formats.references import Files, candidates, inside, issue, reader, resolve
from memlint.source import load
from memlint.source.document import Document, Start, StartedProgram

ROOT = "/srv/repo"
CONFIG = "/srv/repo/examples/train/full.yaml"


def files(present: set[str], links: dict[str, str] | None = None, folders: set[str] | None = None) -> Files:
    def realpath(path: str) -> str:
        return (links or {}).get(path, path)

    def read(path: str) -> Document:
        if path.endswith("locked.json"):
            raise PermissionError(13, "Permission denied")
        return load(b"{}", path)[0]

    return Files(lambda path: path in present, lambda path: path in present | (folders or set()), realpath, read)


def test_the_working_directory_comes_first_then_the_folder_then_its_ancestors() -> None:
    assert candidates("ds.json", CONFIG, ROOT + "/run", ROOT) == (
        "/srv/repo/run/ds.json",
        "/srv/repo/examples/train/ds.json",
        "/srv/repo/examples/ds.json",
        "/srv/repo/ds.json",
    )


def test_the_first_file_that_is_there_wins() -> None:
    present = {"/srv/repo/examples/ds.json", "/srv/repo/ds.json"}
    assert resolve("ds.json", CONFIG, ROOT + "/run", ROOT, files(present)) == "/srv/repo/examples/ds.json"
    assert resolve("ds.json", CONFIG, ROOT, ROOT, files(present)) == "/srv/repo/ds.json"


def test_a_missing_file_is_named_from_the_working_directory() -> None:
    found = resolve("/srv/repo/configs/fsdp.yaml", CONFIG, ROOT, ROOT, files(set()))
    assert isinstance(found, MissingFile)
    assert found.message == "no file `configs/fsdp.yaml`"


@given(st.text("ab./~-\\", max_size=30), st.sampled_from([ROOT, "/", "/srv/other", "/srv/repository"]))
def test_no_candidate_is_outside_of_the_root(reference: str, cwd: str) -> None:
    for place in candidates(reference, CONFIG, cwd, ROOT):
        assert posixpath.isabs(place) and inside(place, ROOT) and ".." not in place.split("/")


def code(reference: str, found: Files) -> str:
    result = resolve(reference, CONFIG, ROOT, ROOT, found)
    assert isinstance(result, MissingFile)
    return result.code


def test_every_reason_has_its_code() -> None:
    everything = files({"/etc/passwd", "/srv/repository/ds.json"}, folders={"/srv/repo/deepspeed"})
    assert code("gone.json", everything) == "missing"
    assert code("/etc/passwd", everything) == "outside"
    assert code("../../../etc/passwd", everything) == "outside" or code("../../../etc/passwd", everything) == "missing"
    assert code("/srv/repository/ds.json", everything) == "outside"
    assert code("~/ds.json", everything) == "outside"
    assert code("https://example.org/ds.json", everything) == "url"
    assert code("file:///etc/passwd", everything) == "url"
    assert code("deepspeed", everything) == "not-a-file"
    assert code("", everything) == "missing"
    assert code("a\0b", everything) == "missing"
    assert code("x" * 5000, everything) == "missing"


def test_a_path_of_the_author_s_machine_is_the_file_with_the_same_end() -> None:
    present = files({"/srv/repo/scripts/train/zero3.json", "/srv/repo/zero3.json"})
    author = "/home/user/work/repo"
    assert resolve(f"{author}/scripts/train/zero3.json", CONFIG, ROOT, ROOT, present) == (
        "/srv/repo/scripts/train/zero3.json"
    )
    assert code(f"{author}/zero3.json", present) == "outside"  # a name alone may be any file's
    assert code("/data/other/zero3.json", present) == "outside"
    linked = files({"/srv/repo/a/ds.json", "/etc/ds.json"}, {"/srv/repo/a/ds.json": "/etc/ds.json"})
    assert code("/home/user/a/ds.json", linked) == "outside"


def test_a_link_that_leads_outside_is_not_followed() -> None:
    found = files({"/etc/passwd"}, links={"/srv/repo/ds.json": "/etc/passwd"})
    assert code("ds.json", found) == "outside"


def test_a_root_of_the_file_system_works() -> None:
    assert resolve("ds.json", "/a/b.yaml", "/", "/", files({"/ds.json"})) == "/ds.json"


def test_circles_are_refused_however_long() -> None:
    read = reader(ROOT, ROOT, files({f"/srv/repo/{name}.json" for name in "abc"}))
    assert isinstance(read("b.json", "a.json"), Document)
    assert isinstance(read("c.json", "b.json"), Document)
    closed = read("a.json", "c.json")
    assert isinstance(closed, MissingFile) and closed.code == "cyclic"
    itself = read("a.json", "a.json")
    assert isinstance(itself, MissingFile) and itself.code == "cyclic"


def test_two_configs_may_name_the_same_file() -> None:
    read = reader(ROOT, ROOT, files({"/srv/repo/ds.json"}))
    assert isinstance(read("ds.json", "one.yaml"), Document)
    assert isinstance(read("ds.json", "two.yaml"), Document)


def test_a_file_that_cannot_be_read_says_why() -> None:
    found = reader(ROOT, ROOT, files({"/srv/repo/locked.json"}))("locked.json", CONFIG)
    assert isinstance(found, MissingFile) and found.code == "unreadable" and "Permission denied" in found.message


def test_a_pointer_of_git_lfs_is_no_content() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 787\n"
    here = files({"/srv/repo/ds.json"})._replace(read=lambda path: load(pointer, path)[0])
    found = reader(ROOT, ROOT, here)("ds.json", "train.yaml")
    assert isinstance(found, MissingFile) and found.code == "outside" and "Git LFS" in found.message
    absolute = reader(ROOT, ROOT, here)("/srv/repo/ds.json", "train.yaml")
    assert isinstance(absolute, MissingFile) and absolute.message.startswith("`ds.json` is kept")


def test_the_issue_lists_what_was_tried() -> None:
    missing = resolve("ds.json", CONFIG, ROOT, ROOT, files(set()))
    assert isinstance(missing, MissingFile)
    told = issue(missing, load(b"deepspeed: a", CONFIG)[0], ("deepspeed",))
    assert told.code == "missing-reference" and told.pointer == ("deepspeed",)
    for place in missing.tried:
        assert place in told.message


def test_a_message_names_three_of_the_paths_that_were_tried() -> None:
    missing = MissingFile("missing", "no file `zero.json`", tuple(f"{name}/zero.json" for name in "abcde"))
    found = issue(missing, load(b"deepspeed: a", "train.yaml")[0], ("deepspeed",)).message
    assert found == "no file `zero.json`; tried a/zero.json, b/zero.json, c/zero.json and 2 more"
    (config,) = load(b"deepspeed: a", "train.yaml")
    assert issue(missing._replace(tried=("a/z",)), config, ()).message == "no file `zero.json`; tried a/z"


def test_what_something_fills_in_is_named_as_a_script_writes_it() -> None:
    train = (
        "from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments\n"
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n"
        "Trainer(AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-7B'), args).train()\n"
    )
    script = "C=$1\ntorchrun --nproc_per_node 8 train.py --deepspeed $C/ds_$2.json --per_device_train_batch_size 1\n"
    found = check(script, path="run.sh", files={"train.py": train, "run.sh": script}, fixes=False).findings
    assert [one.message for one in found if one.rule == "REF008"] == ["`$C/ds_$2.json` is filled in by something else"]


def test_a_file_of_a_folder_of_the_authors_machine_may_be_there() -> None:
    """`cd /home/me/work` leads to no folder of the repository: whether it is the repository is not known."""
    missing = MissingFile("missing", "no file `scripts/zero3.json`", is_certain=True)
    command = load(b"{}", "run.json")[0]._replace(start=Start("trainer", "torchrun"))
    moved = command._replace(start=Start("trainer", "torchrun", StartedProgram(folder="/home/me/work")))
    assert issue(missing, command, ()).severity == "error"
    assert issue(missing, moved, ()).severity == "warning"
