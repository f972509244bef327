"""What the frameworks' parsers refuse of public configurations.

    python benchmarks/mistakes/corpus_refusals.py SOURCES CORPUS

SOURCES holds the packages that judges.py names. CORPUS holds a folder for each kind of file and an INDEX.jsonl, whose
lines give `kind`, `repo`, `path` and `file`. Every file goes to the judge of its framework. One line is written for
each: its place, the judge, the framework's words of refusal ("" where it takes the file), and the keys that it drops.
LLaMA-Factory 0.9.5 needs transformers 5.6.0 (`--kind llamafactory`, with it in SOURCES); the other kinds are for the
releases of judges.py. Refusals that only say what the judging machine lacks (a card, other cards than one, a file that
the repository keeps elsewhere, a package, the hub, USE_MCA=1) are marked `machine`: they say nothing of the file.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from benchmarks.mistakes.judges import Answer, judges

RECORDS = Path(__file__).resolve().parents[1] / "data" / "corpus_refusals.tsv"
MOST_WORDS = 240  # characters of a refusal
HEADER = ("file", "judge", "says", "refusal", "dropped")
_MACHINE = (
    r"ImportError|ModuleNotFoundError|PackageNotFoundError|not installed|process group|socket|FileNotFoundError|"
    r"fp8 requested|couldn't connect|does not appear to have|Can't load|LocalEntryNotFound|OfflineMode|"
    r"CUDA|no GPU|No such file|not a valid model identifier|requires? a GPU|not available on this machine|"
    r"Check batch related|global eval batch size|generation_batch_size|total_num_steps|pure_bf16|"
    r"tensor_model_parallel_size|"
    r"path to an existing deepspeed config|manually pass in|SageMakerConfig"
)
# What reaches out of the machine; a DeepSpeed file is judged by itself.
_BATCH = {"train_batch_size", "train_micro_batch_size_per_gpu"}
_LEFT_OUT = ("deepspeed", "report_to", "push_to_hub", "hub_model_id", "use_wandb")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("sources", type=Path)
    words.add_argument("corpus", type=Path)
    words.add_argument("--kind", default="", help="this kind of file alone")
    words.add_argument("--output", type=Path, default=RECORDS)
    options = words.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    known = judges(options.sources, parsers_alone=True)
    lines = ["\t".join(HEADER)]
    for line in (options.corpus / "INDEX.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if options.kind not in ("", entry["kind"]):
            continue
        content = loaded(options.corpus / entry["file"], entry["kind"])
        name = judge_of(entry["kind"], content) if isinstance(content, dict) else ""
        if name:
            print(name, entry["file"], flush=True)
            lines.append(
                "\t".join(
                    row(f"{entry['kind']}/{entry['repo']}/{entry['path']}", name, known[name](prepared(content, name)))
                )
            )
    options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def loaded(file: Path, kind: str) -> Any:
    """The file's content, read as its framework reads it; None where it is no JSON or YAML."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".json":
            return json.loads(text)
        if kind == "llamafactory":  # hparams/parser.py, read_args
            return OmegaConf.to_container(OmegaConf.create(text))
        return yaml.safe_load(text)
    except (yaml.YAMLError, json.JSONDecodeError, OmegaConfBaseException, OSError):
        return None


def judge_of(kind: str, content: dict[str, Any]) -> str:
    """The judge for a file; "" where none reads such a file (inference, LLaMA-Factory's v1 files, scripts' own)."""
    if "zero_optimization" in content:
        return "deepspeed"
    if kind == "llamafactory":
        return "llamafactory" if "stage" in content and content.get("do_train") else ""
    if kind == "trainer":
        return trainer_of(content)
    return kind if kind in ("axolotl", "deepspeed", "accelerate") else ""


def trainer_of(content: dict[str, Any]) -> str:
    """TRL's class by its own keys; a file with none of them is a Trainer's."""
    if {"num_generations", "reward_funcs", "max_completion_length"} & content.keys():
        return "trl-grpo"
    if "beta" in content or "loss_type" in content:
        return "trl-dpo"
    return "trl-sft" if "model_name_or_path" in content else ""


def prepared(content: dict[str, Any], judge: str) -> dict[str, Any]:
    """The file as one process without network reads it; a Trainer fills in each "auto" of a DeepSpeed file."""
    if judge == "deepspeed":
        content = without_auto(content)
        batch = {} if _BATCH & content.keys() else {"train_micro_batch_size_per_gpu": 1}
        return {**batch, **content}
    return {key: value for key, value in content.items() if key not in _LEFT_OUT}


def without_auto(content: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in content.items() if value != "auto"}
    if "scheduler" in kept and "auto" in dict(kept["scheduler"].get("params") or {}).values():
        del kept["scheduler"]  # its numbers are the Trainer's
    return {key: without_auto(value) if isinstance(value, dict) else value for key, value in kept.items()}


def row(file: str, judge: str, answer: Answer) -> tuple[str, ...]:
    says = "takes" if not answer.refusal else "machine" if re.search(_MACHINE, answer.refusal) else "refuses"
    return file, judge, says, answer.refusal.replace("\t", " ")[:MOST_WORDS], ",".join(answer.dropped)


if __name__ == "__main__":
    main()
