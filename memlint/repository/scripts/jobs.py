"""Extracts the commands of jobs that YAML describes: SkyPilot and dstack tasks, Kubernetes jobs, Docker Compose
services, experiments of Determined, jobs of Azure ML, Vertex AI and MosaicML, GitHub workflows. The steps of one job
are one script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import as_int
from memlint.hardware.catalog import instance
from memlint.repository.scripts import dstack
from memlint.repository.scripts.part import MOST_PARTS, Part, block, exported, named_at
from memlint.repository.scripts.slurm import Job
from memlint.source.document import Document, Path
from memlint.source.shell.text import Piece, Text, Where

_GPU_KEYS = ("nvidia.com/gpu", "amd.com/gpu")


def commands_in_yaml(document: Document) -> Iterator[Part]:
    """The scripts in SkyPilot tasks, Kubernetes jobs, Docker Compose services and GitHub workflows: `run:`, and
    `command:` with `args:`."""
    if dstack.is_task(document.value):
        yield dstack.commands_of_task(document)
    else:
        yield from _in_yaml(document, document.value, (), _Around(), 0)


class _Around(NamedTuple):
    """The facts in the YAML above a script: environment variables, the card of the nodes that may run it, and how many
    nodes run it together."""

    variables: Mapping[str, Any] = {}
    card: str = ""
    card_at: int = 0
    nodes: int = 1
    gpus: int = 0


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
    around = _with_machine(around, document, value, path)
    if isinstance(value.get("run"), str):
        job = _sky_job(document, value, path)
        text = exported(own | _sky_variables(job)) + block(document, (*path, "run"), value["run"])
        yield Part(text, job)
    words = [word for key in ("entrypoint", "command", "args") for word in _words(document, path, key, value)]
    if words:
        text = exported(own) + tuple(piece for word in words for piece in word)
        gpus = _kubernetes_gpus(value) or _compose_gpus(value) or _gpus_of_platforms(value) or around.gpus
        nodes = around.nodes
        yield Part(text, Job(nodes, gpus, nodes, 1, around.card, around.card_at) if gpus else None)
    for key, one in value.items():
        if isinstance(one, (dict, list)) and isinstance(key, str):
            yield from _in_yaml(document, one, (*path, key), around, depth + 1)


def _gpus_of_platforms(value: Mapping[str, Any]) -> int:
    """Determined's `resources: {slots_per_trial: 8}` (0.38 docs, experiment configuration), MosaicML's `compute: {gpus:
    8}` (mcli 0.6 docs, run YAML), of one node where they are no more than eight."""
    for section, key in (("resources", "slots_per_trial"), ("compute", "gpus")):
        inner = value.get(section)
        count = as_int(inner.get(key)) if isinstance(inner, dict) else None
        if count is not None and 0 < count <= _MOST_OF_ONE_NODE:
            return count
    return 0


_MOST_OF_ONE_NODE = 8


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


# What stands beside a command that is one text: Docker Compose's services, RayJobs of KubeRay, experiments of
# Determined, jobs of Azure ML and of MosaicML.
_BESIDE_TEXT = frozenset({"image", "build", "rayClusterSpec", "searcher", "compute"})


def _words(document: Document, path: Path, key: str, value: Mapping[str, Any]) -> list[Text]:
    """`command: [torchrun, train.py, ...]`, each item as a quoted word with its place; a text (`command: torchrun
    train.py`) as it is, of files that have one."""
    items = value.get(key)
    if isinstance(items, str) and not _BESIDE_TEXT.isdisjoint(value):
        return [(*block(document, (*path, key), items), Piece(" "))]
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
    card = named_at(document, (*path, "resources", key), _SKY_CARDS.get(found[1], found[1]))
    return Job(nodes, machine[1] if machine is not None else int(found[2] or 1), nodes, 1, **card)


def _sky_variables(job: Job | None) -> dict[str, Any]:
    """What SkyPilot tells each node (docs/source/running-jobs/environment-variables.rst of 0.10)."""
    if job is None:
        return {}
    return {"SKYPILOT_NUM_NODES": job.nodes, "SKYPILOT_NUM_GPUS_PER_NODE": job.gpus}


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
            return named_at(document, (*path, "nodeSelector", label), name)
    return {}


# Vertex AI's names of cards (aiplatform v1, AcceleratorType), as far as a card's name is not in them.
_VERTEX_CARDS = {
    "NVIDIA_TESLA_A100": "A100-40GB",
    "NVIDIA_TESLA_V100": "V100-16GB",
    "NVIDIA_H100_MEGA_80GB": "H100-80GB",
    "NVIDIA_H200_141GB": "H200",
}


def _with_machine(around: _Around, document: Document, value: Mapping[str, Any], path: Path) -> _Around:
    """The machines that Vertex AI's pool (`machineSpec: {acceleratorType: NVIDIA_L4, acceleratorCount: 4}`,
    `replicaCount`) or MosaicML's `compute: {gpu_type: a100_80gb}` asks for."""
    compute, machine = value.get("compute"), value.get("machineSpec")
    if isinstance(compute, dict) and isinstance(compute.get("gpu_type"), str):
        return around._replace(**named_at(document, (*path, "compute", "gpu_type"), compute["gpu_type"]))
    count = as_int(machine.get("acceleratorCount")) if isinstance(machine, dict) else None
    if not isinstance(machine, dict) or count is None or count <= 0:
        return around
    kind = str(machine.get("acceleratorType"))
    name = _VERTEX_CARDS.get(kind, kind.removeprefix("NVIDIA_").removeprefix("TESLA_"))
    card = named_at(document, (*path, "machineSpec", "acceleratorType"), name)
    return around._replace(gpus=count, nodes=as_int(value.get("replicaCount")) or 1, **card)


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
