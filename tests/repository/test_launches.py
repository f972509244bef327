"""What commands in scripts and pages say of a config's launch, and when a run is read as they say."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint import source
from memlint.formats.base import Launch
from memlint.hardware import find
from memlint.repository.launch import pages as launches
from memlint.repository.launch import parse
from memlint.repository.launch.files import likeliest
from memlint.repository.launch.index import LaunchIndex
from memlint.repository.launch.snippets import snippets
from memlint.repository.workspace import in_memory, on_disk
from memlint.ruleset.engine import Analysis, analyse
from memlint.ruleset.shipped import shipped
from memlint.source.document import Document
from memlint.source.shell.interpreter import Interpreter
from memlint.source.shell.invocation import Surroundings

SFT = (
    "model_name_or_path: meta-llama/Meta-Llama-3-8B\noutput_dir: o\nmax_length: 2048\ndataset_text_field: t\n"
    "bf16: true\nper_device_train_batch_size: 1\nlearning_rate: 1.0e-5\n"
)
ZERO3 = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {zero_stage: 3}\n"
DDP = "distributed_type: MULTI_GPU\nnum_processes: 8\n"
DS = '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3}}'
COMMAND = "accelerate launch --config_file acc/zero3.yaml run.py --config sft.yaml"
ZERO3_FILE = ("acc/zero3.yaml",)
FILES = {"sft.yaml": SFT, "acc/zero3.yaml": ZERO3, "acc/ddp.yaml": DDP, "ds.json": DS}


def said(page: str, name: str = "README.md", config: str = "sft.yaml", **more: str) -> list[Launch]:
    return list(in_memory({**FILES, name: page, **more}).launch_commands(config))


def read_as(files: dict[str, str], config: str = "sft.yaml", **facts: Any) -> Analysis:
    workspace = in_memory({**FILES, **files})
    return analyse(workspace.documents(config)[0], workspace.context(gpu=find("A100-80GB"), **facts), ())


def engine_of(analysis: Analysis) -> tuple[str, Any, Any]:
    parallelism = analysis.runs[0].parallelism
    return str(parallelism.engine), parallelism.zero.stage, parallelism.world_size


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (COMMAND, (ZERO3_FILE, 0, True)),
        (f"$ ACCELERATE_LOG_LEVEL=info srun uv run {COMMAND} --seed 1 > log 2>&1", (ZERO3_FILE, 0, True)),
        (
            "accelerate launch --config-file='acc/zero3.yaml' -m run --config=\"sft.yaml\"",
            (ZERO3_FILE, 0, True),
        ),
        (
            "python -m accelerate.commands.launch --config_file acc/ddp.yaml run.py sft.yaml",
            (("acc/ddp.yaml",), 0, True),
        ),
        (
            f"{COMMAND.replace('run.py', '--num_processes=7 --main_process_port 1 run.py')}",
            (ZERO3_FILE, 7, True),
        ),
        ("accelerate launch --num_machines 2 --num_processes 16 run.py sft.yaml", ((), 16, True)),
        (COMMAND.replace("run.py", "--deepspeed_multinode_launcher standard run.py"), (ZERO3_FILE, 0, True)),
        ("torchrun --nproc_per_node 8 --nnodes=2 --rdzv_id 7 run.py sft.yaml", ((), 16, True)),
        ("torchrun --nproc-per-node=4 --standalone run.py --config sft.yaml", ((), 4, True)),
        ("deepspeed --num_gpus=4 run.py sft.yaml --deepspeed ds.json", (("ds.json",), 4, True)),
        ("deepspeed run.py --deepspeed=ds.json sft.yaml", (("ds.json",), 0, True)),
        ("deepspeed --include localhost:0,1 run.py sft.yaml", ((), 2, True)),
        ("torchrun run.py sft.yaml", ((), 1, True)),
        ("trl sft --config sft.yaml --accelerate_config zero3", ((), 0, True)),
        ("trl sft --config sft.yaml --num_processes 2", ((), 2, True)),
        ("axolotl train sft.yaml --launcher torchrun -- --nproc_per_node=4", ((), 4, True)),
        ("axolotl train sft.yaml --num-processes 4", ((), 4, True)),
        ("axolotl train sft.yaml --deepspeed ds.json -- --num_processes 8", (("ds.json",), 8, True)),
        ("FORCE_TORCHRUN=1 NNODES=2 NPROC_PER_NODE=4 llamafactory-cli train sft.yaml", ((), 8, True)),
        ("FORCE_TORCHRUN=1 NNODES=2 llamafactory-cli train sft.yaml", ((), 0, False)),
        ("llamafactory-cli train sft.yaml deepspeed=ds.json", (("ds.json",), 0, True)),
        (f"bash -lc '{COMMAND}'", (ZERO3_FILE, 0, True)),
        (COMMAND.replace("run.py", "run.py --output_dir <your folder>"), (ZERO3_FILE, 0, True)),
        (COMMAND.replace("run.py", "run.py --output_dir {OUT} --seed [SEED]"), (ZERO3_FILE, 0, True)),
        # Something in it bears on the engine or the number, and its words do not tell.
        (COMMAND.replace("run.py", "--use_fsdp run.py"), (ZERO3_FILE, 0, False)),
        (COMMAND.replace("run.py", "--num_processes $N run.py"), (ZERO3_FILE, 0, False)),
        (COMMAND.replace("run.py", "--num_machines 2 run.py"), (ZERO3_FILE, 0, False)),
        (COMMAND.replace("acc/zero3", "acc/{zero3,ddp}"), (ZERO3_FILE, 0, False)),
        (COMMAND.replace("acc/zero3", "elsewhere/zero3"), ((), 0, False)),
        (COMMAND.replace("acc/zero3", "/root/acc/zero3"), ((), 0, False)),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 4 run.py sft.yaml", ((), 4, False)),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node 2 --nnodes 2 run.py sft.yaml", ((), 4, True)),
        ("CUDA_VISIBLE_DEVICES=$ALL torchrun --nproc_per_node 4 run.py sft.yaml", ((), 4, True)),
        (f"{COMMAND} --fsdp full_shard", (ZERO3_FILE, 0, False)),
        ("accelerate launch run.py sft.yaml", ((), 0, False)),
        ("torchrun --nproc_per_node gpu run.py sft.yaml", ((), 0, False)),
        ("trl sft --config sft.yaml --num_processes $N", ((), 0, False)),
        ("trl sft --config sft.yaml --accelerate_config $CLUSTER", ((), 0, False)),
        ("accelerate launch --config_file acc/zero3.yaml $SCRIPT sft.yaml", (ZERO3_FILE, 0, False)),
    ],
)
def test_what_a_command_says(command: str, expected: tuple[tuple[str, ...], int, bool]) -> None:
    (launch,) = said(f"Train it:\n\n```shell\n{command}\n```\n")
    assert (launch.files, launch.gpus, launch.is_clear and not launch.asks_for_gpus) == expected
    assert (launch.path, launch.line) == ("README.md", 4)


def test_a_number_that_nobody_knows_leaves_the_engine_clear() -> None:
    """Job scripts count the nodes that they got. Where the number is given, the file says the rest."""
    job = {"job.sbatch": COMMAND.replace("run.py", "--num_processes $((SLURM_NNODES * 4)) run.py")}
    assert engine_of(read_as(job))[0] == "single"
    assert engine_of(read_as(job, gpus=16)) == ("deepspeed", 3, 16)


def test_a_script_that_a_page_starts_with_options_is_followed() -> None:
    """As slurm/train.slurm of open-r1 has it."""
    job = (
        'if [[ "$*" == *"--help"* ]]; then exit 0; fi\nEXTRA=""\n'
        "while [[ $# -gt 0 ]]; do case $1 in --config) C=$2; shift 2;; --accelerator) A=$2; shift 2;; esac; done\n"
        'if grep -q use_vllm $C.yaml; then EXTRA="$EXTRA --host=$NODE"; fi\n'
        'export CMD=" run.py --config $C.yaml $EXTRA"\n'
        'export LAUNCHER="accelerate launch --config_file acc/$A.yaml --num_processes $N \\\n'
        ' --gradient_accumulation_steps $G"\n'
        'srun bash -c "$LAUNCHER $CMD" 2>&1\n'
    )
    files = {"train.slurm": job, "README.md": "```\nsbatch train.slurm --config sft --accelerator zero3\n```\n"}
    assert engine_of(read_as(files, gpus=16)) == ("deepspeed", 3, 16)


PROGRAM = (
    '"""Trains.\n\n    accelerate launch --config_file acc/zero3.yaml run.py\n"""\n'
    "from transformers import Trainer, TrainingArguments\n"
    "Trainer('Qwen/Qwen2.5-7B', TrainingArguments('o', per_device_train_batch_size=1, bf16=True)).train()\n"
)


def test_a_docstring_says_what_launches_its_program() -> None:
    assert engine_of(read_as({"run.py": PROGRAM}, "run.py", gpus=4)) == ("deepspeed", 3, 4)


def test_a_command_with_a_config_is_of_another_run_than_the_program_s() -> None:
    files = {"run.py": PROGRAM, "README.md": f"```\n{COMMAND.replace('zero3', 'ddp')}\n```\n"}
    assert engine_of(read_as(files, "run.py", gpus=4)) == ("deepspeed", 3, 4)
    alone = {**files, "run.py": PROGRAM.partition('"""\n')[2]}
    assert engine_of(read_as(alone, "run.py", gpus=4))[0] == "ddp"


