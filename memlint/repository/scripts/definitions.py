"""Reads a training program's definitions of its arguments: argparse's `add_argument`, dataclasses of HfArgumentParser.

The program and the modules of the repository that it imports are parsed, not imported. Besides names, types and
defaults this finds which argument a flag becomes, if the code shows it directly: with `SFTConfig(
per_device_train_batch_size=args.batch_size)`, `--batch_size` becomes that argument.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memlint._record import NamedTuple
from memlint.repository.python.unread_lengths import CLASSES_WITH_LENGTH, OWN_LENGTHS, is_read
from memlint.repository.scripts.completeness import have_one_definition, is_complete, nodes
from memlint.repository.scripts.evaluation import asks_whether_to_train, only_evaluates
from memlint.repository.scripts.handed_on import Assignment, assignments
from memlint.repository.scripts.model_changes import ModelChange, changes
from memlint.repository.scripts.reached import of_other_programs, unreached
from memlint.source.document import Problem
from memlint.source.python.text import SourceText, parse

MOST_FILES = 24  # modules that are read for one program
MOST_BYTES = 512 * 1024
Read = Callable[[str], "str | None"]
Parse = Callable[[str, str], "SourceText | Problem"]  # of a module's path and text

# transformers 5.23 and trl 1.16: the classes whose fields the Trainer's keys are.
KNOWN_CLASSES = frozenset(
    {
        *("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig"),
        *("RewardConfig", "RLOOConfig", "ORPOConfig", "CPOConfig", "PPOConfig", "ModelConfig", "ScriptArguments"),
        *("OnlineDPOConfig", "GKDConfig", "BCOConfig", "PRMConfig", "XPOConfig", "NashMDConfig", "AlignPropConfig"),
    }
)
# A module without any of these defines no arguments and loads no model.
_RELEVANT = re.compile(r"add_argument|@dataclass|TrainingArguments|(?:SFT|DPO|GRPO|KTO|Reward)Config\b|from_pretrained")
_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
_TELLING = ("per_device_train_batch_size", "gradient_accumulation_steps")  # in `dict(...)`: arguments of such a class
_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
_MODEL_CLASSES: tuple[str, ...] = (
    "ForCausalLM",
    "ForConditionalGeneration",
    "ForSequenceClassification",
    "AutoModel",
    "LanguageModel",
)
_MODEL_CLASSES += (
    "ForImageTextToText",
    "ForVision2Seq",
    "VLModel",
    "FastModel",
    "ForTokenClassification",
    "ForSeq2SeqLM",
)
# Arguments of other classes, by the name that the Trainer's table has for them.
_ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "LoraConfig": {"r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout"}
    | {"target_modules": "lora_target_modules"},
    "BitsAndBytesConfig": {"load_in_4bit": "load_in_4bit", "load_in_8bit": "load_in_8bit"},
}


class Definition(NamedTuple):
    """A flag of a program. `types`: names of JSON Schema types; empty if unknown.

    `default`: None if there is none or it is computed. `at`: file and line.
    """

    name: str
    types: frozenset[str] = frozenset()
    default: Any = None
    at: str = ""
    takes_many: bool = False
    is_switch: bool = False  # takes no value
    is_dashed: bool = False  # `--batch-size`
    needs_value: bool = False  # argparse exits where it stands without one


class TrainingProgram(NamedTuple):
    """The facts that are known about a program from its code.

    - `flags`: by name with underscores. `classes`: the classes it uses of the kind of TrainingArguments and SFTConfig.
    - `parses`: the parser it makes: "dataclasses", "argparse" or "". `is_complete`: every class that it parses was
      found, and unknown arguments are refused.
    - `meanings`: flag -> the argument of the Trainer that it becomes. `shared`: further argument -> the flag whose
      value it also takes (`per_device_eval_batch_size=args.batch_size`).
    - `constants`: arguments that the program sets whatever the flags are, each with file and line. `computed`: those
      that it computes, with expression, file and line. `assigned`: those that it sets after parsing its flags.
    - `unread`: its own flags for a length that no code of its reads, so that they bound nothing.
    - `changes`: what the program does to its model and no flag shows: a class of its own, a classifier's head, frozen
      parameters.
    """

    flags: Mapping[str, Definition] = {}
    classes: frozenset[str] = frozenset()
    parses: str = ""
    is_complete: bool = False
    meanings: Mapping[str, str] = {}
    shared: Mapping[str, str] = {}
    constants: Mapping[str, tuple[Any, str]] = {}
    computed: Mapping[str, tuple[ast.expr, str]] = {}
    assigned: Mapping[str, Assignment] = {}
    unread: frozenset[str] = frozenset()
    changes: tuple[ModelChange, ...] = ()
    swift_task: str = ""  # sft, pt or rlhf, if the program starts ms-swift's own program with the same arguments
    only_evaluates: bool = False  # it calls a trainer's `evaluate`, or writes text, but trains nothing
    asks_whether_to_train: bool = False  # it trains only where `do_train` is said
    subcommands: frozenset[str] = frozenset()  # of argparse
    writes_groups: bool = False  # it does GRPO with a subclass of transformers' Trainer, not with TRL's GRPOTrainer


class _Module(NamedTuple):
    path: str
    tree: ast.Module


def program(
    path: str, read: Read, exists: Callable[[str], bool], root: str, parse_module: Parse = parse
) -> TrainingProgram:
    """What the program at `path` says. `read`, `exists` and `parse_module` take absolute paths; `root` is the
    repository's."""
    texts: list[str] = []
    modules = tuple(_modules(path, read, exists, root, parse_module, texts))
    if not modules:
        return TrainingProgram()
    found = _read(modules)
    trees = [module.tree for module in modules]
    return TrainingProgram(
        flags=found.flags,
        classes=frozenset(found.known),
        parses=found.parses,
        is_complete=found.is_complete(trees) and is_complete(trees[0], read(path) or "", trees),
        meanings=found.meanings,
        shared=found.shared,
        constants=found.constants,
        computed=found.computed,
        assigned=found.assigned,
        unread=frozenset(_unread_lengths(found, texts)),
        changes=changes([(module.path, module.tree) for module in modules], found.classes, _MODEL_CLASSES, found.flags),
        swift_task=_swift_task(trees[0]),
        only_evaluates=only_evaluates(path, trees, found.flags, found.known),
        asks_whether_to_train=asks_whether_to_train(trees[0]),
        subcommands=frozenset(found.subcommands),
        writes_groups=any(_writes_groups(node) for node, _ in found.classes.values()),
    )


