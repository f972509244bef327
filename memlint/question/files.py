"""Writes the framework files that describe the run of a question, as texts."""

from __future__ import annotations

import json
from typing import Any

from memlint.question import llamafactory, trl
from memlint.question.defaults import with_defaults
from memlint.question.model import Question, QuestionFiles
from memlint.question.models import FOLDER, model_of
from memlint.question.sharding import deepspeed_name, deepspeed_settings, fsdp_settings
from memlint.question.text import yaml_text

MARK = "# Written by memlint"
LAUNCH_FILE = "fsdp.yaml"


def files_of(question: Question, hub: bool = False, exact: bool = False) -> QuestionFiles:
    """The config, the files that it names (DeepSpeed JSON, accelerate launch file, config.json), the defaults used.

    `hub` and `exact`: ways to find the model, as in architectures.resolve. Raises UsageError.
    """
    model = model_of(question, hub, exact)
    filled, taken = with_defaults(question, model)
    main = "inference.yaml" if question.inference else "train.yaml"
    contents = {main: _header(filled) + yaml_text(_keys(filled, model.name))}
    if deepspeed_name(filled):
        contents[deepspeed_name(filled)] = _json(deepspeed_settings(filled))
    if filled.fsdp:
        contents[LAUNCH_FILE] = f"{MARK}\n" + yaml_text(fsdp_settings(filled))
    if model.config is not None:
        contents[f"{FOLDER}/config.json"] = _json(model.config)
    return QuestionFiles(main, contents, (*model.taken, *taken), _start(filled, main))


def _keys(question: Question, model: str) -> dict[str, Any]:
    if question.framework == "trl":
        return trl.training_keys(question, model)
    if question.inference:
        return llamafactory.inference_keys(question, model)
    return llamafactory.training_keys(question, model)


def _header(question: Question) -> str:
    """The `# memlint:` comment with the facts that no key can state: the card, their number, the launch file."""
    facts = [f"gpus={question.gpus}"]
    if question.gpu:
        facts.insert(0, f'gpu="{question.gpu}"' if " " in question.gpu else f"gpu={question.gpu}")
    if question.gpus_per_node:
        facts.append(f"gpus_per_node={question.gpus_per_node}")
    if question.fsdp:
        facts.append(f"with={LAUNCH_FILE}")
    return f"{MARK}: data set and template stand for yours; they take no memory.\n# memlint: {' '.join(facts)}\n\n"


def _start(question: Question, main: str) -> str:
    """The command that starts the run in the folder of the files."""
    if question.framework == "trl":
        launch = f" --accelerate_config {LAUNCH_FILE}" if question.fsdp else f" --num_processes {question.gpus}"
        return f"trl {question.stage} --config {main}{launch}"
    if question.inference:
        batch = question.engine == "transformers" and (question.requests or 1) > 1
        return f"llamafactory-cli {'train' if batch else 'chat'} {main}"
    if question.fsdp:
        return f"accelerate launch --config_file {LAUNCH_FILE} src/train.py {main}"
    torchrun = "FORCE_TORCHRUN=1 " if (question.gpus or 1) > 1 or question.zero else ""
    return f"{torchrun}llamafactory-cli train {main}"


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
