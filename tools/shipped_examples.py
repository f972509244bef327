"""Write memlint/repository/shipped_examples.json: marks of the files that frameworks ship as examples, and of those
that check their arguments (`CHECKS`).

    python tools/shipped_examples.py OWNER/NAME=CLONE...

Each CLONE is a clone of a repository named in EXAMPLES, with its history and tags. Nothing of it is run. Repositories
that are not named keep their marks. All versions of a file count, of releases and between them: copies are made of
any commit. The marks are facts about the files; of their text nothing is kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memlint.repository.files.discovery import may_be_config
from memlint.repository.shipped_examples import DATA, FILES_OF_CHECKS, FOLDERS, mark
from tools.generated import settle

# The framework's name, and the folders of its repository whose files show how it is used.
EXAMPLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "axolotl-ai-cloud/axolotl": ("Axolotl", ("examples", "configs", "deepspeed", "deepspeed_configs", "scripts")),
    "deepspeedai/DeepSpeedExamples": (
        "DeepSpeedExamples",
        ("applications", "benchmarks", "bing_bert", "BingBertSquad", "compression", "inference", "training"),
    ),
    "haotian-liu/LLaVA": ("LLaVA", ("scripts",)),
    "hiyouga/EasyR1": ("EasyR1", ("examples",)),
    "hiyouga/LLaMA-Factory": ("LLaMA-Factory", ("examples", "scripts")),
    "huggingface/accelerate": ("accelerate", ("benchmarks", "examples")),
    "huggingface/alignment-handbook": ("the alignment handbook", ("recipes", "scripts")),
    "huggingface/open-r1": ("open-r1", ("recipes", "scripts", "slurm")),
    "huggingface/trl": ("TRL", ("benchmark", "commands", "examples", "scripts", "trl/accelerate_configs")),
    "Lightning-AI/litgpt": ("LitGPT", ("config_hub", "finetune", "pretrain", "scripts")),
    "lm-sys/FastChat": ("FastChat", ("playground", "scripts")),
    "modelscope/ms-swift": ("ms-swift", ("examples", "scripts")),
    "NVIDIA-NeMo/RL": ("NeMo-RL", ("examples", "tests/test_suites")),
    "OpenRLHF/OpenRLHF": ("OpenRLHF", ("examples",)),
    "pytorch/torchtune": ("torchtune", ("recipes",)),
    "verl-project/verl": ("verl", ("examples", "recipe", "scripts", "tests", "verl/trainer/config")),
}

# The files of a framework that check its arguments: a copy with the same ones refuses what its releases refuse.
CHECKS: Mapping[str, tuple[str, ...]] = {"verl-project/verl": FILES_OF_CHECKS["verl"]}


def main(arguments: list[str]) -> int:
    clones = dict(argument.split("=", 1) for argument in arguments if not argument.startswith("--"))
    target = Path(DATA)
    data = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {}
    for repository, clone in clones.items():
        name, folders = EXAMPLES[repository]
        if missing := {folder.split("/")[0] for folder in folders} - FOLDERS:
            raise SystemExit(f"{target.stem}.FOLDERS lacks {', '.join(sorted(missing))}")
        checks = CHECKS.get(repository, ())
        newest = _git(clone, "log", "-1", "--format=%h of %cs").strip()
        data[name] = {
            "source": f"https://github.com/{repository}, up to {newest}",
            "marks": " ".join(sorted({mark(place, blob) for place, blob in _versions(clone, folders, checks)})),
        }
    text = json.dumps(dict(sorted(data.items(), key=lambda item: item[0].lower())), indent=1)
    return settle({target: f"{text}\n"}, arguments)


def _versions(clone: str, folders: tuple[str, ...], checks: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The place and git's name for the contents of every version of every file that memlint would look at."""
    listed = _git(clone, "log", "HEAD", "--tags", "-m", "--raw", "--no-abbrev", "--no-renames", "--format=", "-z")
    fields = iter(listed.split("\0"))
    for change in fields:
        place, blob = next(fields, ""), change.split()[3] if change else ""
        below = any(place.startswith(f"{folder}/") for folder in folders)
        if (place in checks or (below and may_be_config(place.rsplit("/", 1)[-1]))) and set(blob) != {"0"}:
            yield place, blob


def _git(clone: str, *words: str) -> str:
    done = subprocess.run(["git", "--git-dir", clone, *words], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
