"""Files that a script of the repository writes: a config may name one that is not there yet."""

from __future__ import annotations

import pytest

from memlint.repository.workspace import in_memory
from memlint.repository.written import writes
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

CONFIG = "model_name_or_path: a/b\noutput_dir: o\nper_device_train_batch_size: 1\ndeepspeed: configs/ds.json\n"


@pytest.mark.parametrize(
    "text",
    [
        "cat > configs/ds.json <<EOF\n{}\nEOF",
        'cat <<EOF > "$DIR/ds.json"',
        "echo '{}' | tee ds.json",
        'with open("configs/ds.json", "w") as file:\n    json.dump({}, file)',
        "with open(os.path.join(out, 'ds.json'), mode='w') as file: ...",
        'path = folder / "ds.json"\npath.write_text("{}")',
        'Path("configs/ds.json").write_text("{}")',
        'NAME = "configs/ds.json"\nwith open(NAME, "w", encoding="utf-8") as file: ...',
    ],
)
def test_a_script_writes_the_file(text: str) -> None:
    assert writes(text, "ds.json")


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed train.py --deepspeed configs/ds.json > log.txt",
        'config = json.load(open("configs/ds.json"))',
        "cat > configs/my_ds.json <<EOF",
        'path = "configs/ds.json"\nopen(other, "w")',
        'path = "configs/ds.json"\nopen(path, "r")',
    ],
)
def test_a_script_that_reads_it_or_writes_another(text: str) -> None:
    assert not writes(text, "ds.json")


@pytest.mark.parametrize(("script", "found"), [("cat > configs/ds.json <<EOF\n{}\nEOF\n", False), ("ls\n", True)])
def test_a_file_that_a_script_writes_is_not_missing(script: str, found: bool) -> None:
    workspace = in_memory({"train.yaml": CONFIG, "run.sh": f"{script}accelerate launch train.py train.yaml\n"})
    (document,) = workspace.documents("train.yaml")
    told = Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    assert ("REF001" in {one.rule for one in told}) is found
