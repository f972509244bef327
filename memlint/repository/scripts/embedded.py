"""Extracts commands from other files: recipes of Makefiles and justfiles, `run: |` and `command: [...]` in YAML.

Each script is a sequence of pieces of the file's text in the order in which a shell reads them, so that every word
keeps its place in the file. The recipes of one target are one script, and so are the steps of one job.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import as_int
from memlint.hardware.catalog import instance
from memlint.repository.scripts.slurm import Job
from memlint.source.document import Document, Path
from memlint.source.shell.text import Piece, Text, Where, literal

MAKEFILES = ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", ".justfile")
MOST_CELLS = 1_000  # of a notebook
MOST_PARTS = 64
_VARIABLE = re.compile(r"(?m)^(?:export +)?([A-Za-z_]\w*)[ \t]*(\?=|:=|::=|=)[ \t]*([^\n#]*)")
# A line that ends with CRLF ends as one that ends with LF, after a backslash too (GNU make 4.3 src/read.c, readline).
_RECIPE = re.compile(r"(?m)^(?:\t| {2,4}(?=\S))((?:[^\n\\]|\\\r?\n|\\.)*)\n?")
_TARGET = re.compile(r"(?m)^[\w./%$(){}@-][^\n=]*:(?!=)[^\n]*\n")
# `train gpus="4" *args: build`: a recipe of a justfile, with parameters (just's manual, "Recipe Parameters").
_PARAMETER = r"""[+*$]?[A-Za-z_][\w-]*(?:=(?:"[^"\n]*"|'[^'\n]*'|[\w./-]+))?"""
_JUST_RECIPE = re.compile(rf"(?m)^@?[A-Za-z_][\w-]*((?:[ \t]+{_PARAMETER})*)[ \t]*:(?!=)[^\n]*\n")
_DEFAULT = re.compile(r"""[+*$]?([A-Za-z_]\w*)=("[^"\n]*"|'[^'\n]*'|[\w./-]+)""")
_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)|\{\{ *([A-Za-z_]\w*) *\}\}")
_GPU_KEYS = ("nvidia.com/gpu", "amd.com/gpu")


class Part(NamedTuple):
    """A script inside a file. `job`: the resources that the file requests for it; None if it requests no GPUs."""

    text: Text
    job: Job | None = None


def recipes(path: str, text: str) -> Iterator[Part]:
    """A script for each target of a Makefile or justfile, with the file's variables in front."""
    is_just = posixpath.basename(path).lower().endswith(("justfile", ".just"))
    variables = [part for match in _VARIABLE.finditer(text) for part in _assignment(path, match)]
    targets = list((_JUST_RECIPE if is_just else _TARGET).finditer(text))
    for index, target in enumerate(targets[:MOST_PARTS]):
        end = targets[index + 1].start() if index + 1 < len(targets) else len(text)
        lines = [part for match in _RECIPE.finditer(text, target.end(), end) for part in _line(path, text, match)]
        if lines:
            yield Part((*variables, *(_defaults(path, target) if is_just else ()), *lines))


def _defaults(path: str, recipe: re.Match[str]) -> Iterator[Piece]:
    """The parameters of a justfile's recipe that have a default, as shell code."""
    for match in _DEFAULT.finditer(recipe.string, *recipe.span(1)):
        yield Piece(f"{match[1]}=")
        yield Piece(match[2], Where(path, *match.span(2)))
        yield Piece("\n")


def _assignment(path: str, match: re.Match[str]) -> Text:
    """`NAME ?= value` as shell code, in which the environment may override the value."""
    value = match[3].rstrip()
    start = match.start(3)
    parts = _pieces(path, value, start)
    if match[2] == "?=":
        return (*literal(f'{match[1]}="${{{match[1]}:-'), *parts, *literal('}"\n'))
    quote = "" if value[:1] in "'\"" else '"'
    return (*literal(f"{match[1]}={quote}"), *parts, *literal(f"{quote}\n"))


def _line(path: str, text: str, match: re.Match[str]) -> Text:
    """One line of a recipe without its `@` and `-`; each runs in a shell of its own, so that `cd` ends with it."""
    line = match[1]
    start = match.start(1) + len(line) - len(line.lstrip("@-+"))
    return (*literal("("), *_pieces(path, line.lstrip("@-+"), start), *literal("\n)\n"))