@pytest.mark.parametrize(
    "page",
    [
        "We use deepspeed and torchrun with sft.yaml.",
        "python run.py --config sft.yaml",
        COMMAND.replace("sft.yaml", "other.yaml"),
        COMMAND.replace("sft.yaml", "$CONFIG"),
        f'export LAUNCHER="{COMMAND}"',
        f"{COMMAND}\0",
    ],
)
def test_what_launches_nothing(page: str) -> None:
    assert said(page) == []


def test_lines_that_go_on_quotes_and_braces() -> None:
    page = "cat x | tee y && accelerate launch \\\n  --config_file acc/zero3.yaml \\\r\n  run.py {sft,dpo}.yaml; ls\n"
    (launch,) = said(page, "train.sh", **{"dpo.yaml": SFT})
    assert launch == said(page, "train.sh", "dpo.yaml", **{"dpo.yaml": SFT})[0]
    assert (launch.files, launch.line, launch.is_clear) == (ZERO3_FILE, 1, True)
    forgotten = "accelerate launch\n--config_file acc/zero3.yaml\n--num_processes=3 run.py\n--config sft.yaml\n"
    assert [(one.files, one.gpus) for one in said(forgotten)] == [(ZERO3_FILE, 3)]
    unclosed = said(f"it isn't \"{COMMAND}\n{COMMAND}")
    assert [(one.line, one.files) for one in unclosed] == [(1, ZERO3_FILE), (2, ZERO3_FILE)]


