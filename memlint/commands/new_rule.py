"""`memlint new-rule`: writes the skeleton of a rule file, which loads and whose examples pass."""

from __future__ import annotations

import os
import re

from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.fixes.write import Write, WriteRefused, write_all
from memlint.ruleset.shipped import shipped

SKELETON = """\
# docs/rules-format.md explains every key. `memlint test {path}` runs the examples.
id: {id}
name: {name}
title: {title}
severity: warning
when: batch.micro_batch_size > 64
at: [batch.micro_batch_size]
message: "{{batch.micro_batch_size}} sequences a GPU"
why: >-
  What happens and why it hurts, in a few plain sentences.
sources:
  - framework version, file and line that show it
examples:
  - fails: |
      model_name_or_path: Qwen/Qwen2.5-1.5B
      per_device_train_batch_size: 128
      max_length: 1024
      output_dir: out
    format: trainer
    file: sft.yaml
  - passes: |
      model_name_or_path: Qwen/Qwen2.5-1.5B
      per_device_train_batch_size: 8
      max_length: 1024
      output_dir: out
    format: trainer
    file: sft.yaml
"""


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "Writes the skeleton of a rule: FOLDER/FAMILY/ID.yaml.")
    parser.add_argument("name", metavar="FAMILY/SLUG", help="the rule's name, as memory/too-large")
    parser.add_argument("--id", metavar="ID", help="three letters and three digits (default: the next free one)")
    parser.add_argument("--rules", default="rules", metavar="FOLDER", help="where rules are kept (default: rules)")
    given = parser.parse_args(arguments)
    if not re.fullmatch(r"[a-z0-9]+/[a-z0-9]+(-[a-z0-9]+)*", given.name):
        raise UsageError(f"{given.name!r} is no rule name: family/slug in lower case")
    if given.id and not re.fullmatch(r"[A-Z]{3}[0-9]{3}", given.id):
        raise UsageError(f"{given.id!r} is no rule id: three capital letters and three digits")
    family, _, slug = given.name.partition("/")
    folder = os.path.join(given.rules, family)
    if any(rule.name == given.name for rule in shipped()):
        raise UsageError(f"there is a rule {given.name} already")
    number = given.id or _next_free_id(family, folder)
    path = os.path.join(folder, f"{number}.yaml")
    title = slug.replace("-", " ").capitalize()
    text = SKELETON.format(path=path, id=number, name=given.name, title=title if len(title) > 7 else f"{title} (title)")
    try:
        os.makedirs(folder, exist_ok=True)
        write_all([Write(path, None, text.encode("utf-8"))], [folder])
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    except WriteRefused as error:
        raise UsageError(str(error)) from None
    to_stdout(f"{path}\n")
    return 0


def _next_free_id(family: str, folder: str) -> str:
    """The family's next free id: the letters of its shipped rules (else of its name) and a number."""
    family_ids = [rule.id for rule in shipped() if rule.family == family]
    letters = family_ids[0][:3] if family_ids else re.sub(r"[^A-Z]", "X", family.upper())[:3].ljust(3, "X")
    taken = {rule.id for rule in shipped()}
    if os.path.isdir(folder):
        taken |= {name.partition(".")[0] for name in os.listdir(folder)}
    return next(name for name in (f"{letters}{number:03}" for number in range(1, 1000)) if name not in taken)