def _pieces(path: str, text: str, start: int) -> Text:
    """The text with `$(NAME)` and `{{NAME}}` as `${NAME}`, `$$` as `$`, and no carriage return at the end of a line."""
    found: list[Piece] = []
    position = 0
    for match in re.finditer(rf"{_REFERENCE.pattern}|\$\$|\r(?=\n|\Z)", text):
        found.append(Piece(text[position : match.start()], Where(path, start + position, start + match.start())))
        name = match[1] or match[2]
        stands_for = f"${{{name}}}" if name else match[0][:-1]
        found.append(Piece(stands_for, Where(path, start + match.start(), start + match.end())))
        position = match.end()
    found.append(Piece(text[position:], Where(path, start + position, start + len(text))))
    return tuple(piece for piece in found if piece.text)


def commands_in_yaml(document: Document) -> Iterator[Part]:
    """The scripts in SkyPilot tasks, Kubernetes jobs, Docker Compose services and GitHub workflows: `run:`, and
    `command:` with `args:`."""
    yield from _in_yaml(document, document.value, (), _Around(), 0)


class _Around(NamedTuple):
    """The facts in the YAML above a script: environment variables, the card of the nodes that may run it, and how many
    nodes run it together."""

    variables: Mapping[str, Any] = {}
    card: str = ""
    card_at: int = 0
    nodes: int = 1


def _in_yaml(document: Document, value: Any, path: Path, around: _Around, depth: int) -> Iterator[Part]:
    if depth > 16:
        return
    if isinstance(value, list):
        for index, one in enumerate(value[:MOST_PARTS]):
            yield from _in_yaml(document, one, (*path, index), around, depth + 1)
        return
    if not isinstance(value, dict):
        return
    around = _with_nodes(around, value)
    own = dict(around.variables)
    for key in ("envs", "env", "environment"):
        own |= _environment(value.get(key))
    around = around._replace(variables=own, **_selected_card(document, value, path))
    if isinstance(value.get("run"), str):
        text = _exported(own) + _block(document, (*path, "run"), value["run"])
        yield Part(text, _sky_job(document, value, path))
    words = [word for key in ("entrypoint", "command", "args") for word in _words(document, path, key, value)]
    if words:
        text = _exported(own) + tuple(piece for word in words for piece in word)
        gpus = _kubernetes_gpus(value) or _compose_gpus(value)
        nodes = around.nodes
        yield Part(text, Job(nodes, gpus, nodes, 1, around.card, around.card_at) if gpus else None)
    for key, one in value.items():
        if isinstance(one, (dict, list)) and isinstance(key, str):
            yield from _in_yaml(document, one, (*path, key), around, depth + 1)


def _with_nodes(around: _Around, value: Mapping[str, Any]) -> _Around:
    """The nodes of Kubeflow's jobs, which tell `torchrun` its processes in variables: `numNodes` of a TrainJob's
    trainer, the replicas of a PyTorchJob (docs of Kubeflow Trainer 2.0, `PET_NNODES`, `PET_NPROC_PER_NODE`)."""
    replicas, trainer = value.get("pytorchReplicaSpecs"), value.get("trainer")
    if isinstance(replicas, dict):
        counts = [one.get("replicas", 1) for one in replicas.values() if isinstance(one, dict)]
        return _of_nodes(around, counts, value.get("nprocPerNode"))
    if isinstance(trainer, dict) and not {"command", "args"}.isdisjoint(trainer):
        return _of_nodes(around, [trainer.get("numNodes", 1)], trainer.get("numProcPerNode"))
    return around


def _of_nodes(around: _Around, counts: Sequence[Any], processes: Any) -> _Around:
    if not all(isinstance(one, int) and one > 0 for one in counts):
        return around
    nodes = sum(counts) or 1
    told = {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": "auto" if processes is None else processes}
    return around._replace(nodes=nodes, variables={**around.variables, **told})


def _environment(value: Any) -> dict[str, Any]:
    """`env:` as a mapping, or as Kubernetes' list of names and values."""
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if isinstance(key, str) and key.isidentifier()}
    items = value if isinstance(value, list) else []
    pairs = [one for one in items if isinstance(one, dict) and isinstance(one.get("name"), str)]
    return {one["name"]: one.get("value") for one in pairs if one["name"].isidentifier()}


def _exported(variables: Mapping[str, Any]) -> Text:
    given = {
        name: one for name, one in variables.items() if isinstance(one, (str, int, float)) and "${{" not in str(one)
    }
    return literal("".join(f"export {name}={shlex.quote(str(one))}\n" for name, one in given.items()))