def _read(modules: Sequence[_Module]) -> _Definitions:
    """What the modules say. A package imports its trainers for all stages, and a program makes one: what it passes
    counts alone, where it is seen."""
    trees = [(module.path, module.tree) for module in modules]
    left_out = unreached(trees)
    found = _found(modules, left_out)
    return found if found.known or not left_out else _found(modules, of_other_programs(trees, left_out))


def _found(modules: Sequence[_Module], left_out: Mapping[str, Sequence[range]]) -> _Definitions:
    found = _Definitions(modules, left_out)
    for module in modules:
        found.read(module)
    return found


class _Definitions:
    """The flags, parsed classes and passed arguments of a program, collected module by module.

    `left_out`: lines of a module whose calls pass nothing, by its path.
    """

    def __init__(self, modules: Sequence[_Module], left_out: Mapping[str, Sequence[range]]) -> None:
        self._left_out = left_out
        self.classes = {
            node.name: (node, module)
            for module in modules
            for node in nodes(module.tree)
            if isinstance(node, ast.ClassDef)
        }
        self._own = {name for name in self.classes if not _derives(name, self.classes)}
        self.flags: dict[str, Definition] = {}
        self.known: set[str] = set()
        self.meanings: dict[str, str] = {}
        self.shared: dict[str, str] = {}
        self.constants: dict[str, tuple[Any, str]] = {}
        self.computed: dict[str, tuple[ast.expr, str]] = {}
        self.assigned: dict[str, Assignment] = {}
        self.subcommands: set[str] = set()
        self.parses = ""
        self._parsed_classes: list[str] = []
        self._is_missing = False  # a class that is parsed was not found

    def read(self, module: _Module) -> None:
        for key, assignment in assignments(module.tree, module.path):
            self.assigned.setdefault(key, assignment)
        for node in nodes(module.tree):
            if isinstance(node, ast.Call):
                self._read_call(node, module)

    def _read_call(self, node: ast.Call, module: _Module) -> None:
        name = _name(node.func)
        is_left_out = any(node.lineno in one for one in self._left_out.get(module.path, ()))
        if name == "add_argument":
            for one in _argument(node, module.path):
                self.flags.setdefault(one.name, one)
            self.parses = self.parses or "argparse"
        elif name == "add_parser" and node.args:
            self.subcommands |= {str(node.args[0].value)} if isinstance(node.args[0], ast.Constant) else set()
        elif name in _PARSERS and not is_left_out:
            self._read_parser(node, module)
        elif name == "Fire":
            for one in _parameters(node, module):
                self.flags.setdefault(one.name, one)
        if name not in self._own and not is_left_out:
            passed = _Passed(module.path, self.meanings, self.shared, self.constants, self.computed)
            _meaning(node, name, passed, self.known)

    def _read_parser(self, node: ast.Call, module: _Module) -> None:
        self.parses = "dataclasses"
        found, complete = _dataclasses(node, module, self.classes)
        self._parsed_classes += found
        self._is_missing = self._is_missing or not complete
        for class_name in found:
            self._is_missing = not _collect(class_name, self.classes, self.flags, self.known) or self._is_missing

    def is_complete(self, trees: Sequence[ast.Module]) -> bool:
        """Whether every class that is parsed was found, once."""
        return bool(self.parses) and not self._is_missing and have_one_definition(self._parsed_classes, trees)


