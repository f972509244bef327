"""Launch commands whose config stands in a variable."""

import pytest

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
        ("if x; then C=a.yaml; else C=recipes/b.yaml; fi\n" + LAUNCH.format("$C"), ["a.yaml", "recipes/b.yaml"]),
        ('ARGS=(--seed 1 --config a.yaml)\ntorchrun train.py "${ARGS[@]}"\n', ["a.yaml"]),
        ('cd "$(dirname "$0")"\n' + LAUNCH.format("$PWD/a.yaml"), ["a.yaml"]),
        ("C=a.yaml\nC=recipes/b.yaml\n" + LAUNCH.format("$C"), ["recipes/b.yaml"]),
        ("C=$(ls *.yaml)\n" + LAUNCH.format("$C"), []),
        ("A=recipes/\nB=b\nC=$A$B\n" + LAUNCH.format("$C.yaml"), ["recipes/b.yaml"]),
        ("C=a.\nC+=yaml\n" + LAUNCH.format("$C"), ["a.yaml"]),
        ("printf -v C '%s.yaml' a\n" + LAUNCH.format("$C"), ["a.yaml"]),
        ("C=$(echo a.json | cut -d . -f 1).yaml\n" + LAUNCH.format("$C"), ["a.yaml"]),
        ("C=b.json\n" + LAUNCH.format("recipes/${C/json/yaml}"), ["recipes/b.yaml"]),
        (LAUNCH.format("$C"), []),
    ],
)
def test_the_configs_that_variables_stand_for(script: str, configs: list[str]) -> None:
    assert launched(script) == configs


def test_arguments_of_a_script_that_pages_call() -> None:
    script = LAUNCH.format('"$2"')
    call = "bash run.sh zero3 recipes/b.yaml\n"

    assert launched(script) == []
    assert launched(script, README_md=call) == ["recipes/b.yaml"]
    assert launched(script, README_md=call * 2) == ["recipes/b.yaml"]
    assert launched(script, README_md=call, other_sh="./run.sh ddp a.yaml\n") == ["a.yaml", "recipes/b.yaml"]
    assert launched(LAUNCH.format("recipes/$1.yaml"), README_md="bash run.sh b\n") == ["recipes/b.yaml"]


def test_each_way_through_a_script_is_a_launch() -> None:
    script = "if x; then N=8; else N=2; fi\ntorchrun --nproc_per_node $N train.py --config a.yaml\n"
    workspace = in_memory({"a.yaml": CONFIG, "run.sh": script, "train.py": ""})

    assert [(one.gpus, one.line) for one in workspace.launch_commands("a.yaml")] == [(8, 2), (2, 2)]


def test_a_script_that_sets_the_variables() -> None:
    files = {"env.sh": "export N=4\nexport C=a.yaml\n", "run.sh": "source env.sh\n" + LAUNCH.format("$C")}
    workspace = in_memory({"a.yaml": CONFIG, "train.py": "", **files})

    assert [(one.path, one.line, one.gpus) for one in workspace.launch_commands("a.yaml")] == [("run.sh", 2, 4)]