def _block(document: Document, path: Path, value: str) -> Text:
    """The lines of a block scalar, each where the file has it."""
    place = document.places.get(path) if path in document.places else None
    if place is None:
        return literal(value)
    found: list[Piece] = []
    position = place.value.start
    for line in value.splitlines(keepends=True):
        body = line.strip()
        at = document.text.find(body, position, place.value.end) if body else -1
        indent = line[: len(line) - len(line.lstrip())]
        if at < 0:
            found += literal(line)
            continue
        found += [
            Piece(indent),
            Piece(body, Where(document.path, at, at + len(body))),
            Piece(line[len(indent) + len(body) :]),
        ]
        position = at + len(body)
    return tuple(piece for piece in found if piece.text)


def _words(document: Document, path: Path, key: str, value: Mapping[str, Any]) -> list[Text]:
    """`command: [torchrun, train.py, ...]`, each item as a quoted word with its place; a text of Docker Compose's
    (`command: torchrun train.py`) as it is."""
    items = value.get(key)
    if isinstance(items, str) and not {"image", "build"}.isdisjoint(value):
        return [(*_block(document, (*path, key), items), Piece(" "))]
    if not isinstance(items, list) or not all(isinstance(one, (str, int, float)) for one in items):
        return []
    found: list[Text] = []
    for index, item in enumerate(items):
        text = str(item)
        quoted = shlex.quote(text)
        at_item = (*path, key, index)
        place = document.places[at_item].value if at_item in document.places else None
        raw = document.text[place.start : place.end] if place is not None else ""
        inside = 1 if raw[1:-1] == text and raw[:1] in "'\"" else 0
        at = None
        if place is not None and raw[inside : len(raw) - inside] == text:
            at = Where(document.path, place.start + inside, place.end - inside)
        found.append((Piece(quoted, at if quoted == text else None), Piece(" ")))
    return found


# SkyPilot's names of cards that others sell in several sizes (`sky show-gpus`, sky/catalog of 0.10).
_SKY_CARDS = {"A100": "A100-40GB", "V100": "V100-16GB"}


def _sky_job(document: Document, value: Mapping[str, Any], path: Path) -> Job | None:
    """SkyPilot's `resources: {accelerators: A100:8}`, or `{instance_type: p5.48xlarge}`, and `num_nodes: 2`
    (docs/source/reference/yaml-spec). None if it requests no GPU, or does not say which."""
    resources = value.get("resources")
    resources = resources if isinstance(resources, dict) else {}
    key = "instance_type" if resources.get("accelerators") is None else "accelerators"
    asked = resources.get(key)
    if isinstance(asked, dict) and len(asked) == 1:
        ((name, count),) = asked.items()
        asked = f"{name}:{count}"
    found = re.fullmatch(r"([^:]*)(?::(\d{1,3}))?", asked) if isinstance(asked, str) else None
    machine = instance(found[1]) if found is not None and key == "instance_type" else None
    if found is None or (key == "instance_type" and machine is None):
        return None
    nodes = value.get("num_nodes")
    nodes = nodes if isinstance(nodes, int) and nodes > 0 else 1
    card = _named_at(document, (*path, "resources", key), _SKY_CARDS.get(found[1], found[1]))
    return Job(nodes, machine[1] if machine is not None else int(found[2] or 1), nodes, 1, **card)