# What starts ms-swift's training with the arguments of the command (ms-swift 4.6.0 cli/sft.py, pipelines/__init__.py).
_SWIFT_TASKS = {"sft_main": "sft", "pretrain_main": "pt", "rlhf_main": "rlhf"}


def _swift_task(tree: ast.Module) -> str:
    """The ms-swift task of a program that prepares something and then calls ms-swift's own main: `sft_main()`."""
    imported = {
        alias.name
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "swift"
        for alias in node.names
    }
    called = (_name(node.func) for node in nodes(tree) if isinstance(node, ast.Call) and not node.args)
    return next((_SWIFT_TASKS[name] for name in called if name in imported & _SWIFT_TASKS.keys()), "")


def _unread_lengths(found: _Definitions, texts: Sequence[str]) -> Iterator[str]:
    """The own lengths of a parser of dataclasses that stand in their class alone, in all `texts` of the program."""
    if found.parses == "dataclasses" and not found.known & CLASSES_WITH_LENGTH:
        yield from (name for name in OWN_LENGTHS if name in found.flags and not is_read(name, texts))


def _modules(
    path: str, read: Read, exists: Callable[[str], bool], root: str, parse_module: Parse, texts: list[str]
) -> Iterator[_Module]:
    """The program, and modules of the repository that it imports, nearest first. `texts` gets the text of each, also of
    modules that are passed over."""
    pending, seen = [path], {path}
    while pending and len(seen) <= MOST_FILES:
        current = pending.pop(0)
        text = read(current)
        texts.append(text or "")
        is_package = current.endswith("/__init__.py")  # `from .parser import parse_args` for others
        is_relevant = text is not None and (current == path or is_package or _RELEVANT.search(text))
        if text is None or not is_relevant or len(text) > MOST_BYTES:
            continue
        module = parse_module(current, text)
        if not isinstance(module, SourceText):
            continue
        yield _Module(current, module.tree)
        for name in _imported(module.tree, current, root):
            for found in (f"{name}.py", f"{name}/__init__.py"):
                if found not in seen and len(seen) < MOST_FILES and exists(found):
                    seen.add(found)
                    pending.append(found)


