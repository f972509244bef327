"""Training jobs of SageMaker: the command that runs on its machines, and these machines.

`HuggingFace(entry_point="run_clm.py", instance_type="ml.p4d.24xlarge", hyperparameters={...}, distribution={...})` and
`ModelTrainer(source_code=SourceCode(...), compute=Compute(...), distributed=Torchrun())` of sagemaker 2.254.1.
"""

from __future__ import annotations

from memlint.formats.fields import as_int
from memlint.hardware.catalog import instance
from memlint.repository.scripts.in_python.machines import placed_card
from memlint.repository.scripts.in_python.texts import ProgramFile, command_text, exported, further, word
from memlint.repository.scripts.part import Part
from memlint.repository.scripts.slurm import Job
from memlint.source.python.values import Items, Known, Made, Table, Value, is_on
from memlint.source.shell.text import Piece, Text

ESTIMATORS = ("HuggingFace", "PyTorch", "ModelTrainer")


def training_job(call: Made, file: ProgramFile) -> Part | None:
    """The command of a training job; None where the call makes none, or memlint does not know the command."""
    if not call.name.startswith("sagemaker."):
        return None
    is_new = call.last == "ModelTrainer"
    code = _made(call, "source_code") if is_new else call
    compute = _made(call, "compute") if is_new else call
    if code is None or compute is None:
        return None
    job = _job(compute, file)
    entry = code.arguments.get("entry_script" if is_new else "entry_point")
    launcher = _launcher(call, job, is_new)
    if isinstance(entry, Known) and isinstance(entry.value, str) and launcher is not None:
        starts = launcher if entry.value.endswith(".py") else "bash"
        command: Text = (Piece(f"{starts} "), *word(entry, file), Piece(" "), *_arguments(call, file))
    elif is_new and "command" in code.arguments:
        command = command_text(code.arguments["command"], file)
    else:
        return None
    folder = code.arguments.get("source_dir")
    is_local = isinstance(folder, Known) and folder.value and not str(folder.value).startswith("s3:")
    entered = (Piece("cd "), *word(folder, file), Piece("\n")) if is_local and folder is not None else ()
    variables = exported(call.arguments.get("environment"), file)
    return Part((*variables, *entered, *command, Piece("\n")), job)


def _made(call: Made, name: str) -> Made | None:
    found = call.arguments.get(name)
    return found if isinstance(found, Made) else None


def _job(compute: Made, file: ProgramFile) -> Job | None:
    """The machines of `instance_type` and `instance_count`; None where they are not known, or have no GPU."""
    kind = compute.arguments.get("instance_type")
    count = compute.arguments.get("instance_count")
    machine = instance(str(kind.value)) if isinstance(kind, Known) else None
    nodes = 1 if count is None else as_int(count.value) if isinstance(count, Known) else None
    if machine is None or nodes is None or nodes < 1:
        return None
    return Job(nodes, machine[1], nodes, 1, **placed_card(machine[0].name, kind, file))


def _launcher(call: Made, job: Job | None, is_new: bool) -> str | None:
    """What starts the entry point: torchrun with a process for each GPU, or Python, once on each machine. None for
    model parallelism of SageMaker's own (sagemaker 2.254.1 estimator.py, _distribution_configuration;
    sagemaker_training/torch_distributed.py; modules/train/container_drivers)."""
    nodes, gpus = (job.nodes, job.gpus) if job is not None else (1, 0)
    if is_new:
        distributed = call.arguments.get("distributed")
        if distributed is None:
            return "python"
        if not isinstance(distributed, Made) or distributed.last not in ("Torchrun", "MPI") or _is_smp(distributed):
            return None
        asked = distributed.arguments.get("process_count_per_node")
    else:
        distribution = call.arguments.get("distribution")
        if distribution is None or (isinstance(distribution, Known) and not distribution.value):
            return "python"
        if not _is_data_parallel(distribution):
            return None
        asked = _below(distribution, "mpi", "processes_per_host")
    processes = as_int(asked.value) if isinstance(asked, Known) else gpus
    return f"torchrun --nnodes {nodes} --nproc_per_node {processes or 'gpu'}"


def _is_smp(distributed: Made) -> bool:
    return "smp" in distributed.arguments


def _is_data_parallel(distribution: Value) -> bool:
    """Whether a `distribution` starts a process for each GPU, and no model parallelism of SageMaker's own."""
    if is_on(_below(distribution, "smdistributed", "modelparallel", "enabled")):
        return False
    ways = (("torch_distributed",), ("pytorchddp",), ("mpi",), ("smdistributed", "dataparallel"))
    return any(is_on(_below(distribution, *way, "enabled")) for way in ways)


def _below(value: Value | None, *path: str) -> Value | None:
    for name in path:
        value = value.values.get(name) if isinstance(value, Table) else None
    return value


def _arguments(call: Made, file: ProgramFile) -> Text:
    """The hyperparameters as options of the entry point (sagemaker_training 5.1 mapping.py, to_cmd_args)."""
    given = call.arguments.get("hyperparameters")
    if given is None:
        return ()
    if not isinstance(given, Table):
        return (*word(given, file), Piece(" "))
    found: list[Piece] = []
    for key, value in given.values.items():
        found += (Piece(f"--{key} " if len(str(key)) > 1 else f"-{key} "), *_value(value, file), Piece(" "))
    return (*found, *further("the program adds hyperparameters")) if given.is_open else tuple(found)


def _value(value: Value, file: ProgramFile) -> Text:
    if isinstance(value, Items) and not value.is_open and all(isinstance(one, Known) for one in value.values):
        listed = [one.value for one in value.values if isinstance(one, Known)]
        return word(Known(str(listed)), file)
    return word(value, file)