# Labels of nodes that say their card: NVIDIA's GPU feature discovery, GKE, Karpenter, CoreWeave; or their machine.
_NODE_LABELS = (
    *("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name"),
    *("gpu.nvidia.com/class", "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
)
# What GKE calls the card of a2-highgpu machines; a2-ultragpu has nvidia-a100-80gb (GKE, "About GPUs").
_NODE_CARDS = {"nvidia-tesla-a100": "A100-40GB"}


def _selected_card(document: Document, value: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The card that a pod's `nodeSelector` requires, as fields of a `Job`."""
    labels = value.get("nodeSelector")
    if not isinstance(labels, dict):
        return {}
    for label in _NODE_LABELS:
        if isinstance(labels.get(label), str):
            name = _NODE_CARDS.get(labels[label], labels[label])
            return _named_at(document, (*path, "nodeSelector", label), name)
    return {}


def _named_at(document: Document, path: Path, name: Any) -> dict[str, Any]:
    if not isinstance(name, str) or path not in document.places:
        return {}
    return {"card": name, "card_at": document.places[path].value.start}


def _kubernetes_gpus(value: Mapping[str, Any]) -> int:
    """A container's `resources: {limits: {nvidia.com/gpu: 8}}`, a TrainJob's `resourcesPerNode`."""
    resources = value.get("resources", value.get("resourcesPerNode"))
    for kind in ("limits", "requests"):
        asked = resources.get(kind) if isinstance(resources, dict) else None
        for key in _GPU_KEYS:
            count = asked.get(key) if isinstance(asked, dict) else None
            if isinstance(count, (int, str)) and str(count).isdigit():
                return int(count)
    return 0


def _compose_gpus(value: Mapping[str, Any]) -> int:
    """A service's `deploy: {resources: {reservations: {devices: [{count: 2}]}}}` (docs.docker.com, "Run Docker Compose
    services with GPU access"); 0 for `count: all`."""
    found: Any = value.get("deploy")
    for key in ("resources", "reservations", "devices"):
        found = found.get(key) if isinstance(found, dict) else None
    devices = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    named = [one.get("device_ids") for one in devices]
    counts = [len(ids) if isinstance(ids, list) else as_int(one.get("count")) for ids, one in zip(named, devices)]
    return 0 if None in counts else sum(filter(None, counts))


def holds_recipes(path: str) -> bool:
    return posixpath.basename(path) in MAKEFILES or path.endswith((".mk", ".just"))


_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script (?:ba)?sh|shell)\b")
# IPython fills in the notebook's own variables, and attributes and items of them: `{config.MODEL}`, `{args['lr']}`.
_FILLED_IN = re.compile(r"\{([A-Za-z_]\w*(?:\.\w+|\[[\w']+\])*)\}")
_JSON_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)


def commands_in_notebook(document: Document) -> Iterator[Part]:
    """The commands of a notebook's cells as one script: `!torchrun ...`, `%cd folder`, and cells under `%%bash`."""
    value = document.value
    cells = value.get("cells") if isinstance(value, dict) else None
    found: list[Text] = []
    for number, cell in enumerate(cells[:MOST_CELLS] if isinstance(cells, list) else ()):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            found += _of_cell(document, number, cell.get("source"))
    if found:
        yield Part(tuple(piece for text in found for piece in text))


def _of_cell(document: Document, cell: int, source: object) -> Iterator[Text]:
    is_list = isinstance(source, list)
    lines = source if isinstance(source, list) else [source]
    is_shell = is_inside = False
    for number, line in enumerate(lines):
        pointer: Path = ("cells", cell, "source", number) if is_list else ("cells", cell, "source")
        if not isinstance(line, str) or pointer not in document.places:
            continue
        if number == 0 and _SHELL_CELL.match(line):
            is_shell = True
            if not is_list:
                yield _json_text(document, pointer, line.partition("\n")[0] + "\n", "")
            continue
        start = line.lstrip()
        if is_shell or is_inside:
            yield _json_text(document, pointer, "", "\n")
        elif start.startswith("!") and is_list:
            yield _json_text(document, pointer, line[: line.index("!") + 1], "\n")
        elif start.startswith("%cd ") and is_list:
            yield _json_text(document, pointer, line[: line.index("%") + 1], "\n")
        else:
            continue
        is_inside = not is_shell and line.rstrip("\n").endswith("\\")


def _json_text(document: Document, pointer: Path, without: str, end: str) -> Text:
    """A string of the JSON as text of a script, without the prefix `without`. Each part keeps its place in the file."""
    place = document.places[pointer].value
    raw = document.text[place.start + 1 : place.end - 1]
    position = len(json.dumps(without, ensure_ascii=False)) - 2
    found: list[Piece] = []
    while position < len(raw):
        escape = _JSON_ESCAPE.match(raw, position)
        if escape is not None:
            found.append(Piece(_unescaped(escape[0])))
            position = escape.end()
            continue
        stop = raw.find("\\", position)
        stop = len(raw) if stop < 0 else stop
        found += _filled_in(document.path, raw[position:stop], place.start + 1 + position)
        position = stop
    if end and not (found and found[-1].text.endswith("\n")):
        found.append(Piece(end))
    return tuple(piece for piece in found if piece.text)


def _unescaped(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return escape


def _filled_in(path: str, text: str, start: int) -> Iterator[Piece]:
    """The text with `{name}` as the shell's `${name}`."""
    position = 0
    for match in _FILLED_IN.finditer(text):
        if match.start() and text[match.start() - 1] == "$":
            continue
        yield Piece(text[position : match.start()], Where(path, start + position, start + match.start()))
        name = "_".join(re.findall(r"\w+", match[1]))
        yield Piece(f"${{{name}}}", Where(path, start + match.start(), start + match.end()))
        position = match.end()
    yield Piece(text[position:], Where(path, start + position, start + len(text)))