def test_names_count_from_the_page_from_above_and_from_where_it_went() -> None:
    inner = {"tune/sft.yaml": SFT, "tune/acc/here.yaml": ZERO3}
    command = "accelerate launch --config_file acc/here.yaml run.py sft.yaml"
    (launch,) = said(command, "tune/README.md", "tune/sft.yaml", **inner)
    assert launch.files == ("tune/acc/here.yaml",)
    assert not launch.is_clear  # there is a sft.yaml above as well
    (launch,) = said(f"git clone https://x && cd repository\ncd tune\n{command}", config="tune/sft.yaml", **inner)
    assert (launch.files, launch.is_clear) == (("tune/acc/here.yaml",), False)
    outside = said(COMMAND.replace("sft.yaml", "../../sft.yaml"))
    assert outside == []


def test_the_comments_of_the_config_itself() -> None:
    own = f"# torchrun is not it:\n# {COMMAND}\n{SFT}"
    (launch,) = in_memory({**FILES, "sft.yaml": own}).launch_commands("sft.yaml")
    assert (launch.path, launch.line, launch.files) == ("sft.yaml", 2, ("acc/zero3.yaml",))
    unquoted = f"{SFT}note: {COMMAND}\n"
    assert in_memory({**FILES, "sft.yaml": unquoted}).launch_commands("sft.yaml") == ()


