"""Launch commands whose config stands in a variable."""

import pytest

from memlint.repository.launch.variables import expanded, variables
from memlint.repository.workspace import in_memory

CONFIG = "model_name_or_path: a/b\noutput_dir: out\n"
LAUNCH = "torchrun --nproc_per_node 4 train.py --config {}\n"


def launched(script: str, **pages: str) -> list[str]:
    """The configs that `run.sh` launches, of a.yaml and recipes/b.yaml."""
    files = {"recipes/b.yaml": CONFIG, "a.yaml": CONFIG, "run.sh": script, "train.py": ""}
    workspace = in_memory({**files, **{name.replace("_", "."): text for name, text in pages.items()}})
    return [name for name in ("a.yaml", "recipes/b.yaml") if workspace.launch_commands(name)]


@pytest.mark.parametrize(
    ("script", "configs"),
    [
        ("CONFIG_FILE=recipes/b.yaml\n" + LAUNCH.format("${CONFIG_FILE}"), ["recipes/b.yaml"]),
        ('export CONFIG="a.yaml"\n' + LAUNCH.format('"$CONFIG"'), ["a.yaml"]),
        ("CONFIG=${1:-a.yaml}\n" + LAUNCH.format("$CONFIG"), ["a.yaml"]),
        ("NAME=b\n" + LAUNCH.format("recipes/$NAME.yaml"), ["recipes/b.yaml"]),
        ("NAME=b\n" + LAUNCH.format("recipes/${NAME}.yaml"), ["recipes/b.yaml"]),
        ("for c in a.yaml recipes/b.yaml; do\n  " + LAUNCH.format("$c") + "done\n", ["a.yaml", "recipes/b.yaml"]),
        ("for c in recipes/*.yaml; do\n  " + LAUNCH.format("$c") + "done\n", []),
        ("if x; then C=a.yaml; else C=recipes/b.yaml; fi\n" + LAUNCH.format("$C"), []),
        ("C=$(ls *.yaml)\n" + LAUNCH.format("$C"), []),
        (LAUNCH.format("$C"), []),
    ],
)
def test_a_variable_that_can_have_one_value(script: str, configs: list[str]) -> None:
    assert launched(script) == configs


def test_arguments_of_a_script_that_is_called_in_one_way() -> None:
    script = LAUNCH.format('"$2"')
    call = "bash run.sh zero3 recipes/b.yaml\n"

    assert launched(script) == []
    assert launched(script, README_md=call) == ["recipes/b.yaml"]
    assert launched(script, README_md=call * 2) == ["recipes/b.yaml"]
    assert launched(script, README_md=call, other_sh="./run.sh ddp a.yaml\n") == []


def test_what_is_not_known_stays() -> None:
    known = variables("a.sh", "A=1\nB=2\nB=3\n", [])

    assert known == {"A": ("1",)}
    assert list(expanded(("x", "$A", "${A}b", "$B"), known)) == [("x", "1", "1b", "$B")]