def _imported(tree: ast.Module, path: str, root: str) -> Iterator[str]:
    """The possible paths of imported modules: beside the program, below the root, and below the folders between."""
    folder = posixpath.dirname(path)
    folders = [folder]
    while folders[-1] != root and folders[-1].startswith(root):
        folders.append(posixpath.dirname(folders[-1]))
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").replace(".", "/")
            if node.level:
                base = folder
                for _ in range(node.level - 1):
                    base = posixpath.dirname(base)
                yield posixpath.join(base, module) if module else base
                yield from (posixpath.join(base, module, alias.name) for alias in node.names)
                continue
            names = [module, *(f"{module}/{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name.replace(".", "/") for alias in node.names]
        yield from (posixpath.join(base, name) for name in names for base in folders)


def _name(node: ast.AST) -> str:
    """`HfArgumentParser` of `transformers.HfArgumentParser`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.AST | None) -> Any:
    """The value of a literal number, text, boolean, or list of those; None for any other node."""
    if node is None:
        return None
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if isinstance(found, (list, tuple)):
        return list(found) if all(isinstance(one, (str, int, float)) for one in found) else None
    return found if isinstance(found, (str, int, float)) else None


def _argument(call: ast.Call, path: str) -> Iterator[Definition]:
    names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    options = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    action = _constant(options.get("action"))
    kind = options.get("type")
    word = _TYPES.get(_name(kind), "") if kind is not None else ""
    is_switch = action in ("store_true", "store_false", "store_const", "count")
    default = _constant(options.get("default"))
    types = frozenset(("boolean",)) if is_switch else frozenset((word,)) if word else frozenset()
    if kind is not None and not word and "bool" in _name(kind).lower():
        types = frozenset(("boolean",))
    if not types and kind is None and not is_switch:
        types = frozenset(("string",))
    long = [name for name in names if name.startswith("--")]
    many = "nargs" in options and _constant(options["nargs"]) != "?"
    needs_value = not {"nargs", "action"} & options.keys()
    for name in long:
        plain = name[2:].replace("-", "_")
        yield Definition(plain, types, default, f"{path}:{call.lineno}", many, is_switch, "-" in name[2:], needs_value)


def _parameters(call: ast.Call, module: _Module) -> Iterator[Definition]:
    """The flags of `Fire(train)`: the parameters of the function (fire 0.7 core.py, _MakeParseFn)."""
    name = _name(call.args[0]) if call.args else ""
    functions = (node for node in nodes(module.tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    for function in functions:
        for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
            yield Definition(one.arg, at=f"{module.path}:{one.lineno}")


def _dataclasses(call: ast.Call, module: _Module, classes: Mapping[str, Any]) -> tuple[list[str], bool]:
    """(classes that a parser is made with, whether all of them are known)."""
    argument = (
        call.args[0] if call.args else next((one.value for one in call.keywords if one.arg == "dataclass_types"), None)
    )
    if isinstance(argument, ast.Name) and argument.id not in classes:
        argument = _assigned(argument.id, module)
    items = argument.elts if isinstance(argument, (ast.Tuple, ast.List)) else [argument] if argument is not None else []
    names = [_where_defined(_name(one), module) for one in items]
    return [name for name in names if name], all(name in classes or name in KNOWN_CLASSES for name in names) and bool(
        names
    )


def _where_defined(name: str, module: _Module) -> str:
    """The original name of an imported class: `from own import DRTrainingArguments as TrainingArguments`."""
    imports = (node for node in nodes(module.tree) if isinstance(node, ast.ImportFrom))
    renamed = {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}
    return renamed.get(name, name)


def _assigned(name: str, module: _Module) -> ast.expr | None:
    """The expression assigned to a name of the module: `_TRAIN_ARGS = [ModelArguments, TrainingArguments]`."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            return node.value
    return None


def _collect(
    name: str, classes: Mapping[str, Any], flags: dict[str, Definition], known: set[str], depth: int = 0
) -> bool:
    """Adds the fields of a class and its bases to `flags`. Returns whether all bases are known."""
    if name in KNOWN_CLASSES and (name not in classes or depth > 0):
        known.add(name)
        if name not in classes:
            return True
    if name not in classes or depth > 5:
        return name in KNOWN_CLASSES or name == "object"
    node, module = classes[name]
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            one = _field(item, module.path)
            flags.setdefault(one.name, one)
    bases = [_where_defined(_name(base), module) for base in node.bases]
    known.update(base for base in bases if base in KNOWN_CLASSES)
    found = [_collect(base, classes, flags, known, depth + 1) for base in bases if base != name]
    return all(found)


def _derives(name: str, classes: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a class of the repository stands on one of KNOWN_CLASSES. One that has such a name and stands on nothing,
    or on another library's class, is none of them: `class RewardConfig(PretrainedConfig)`."""
    node, module = classes[name]
    bases = [(_name(base), _where_defined(_name(base), module)) for base in node.bases]
    if any(known in KNOWN_CLASSES and (here == name or here not in classes) for here, known in bases):
        return True
    inner = (here for here, _ in bases if here in classes and here != name)
    return depth < 5 and any(_derives(here, classes, depth + 1) for here in inner)


def _field(item: ast.AnnAssign, path: str) -> Definition:
    assert isinstance(item.target, ast.Name)
    annotation = ast.unparse(item.annotation)
    types = frozenset(kind for name, kind in _TYPES.items() if name in _words(annotation))
    value = item.value
    if isinstance(value, ast.Call) and _name(value.func) in ("field", "Field"):
        value = next((one.value for one in value.keywords if one.arg == "default"), None)
    many = "ist[" in annotation or "equence[" in annotation
    return Definition(item.target.id, types, _constant(value), f"{path}:{item.lineno}", many)


def _words(text: str) -> set[str]:
    return set("".join(letter if letter.isalnum() or letter == "_" else " " for letter in text).split())


class _Passed(NamedTuple):
    """Collects the arguments that are passed to classes of configurations."""

    path: str
    meanings: dict[str, str]
    shared: dict[str, str]
    constants: dict[str, tuple[Any, str]]
    computed: dict[str, tuple[ast.expr, str]]


def _meaning(call: ast.Call, name: str, passed: _Passed, known: set[str]) -> None:
    """Records the arguments of `TrainingArguments(...)`, `LoraConfig(...)` and `AutoModel.from_pretrained(...)`."""
    is_class = name in KNOWN_CLASSES and name not in ("ModelConfig", "ScriptArguments")
    if is_class:
        known.add(name)
    collects = name == "dict" and any(keyword.arg in _TELLING for keyword in call.keywords)
    if is_class or collects:
        for keyword in call.keywords:
            if keyword.arg:
                _passes(keyword.value, keyword.arg, passed)
    elif name in _ELSEWHERE:
        for keyword in call.keywords:
            key, flag = _ELSEWHERE[name].get(keyword.arg or ""), _flag(keyword.value)
            if key and flag:
                passed.meanings.setdefault(flag, key)
    elif name == "from_pretrained" and isinstance(call.func, ast.Attribute):
        owner = _name(call.func.value)
        named = ("pretrained_model_name_or_path", "model_name")
        first = call.args[0] if call.args else next((one.value for one in call.keywords if one.arg in named), None)
        flag = _flag(first) if first is not None else ""
        if flag and not _OF_ANOTHER.search(flag) and any(part in owner for part in _MODEL_CLASSES):
            passed.meanings.setdefault(flag, "model_name_or_path")


# What flags call a model beside the one that trains.
_OF_ANOTHER = re.compile(r"vision|embed|reward|(?:^|_)ref(?:erence)?_|teacher|draft|critic|judge|retriev|encoder")


def _flag(value: ast.AST) -> str:
    """`batch_size` of `args.batch_size`; "" for anything else."""
    is_plain = isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)
    owner = value.value.id if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) else ""
    return value.attr if is_plain and isinstance(value, ast.Attribute) and owner not in ("torch", "self") else ""


def _passes(value: ast.expr, argument: str, passed: _Passed) -> None:
    """Records one argument: `argument=args.flag` as the meaning of the flag, a literal as constant, else as
    computed."""
    flag, constant = _flag(value), _constant(value)
    at = f"{passed.path}:{getattr(value, 'lineno', 0)}"
    if argument in passed.constants or argument in passed.computed or argument in passed.meanings.values():
        return
    if flag and passed.meanings.setdefault(flag, argument) != argument:
        passed.shared.setdefault(argument, flag)
    elif flag:
        return
    elif constant is not None:
        passed.constants[argument] = (constant, at)
    elif not (isinstance(value, ast.Constant) and value.value is None):
        passed.computed[argument] = value, at


def _writes_groups(node: ast.ClassDef) -> bool:
    """Whether a class is a GRPO trainer such as R1-V's: it generates `num_generations` answers to each prompt
    itself."""
    if not any(_name(base) == "Trainer" for base in node.bases):
        return False
    return any(isinstance(one, ast.Attribute) and one.attr == "num_generations" for one in ast.walk(node))