def test_a_run_is_read_as_all_commands_say() -> None:
    analysis = read_as({"README.md": f"{COMMAND}\n\n{COMMAND} --seed 2\n"})
    assert engine_of(analysis) == ("deepspeed", 3, 8)
    assert analysis.runs[0].origins["launch"][:3] == ("inferred", "README.md", 1)
    fewer = read_as({"README.md": COMMAND.replace("run.py", "--num_processes 4 run.py")})
    assert engine_of(fewer) == ("deepspeed", 3, 4)
    sharded = read_as({"t.sh": "deepspeed --num_gpus 2 run.py sft.yaml --deepspeed ds.json"})
    assert engine_of(sharded) == ("deepspeed", 3, 2)
    only_counted = read_as({"Makefile": "train:\n\ttorchrun --nproc_per_node 2 run.py sft.yaml\n"})
    assert engine_of(only_counted)[::2] == ("ddp", 2)


@pytest.mark.parametrize(
    "page",
    [
        f"{COMMAND}\n{COMMAND.replace('zero3', 'ddp')}\n",
        f"{COMMAND}\n{COMMAND.replace('run.py', '--num_processes 4 run.py')}\n",
        f"{COMMAND}\naccelerate launch run.py sft.yaml\n",
        COMMAND.replace("acc/zero3.yaml", "sft.yaml"),
        COMMAND.replace("acc/zero3.yaml", "ds.json"),
        f"CUDA_VISIBLE_DEVICES=5,7 {COMMAND}",  # its launch file asks for 8
        "deepspeed --num_gpus 8 run.py sft.yaml --deepspeed acc/zero3.yaml",
        COMMAND.replace("run.py", "--zero_stage 2 run.py"),
    ],
)
def test_commands_that_differ_or_leave_something_open_are_not_followed(page: str) -> None:
    analysis = read_as({"README.md": page})
    assert engine_of(analysis)[0] == "single"
    assert "launch" not in analysis.runs[0].origins


def test_everything_that_somebody_says_is_stronger() -> None:
    page = {"README.md": COMMAND}
    counted = read_as(page, gpus=2, gpus_origin="said")
    assert engine_of(counted) == ("deepspeed", 3, 2)
    assert engine_of(read_as(page, gpus=1, gpus_origin="said"))[::2] == ("single", 1)
    companion = in_memory(FILES).documents("acc/ddp.yaml")
    assert engine_of(read_as(page, companions=companion))[0] == "ddp"
    own = read_as({**page, "sft.yaml": f"{SFT}fsdp: full_shard\n"})
    assert engine_of(own)[::2] == ("fsdp", 8)
    differing = read_as({"README.md": f"{COMMAND}\n{COMMAND.replace('run.py', '--num_processes 4 run.py')}\n"}, gpus=16)
    assert engine_of(differing) == ("deepspeed", 3, 16)


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        (f"{SFT}fsdp: full_shard\n", {"gpus": 8}),
        (f"{SFT}deepspeed: ds.json\n", {"gpus": 8}),
        (SFT, {"gpus": 1}),
        (SFT, {"companions": in_memory(FILES).documents("acc/ddp.yaml")}),
        (DS, {}),
    ],
)
def test_nothing_is_searched_where_all_is_said(config: str, facts: dict[str, Any]) -> None:
    workspace = in_memory({**FILES, "x.yaml": config, "README.md": COMMAND})

    def refuse(path: str) -> tuple[Launch, ...]:
        raise AssertionError(f"{path} says everything")

    facts = {**facts, "repository": workspace.but(launch_commands=refuse, launch_files=refuse)}
    context = workspace.context(**facts)
    assert analyse(workspace.documents("x.yaml")[0], context, ()).runs


