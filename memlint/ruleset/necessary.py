"""The necessary condition of a rule by which it is found in the index (`index`). Rules are compiled with it.

A necessary condition is a set of atoms, at least one of which holds wherever the rule is true. An atom is
(kind, name, value): ("key", section, key) for a key that a file has, ("said", "section/key", value) for its value,
("field" or "fact", name, value) for a value of the run, ("unlike", field, value) for any other value than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.expressions.build import build
from memlint.expressions.conjunction import is_figure
from memlint.expressions.facts import Facts
from memlint.ruleset.rule import Atom, Body
from memlint.run import Run, get

Form = list[Any]
Atoms = frozenset[Atom]

MAX_DEPTH = 8
# Operations that are true only where every operand is known, so where every key is there.
_STRICT = frozenset(
    ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "negative", "call", "in", "matches")
)
_PRESENT = frozenset(("has", "given", "enabled", "truthy"))
_OF_KEYS = frozenset(  # what a form that reads nothing but keys is made of
    (*_STRICT, *_PRESENT, "value", "raw", "default", "known", "truthy_keys", "list", "and", "or", "not", "if")
)


def needs(body: Body) -> tuple[Atom, ...] | None:
    """Atoms of which at least one holds wherever the rule is true; None if none are known."""
    if body.when is None:
        return None
    found = _needs(body.when.form, {name: one.form for name, one in body.variables.items()}, 0)
    return None if found is None else tuple(sorted(found, key=repr))


def _needs(form: Form, variables: Mapping[str, Form], depth: int) -> Atoms | None:
    """Atoms of which at least one holds wherever `form` is True; None if none are known."""
    word = form[0]
    if depth > MAX_DEPTH:
        return None
    if word == "variable":
        return _needs(variables[form[1]], variables, depth + 1) if form[1] in variables else None
    if word == "and":
        found = [atoms for part in form[1:] if (atoms := _needs(part, variables, depth + 1)) is not None]
        return min(found, key=_rank) if found else None
    if word == "or":
        parts = [_needs(part, variables, depth + 1) for part in form[1:]]
        return None if None in parts else frozenset(atom for part in parts if part for atom in part)
    if word == "not":
        return _atoms_of_values(form[1], (False,)) or (_needs_of_difference(form[1]) if form[1][0] == "==" else None)
    if word in ("field", "fact"):
        return _atoms_of_values(form, (True,))
    if word == "raw":
        return _key(form)
    return _needs_of_comparison(form, variables) or _needed_key(form, variables, depth) or _needed_keys(form, variables)


def _needs_of_comparison(form: Form, variables: Mapping[str, Form]) -> Atoms | None:
    """Atoms of `field == literal`, `field in [literals]`, `field != literal` and `field > literal`.

    The last two are both false if the field equals the literal.
    """
    if form[0] in ("!=", ">"):
        return _needs_of_difference(form)
    if form[0] == "==" and form[2][0] == "value" and not isinstance(form[2][1], list):
        return _atoms_of_values(_without_variable(form[1], variables), (form[2][1],))
    if form[0] == "in" and form[2][0] == "list" and all(item[0] == "value" for item in form[2][1:]):
        return _atoms_of_values(_without_variable(form[1], variables), tuple(item[1] for item in form[2][1:]))
    return None


def _without_variable(form: Form, variables: Mapping[str, Form]) -> Form:
    return variables.get(form[1], form) if form[0] == "variable" else form


def _atoms_of_values(form: Form, values: tuple[Any, ...]) -> Atoms | None:
    if form[0] == "raw" and len(form) == 3:
        return frozenset(("said", f"{form[1]}/{form[2]}", value) for value in values)
    if form[0] not in ("field", "fact"):
        return None
    return frozenset((form[0], form[1], value) for value in values)


def _needs_of_difference(form: Form) -> Atoms | None:
    """The atom of a comparison that is false if the field equals the literal."""
    field, literal = form[1], form[2]
    if field[0] != "field" or literal[0] != "value" or isinstance(literal[1], list):
        return None
    return frozenset([("unlike", field[1], literal[1])])


def _needed_key(form: Form, variables: Mapping[str, Form], depth: int) -> Atoms | None:
    """A key, anywhere in the operands, without which an operation cannot be true."""
    word = form[0]
    if depth > MAX_DEPTH:
        return None
    if word in _PRESENT:
        return _key(form[1]) if form[1][0] == "raw" else None
    if word == "raw":
        return _key(form)
    if word == "variable":
        return _needed_key(variables[form[1]], variables, depth + 1) if form[1] in variables else None
    if word not in _STRICT:
        return None
    operands = form[1:2] if word == "matches" else form[2:] if word == "call" else form[1:]
    found = [atoms for part in operands if (atoms := _needed_key_of_operand(part, variables, depth + 1)) is not None]
    return min(found, key=_rank) if found else None


def _needed_key_of_operand(form: Form, variables: Mapping[str, Form], depth: int) -> Atoms | None:
    """A key without which an operand is UNKNOWN. `has` and the like never are."""
    return None if form[0] in _PRESENT else _needed_key(form, variables, depth)


def _needed_keys(form: Form, variables: Mapping[str, Form]) -> Atoms | None:
    """The keys of a form that reads nothing else and is not true where none of them is there, as
    `default(config.video_min_pixels, 256) > default(config.video_max_pixels, 65536)`."""
    parts = tuple(_parts(form, variables, 0))
    keys = frozenset(("key", *part[1:3]) for part in parts if part[0] == "raw")
    if not all(part[0] in _OF_KEYS for part in parts) or any(len(key) < 3 for key in keys):
        return None
    nothing = Facts(_DEFAULTS)
    nothing.begin({name: build(one) for name, one in variables.items()})
    return None if build(form)(nothing) is True else keys


def _parts(form: Form, variables: Mapping[str, Form], depth: int) -> Iterator[Form]:
    """A form and all that it is made of; in place of a variable what it stands for."""
    if form[0] == "variable" and form[1] in variables and depth < MAX_DEPTH:
        yield from _parts(variables[form[1]], variables, depth + 1)
        return
    yield form
    for part in form[1:] if form[0] != "value" else ():
        if isinstance(part, list) and part:
            yield from _parts(part, variables, depth)


def _key(form: Form) -> Atoms | None:
    return frozenset([("key", form[1], form[2])]) if len(form) > 2 else None


# Keys that more than a fifth of public LLaMA-Factory, Trainer or Axolotl configs have.
_EVERYWHERE = frozenset(
    {
        *("model_name_or_path", "output_dir", "learning_rate", "gradient_accumulation_steps", "lr_scheduler_type"),
        *("per_device_train_batch_size", "logging_steps", "num_train_epochs", "save_steps", "report_to", "template"),
        *("warmup_ratio", "overwrite_output_dir", "dataloader_num_workers", "bf16", "trust_remote_code", "cutoff_len"),
        *("preprocessing_num_workers", "lora_rank", "finetuning_type", "do_train", "stage", "seed", "save_strategy"),
        *("dataset", "plot_loss", "gradient_checkpointing", "overwrite_cache", "save_total_limit", "max_samples"),
        *("ddp_timeout", "fp16", "optim", "max_seq_length", "lora_target", "remove_unused_columns", "max_grad_norm"),
        *("weight_decay", "per_device_eval_batch_size", "save_only_model", "train_file", "disable_tqdm", "lora_alpha"),
        *("lora_dropout", "warmup_steps", "eval_strategy", "evaluation_strategy", "val_size", "packing"),
        *("base_model", "datasets", "micro_batch_size", "optimizer", "val_set_size", "sample_packing", "adapter"),
        *("saves_per_epoch", "evals_per_epoch", "load_in_4bit", "load_in_8bit", "attn_implementation", "plugins"),
        *("lora_target_modules", "lora_target_linear", "flash_attention", "gradient_checkpointing_kwargs"),
    }
)
# Values that most runs have.
_COMMON = frozenset(
    {
        *(("field", "method.kind", "lora"), ("field", "checkpointing.mode", "full"), ("field", "method.stage", "sft")),
        *(("fact", "hardware.vendor", "nvidia"), ("fact", "model.stored_method", "none")),
        *(("fact", "model.dtype", "bfloat16"), ("fact", "model.experts", 0), ("field", "loss.kind", "plain")),
        *(("field", "precision.compute", "bfloat16"), ("field", "precision.trainable_dtype", "float32")),
    }
)
_DEFAULTS = Run("", "")


def _rank(atoms: Atoms) -> tuple[int, int, list[str]]:
    """A sort key: how often one of the atoms holds. The rarest condition excludes a rule most often."""
    return max(map(_commonness, atoms)), len(atoms), sorted(map(repr, atoms))


def _commonness(atom: Atom) -> int:
    kind, name, value = atom
    if kind == "key":
        return 0 if name != "config" else 4 if value in _EVERYWHERE else 1
    if kind == "said":
        return 2 if name.partition("/")[2] in _EVERYWHERE else 1
    if kind == "unlike":
        return 2 if get(_DEFAULTS, name) == value else 4
    if kind == "fact":
        if is_figure([kind, name]):
            return 5
        return 4 if atom in _COMMON or isinstance(value, bool) else 3 if name == "estimate.verdict" else 2
    if atom in _COMMON or get(_DEFAULTS, name) == value:
        return 4
    return 2 if isinstance(value, bool) else 1
