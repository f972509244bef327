"""Files with a framework's keys that a script of the repository reads."""

from __future__ import annotations

import pytest
import yaml

from memlint.formats.axolotl import format as axolotl
from memlint.formats.llamafactory import format as llamafactory
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import UNKNOWN

LLAMAFACTORY = {
    "model_name_or_path": "Qwen/Qwen2.5-7B",
    "stage": "sft",
    "finetuning_type": "lora",
    "dataset": "a",
    "template": "qwen",
    "cutoff_len": 1024,
}
READER = "import yaml\nsettings = yaml.safe_load(open(path))\n"
RUN = {"run.sh": "python train.py --config sft.yaml\n", "train.py": READER}
HANDS_ON = {**RUN, "train.py": f"{READER}run(['llamafactory-cli', 'train', path])\n"}
IMPORTS = {
    "run.sh": "python -m own.cli --config sft.yaml\n",
    "src/own/cli.py": "from .trainer import train\nparse('--config', help='a .yaml')\n",
    "src/own/trainer.py": READER,
}


@pytest.mark.parametrize(
    ("extra", "files", "reader"),
    [
        ({"trainer": {"backend": "own"}}, RUN, "train.py"),
        ({"trainer": {"backend": "own"}}, IMPORTS, "src/own/cli.py"),  # the program: what it imports may read others
        ({}, RUN, "train.py"),
        ({}, HANDS_ON, ""),  # it fills in a file for the framework
        ({"cutof_len": 3}, HANDS_ON, ""),  # a slip
        ({"trainer": {"backend": "own"}}, HANDS_ON, "train.py"),
        ({"trainer": {}}, {**RUN, "go.sh": "llamafactory-cli train sft.yaml\n"}, ""),
        ({"trainer": {}}, {"train.py": READER}, ""),  # reads some YAML
    ],
)
def test_a_llamafactory_file_that_a_script_reads(extra: dict[str, object], files: dict[str, str], reader: str) -> None:
    workspace = in_memory({"sft.yaml": yaml.safe_dump({**LLAMAFACTORY, **extra}), **files})
    note = llamafactory.unjudged(workspace.documents("sft.yaml")[0], workspace.context())
    assert (note.message.split()[0] if note else "") == reader


def test_a_file_that_lies_over_others_is_for_a_loader_of_its_own() -> None:
    text = yaml.safe_dump({**LLAMAFACTORY, "_base_": ["./default.yaml"]})
    workspace = in_memory({"sft.yaml": text})
    note = llamafactory.unjudged(workspace.documents("sft.yaml")[0], workspace.context())
    assert note is not None and note.message.startswith("`_base_`")


def test_axolotl_reads_no_json() -> None:
    text = '{"base_model": "a/b", "micro_batch_size": 2, "sequence_len": 512, "adapter": "lora", "cutoff_len": 5}'
    workspace = in_memory({"train.json": text})
    note = axolotl.unjudged(workspace.documents("train.json")[0], workspace.context())
    assert note is not None and note.message.startswith("Axolotl's files are YAML")


def test_tags_are_a_matter_of_the_reader() -> None:
    assert not axolotl.rule_applies("SRC005")
    assert axolotl.rule_applies("SRC001")
    assert all(map(axolotl.rule_applies, ("MEM001", "EVA002", "PAR003", "SAV001")))  # those that plans resolve


def test_an_axolotl_file_that_a_script_reads() -> None:
    workspace = in_memory({"sft.yaml": "base_model: a/b\ntrain_file: c.jsonl\noutput_dir: out\n", **RUN})
    note = axolotl.unjudged(workspace.documents("sft.yaml")[0], workspace.context())
    assert note is not None and note.code == "own-reader" and not axolotl.rule_applies(note.code)


ADAPTS = "import yaml\nfrom peft import LoraConfig\nsettings = yaml.safe_load(open(path))\nLoraConfig(r=settings.r)\n"
FLAT = "model_name_or_path: Qwen/Qwen2.5-7B\noutput_dir: o\nlearning_rate: 1e-4\nmax_grad_norm: 1.0\nbatch: 2\n"


@pytest.mark.parametrize(
    ("program", "more", "kind"),
    [(ADAPTS, "", UNKNOWN), (READER, "", "full"), (ADAPTS, "use_peft: true\nlora_r: 8\n", "lora")],
)
def test_a_script_that_makes_adapters_leaves_open_what_trains(program: str, more: str, kind: object) -> None:
    workspace = in_memory({**RUN, "train.py": program, "sft.yaml": FLAT + more})
    (document,) = workspace.documents("sft.yaml")
    run = Engine(()).analyse(document, workspace.context()).runs[0]
    assert run.method.kind == kind
    assert (run.model.weights_dtype is UNKNOWN) is (kind is UNKNOWN)