def test_what_a_run_makes_of_a_shared_launch_file_is_not_said_of_the_file() -> None:
    offloaded = ZERO3.replace(
        "zero_stage: 3", "zero_stage: 3, offload_param_device: cpu, offload_optimizer_device: cpu"
    )
    workspace = in_memory({**FILES, "acc/zero3.yaml": offloaded, "README.md": COMMAND})
    document = workspace.documents("sft.yaml")[0]
    context = workspace.context(gpu=find("B200"))
    with_file = context._replace(companions=workspace.documents("acc/zero3.yaml"), gpus=8)
    assert "OFF001" in [one.rule for one in analyse(document, with_file, shipped()).findings]
    assert "OFF001" not in [one.rule for one in analyse(document, context, shipped()).findings]


def test_launch_files_are_named_likeliest_first() -> None:
    workspace = in_memory(
        {**FILES, "other.yaml": SFT, "README.md": COMMAND, "x/deep/zero3.yaml": ZERO3, "bad.yaml": "{"}
    )
    assert workspace.launch_files("other.yaml") == ("acc/zero3.yaml", "acc/ddp.yaml", "x/deep/zero3.yaml")
    assert workspace.launch_files("x/deep/sft.yaml")[0] == "x/deep/zero3.yaml"
    found = ("configs/a100_40gb/zero3.yaml", "configs/a100_80gb/zero3.yaml")
    assert likeliest(found, "configs/dpo/a100_80gb.yaml", {})[0] == found[1]


def test_only_tracked_files_are_read_and_no_link_leads_out(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "repository"
    for folder in (outside, root):
        folder.mkdir()
    (outside / "launch.sh").write_text(COMMAND)
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "link.sh").symlink_to(outside / "launch.sh")
    (root / "gone.sh").symlink_to(root / "nowhere.sh")
    (root / "notes.md").write_text(COMMAND)
    for command in (["init", "-q"], ["add", "--all", "--", ":!notes.md"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    assert on_disk(str(root), str(root)).launch_commands("sft.yaml") == ()
    subprocess.run(["git", "add", "notes.md"], cwd=root, check=True)
    workspace = on_disk(str(root), str(root))
    assert [one.path for one in workspace.launch_commands("sft.yaml")] == ["notes.md"]
    (root / "notes.md").unlink()
    assert workspace.overlaid({"acc/ddp.yaml": b""}).launch_commands("sft.yaml")  # read once
    assert not workspace.overlaid({"notes.md": b"nothing"}).launch_commands("sft.yaml")


def no_word(path: str, words: tuple[str, ...], most: int) -> bool:
    return False


def test_reading_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("a.md", "b.md", "c.sh", "sft.yaml", "acc/zero3.yaml")
    read: list[str] = []

    def load(path: str) -> bytes:
        read.append(path)
        return COMMAND.encode() + (b" " * launches.MOST_BYTES if path == "/a.md" else b"")

    def told(bytes_of: Callable[[str], bytes] = load) -> list[str]:
        repository = LaunchIndex("/", names, bytes_of, lambda path: source.load(b"", path)[0], no_word)
        return [one.path for one in repository.launches("sft.yaml", "")]

    assert told() == ["b.md", "c.sh"]
    monkeypatch.setattr(launches, "MOST_FILES", 2)
    assert told() == ["b.md"]
    monkeypatch.setattr(launches, "MOST_FILES", 9)
    monkeypatch.setattr(launches, "MOST_BYTES_IN_ALL", launches.MOST_BYTES + 2 * len(COMMAND))
    read.clear()
    assert told() == ["b.md"]
    assert read == ["/a.md", "/b.md", "/c.sh"]
    monkeypatch.setattr(parse, "MOST_LAUNCHES", 3)
    assert told(lambda path: (COMMAND + "\n").encode() * 99) == ["a.md"] * 3 + ["b.md"] * 3 + ["c.sh"] * 3


def no_document(path: str) -> Document:
    return source.load(b"", path)[0]


def test_pages_that_name_another_config_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    monkeypatch.setattr(parse, "commands", lambda page, *others: taken.append(page) or ())
    pages = {
        "/a.md": b"torchrun x.py dpo.yaml",
        "/b.md": b"torchrun x.py sft.yaml",
        "/c.md": b"torchrun x.py {a,sft}.yaml",
        "/d.sh": b'N=2\ntorchrun --nproc_per_node $N "$PWD/x.py" --out=${OUT}/1 dpo.yaml',
        "/e.sh": b"C=sft\ntorchrun x.py $C.yaml",
    }
    names = ("a.md", "b.md", "c.md", "d.sh", "e.sh", "sft.yaml")
    repository = LaunchIndex("/", names, pages.__getitem__, no_document, no_word)
    repository.launches("sft.yaml", "")
    repository.launches("sft.yaml", "")
    assert taken == ["b.md", "c.md", "e.sh"]


def test_a_script_is_followed_once_for_its_launches_and_its_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[str] = []

    def interpreter(path: str, surroundings: Surroundings) -> Interpreter:
        followed.append(path)
        return Interpreter(path, surroundings)

    monkeypatch.setattr(parse, "Interpreter", interpreter)
    pages = {"/run.sh": b"torchrun --nproc_per_node 2 x.py sft.yaml", "/x.py": b"", "/sft.yaml": b""}
    repository = LaunchIndex("/", ("run.sh", "x.py", "sft.yaml"), pages.__getitem__, no_document, no_word)
    assert [one.path for one in repository.launches("sft.yaml", "")] == ["run.sh"]
    assert [one.written_at for one in repository.starts_with("sft.yaml")] == ["run.sh:1"]
    assert followed == ["/run.sh"]


@pytest.mark.parametrize("part", ['"', "'", "\\\n", "cd x && ", "`", "torchrun ", "{a,", "accelerate launch \\\n--x "])
def test_no_page_takes_long(part: str) -> None:
    text = "torchrun " + part * (launches.MOST_BYTES // len(part))
    assert len(list(snippets("/p.md", text))) <= launches.MOST_BYTES


@given(st.text(alphabet=st.sampled_from("torchrun deepspeed\\\n\"'`;&|(){},=-$#cd ./sftyaml"), max_size=200))
def test_any_text_is_read(text: str) -> None:
    for page in (text, f"accelerate launch {text} run.py sft.yaml", f"torchrun --nproc_per_node {text}"):
        for launch in said(page):
            assert launch.line >= 1
            assert set(launch.files) <= set(FILES)


@pytest.mark.parametrize(
    ("files", "page", "judged"),
    [
        ({}, COMMAND, False),
        ({"run.py": ""}, COMMAND, True),
        ({}, COMMAND.replace("run.py", "/opt/run.py"), True),
        ({}, f"{COMMAND}\ntrl sft --config sft.yaml", True),
        ({}, "", True),
    ],
)
def test_keys_are_the_programs_where_it_is_not_there(files: dict[str, str], page: str, judged: bool) -> None:
    own = f"{SFT}use_flash_attention_2: true\nsave_step: 3\n"
    found = read_as({"sft.yaml": own, "README.md": f"```sh\n{page}\n```\n", **files})
    assert any(item.rule in ("CFG001", "CFG005") for item in found.findings) is judged


def test_what_changes_is_read_again_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a page that was read before: where it has changed, or a script that was followed from it."""
    inner = "accelerate launch --config_file acc/zero3.yaml run.py --config $1\n"
    files = {**FILES, "README.md": f"```\n{COMMAND}\n```\n", "go.sh": "bash inner.sh sft.yaml\n", "inner.sh": inner}
    workspace = in_memory(files)
    assert {one.path for one in workspace.launch_commands("sft.yaml")} == {"README.md", "go.sh"}
    read: list[str] = []
    original = parse.commands

    def commands(name: str, *rest: Any) -> Any:
        read.append(name)
        return original(name, *rest)

    monkeypatch.setattr(parse, "commands", commands)
    again = workspace.overlaid({"README.md": b"```\nls accelerate\n```\n"})
    assert [one.path for one in again.launch_commands("sft.yaml")] == ["go.sh"]
    assert "go.sh" not in read
    read.clear()
    other = workspace.overlaid({"inner.sh": inner.replace("zero3", "ddp").encode()})
    assert ("acc/ddp.yaml",) in [one.files for one in other.launch_commands("sft.yaml")]
    assert "go.sh" in read and "README.md" not in read
