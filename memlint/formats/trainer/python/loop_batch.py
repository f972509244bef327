"""The micro batch of a training loop of a script's own, and how many of them it adds up before a step."""

from __future__ import annotations

import re

from memlint.formats.trainer.python.libraries import CONFIG_READ, NUMBER_OF_GPUS
from memlint.formats.trainer.python.model import Keys
from memlint.source.python.parameters import BOUND
from memlint.source.python.rounds import EVERY
from memlint.source.python.standard_library import OPTIONS
from memlint.source.python.values import (
    Instance,
    Items,
    Known,
    Made,
    Table,
    Undetermined,
    Value,
    either,
    is_on,
    source_of,
)

BATCH, _ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
_ACCUMULATION_NAMES = (
    *("gradient_accumulation_steps", "grad_accum_steps", "accumulation_steps", "grad_accum"),
    *("gradient_accumulation", "grad_accumulation_steps", "accum_steps", "grad_acc_steps"),
)
_BATCH_NAMES = (
    *("per_device_train_batch_size", "micro_batch_size", "train_micro_batch_size", "per_gpu_train_batch_size"),
    *("per_device_batch_size", "device_batch_size", "batch_size_per_device", "batch_size_per_gpu"),
)
# Parameters of a loader of the script's own that gives whole batches of whole sequences: `DataLoaderLite(B, T)`.
_BATCHES = ("B", "batch_size", "micro_batch_size", "local_batch_size", "device_batch_size")
_SEQUENCES = (
    *("T", "block_size", "seq_len", "seq_length", "sequence_length", "context_length", "max_seq_len"),
    *("max_length", "max_seq_length", "context_len", "ctx_len"),
)
# Parameters of what writes texts, and values of what loads other data than those to train on.
_OF_WRITING = frozenset({"temperature", "top_k", "top_p", "prompt", "prompts", "max_new_tokens", "num_samples"})
_OTHER_DATA = re.compile(r"val|test|eval", re.IGNORECASE)
_DRAWS = ("torch.randint", "numpy.random.randint", "random.randint")


def batch_keys(seen: list[Made], engines: list[Made], loader: Made | None, text: str) -> Keys:
    """The batch of `loader`, of the one that shuffles, else of the first; a parsed option of that name where there is
    none. `text`: the script's code."""
    found = _of_loaders(seen, loader)
    if isinstance(found, Undetermined) and found.reason == NUMBER_OF_GPUS:
        found = _named(seen, _BATCH_NAMES) or found  # `per_gpu_train_batch_size * n_gpu`, which DataParallel divides
    parts = _parts(seen, found, text)
    if parts is not None and _rounds(seen) is None:
        return _in_parts(parts, found)
    of_engine = said_by_engine(engines, "train_micro_batch_size_per_gpu")
    if isinstance(of_engine, Known) and not isinstance(found, Known):
        found = of_engine  # `batch_size=engine.train_micro_batch_size_per_gpu()`
    found = found or of_engine or _drawn(seen) or of_own_loader(seen)[0]
    found = found or _named(seen, _BATCH_NAMES) or _passed(seen)
    found = found or Undetermined("the loop has no loader that memlint sees")
    accumulation = next(
        (
            made.arguments[_ACCUMULATION]
            for made in seen
            if made.last == "Accelerator" and _ACCUMULATION in made.arguments
        ),
        None,
    )
    accumulation = accumulation or said_by_engine(engines, "gradient_accumulation_steps") or _rounds(seen)
    if accumulation is None or isinstance(accumulation, Undetermined):
        accumulation = _named(seen, _ACCUMULATION_NAMES) or accumulation
    return {BATCH: _whole(found), _ACCUMULATION: accumulation or Known(1)}


_SPLITS = re.compile(r"micro_?batch", re.IGNORECASE)


def _parts(seen: list[Made], whole: Value | None, text: str) -> Value | None:
    """2 where the loop takes its batch apart: `batch["input_ids"].split(2, dim=0)`, or `torch.split(tokens, 2)` of a
    loader's batch that such parts divide."""
    for made in seen:
        dimension = made.arguments.get("dim")
        is_of_batch = dimension is None or (isinstance(dimension, Known) and dimension.value == 0)
        is_of_torch = made.name == "torch.split"
        size = made.positional[1:2] if is_of_torch else made.positional[:1]
        is_named = made.last == "split" and dimension is not None and _SPLITS.search(text) is not None
        if is_of_batch and (is_named or (is_of_torch and _divides(size, whole))):
            return next(iter(size), None)
    return None


def _divides(size: tuple[Value, ...], whole: Value | None) -> bool:
    """Whether parts of this size are a fraction of a batch."""
    numbers = [one.value for one in (*size, whole) if isinstance(one, Known) and isinstance(one.value, int)]
    return len(numbers) == 2 and 0 < numbers[0] < numbers[1] and numbers[1] % numbers[0] == 0


def _in_parts(size: Value, whole: Value | None) -> Keys:
    """The keys of a loop that runs a loader's batch in parts of `size`, and steps behind the last."""
    sizes = (size.value if isinstance(size, Known) else None, whole.value if isinstance(whole, Known) else None)
    part, batch = (one if isinstance(one, int) and one > 0 else None for one in sizes)
    if part is None or batch is None:
        return {BATCH: _whole(size), _ACCUMULATION: Undetermined("how many parts the batch has", source_of(size))}
    micro = Known(min(part, batch), source_of(size))
    return {BATCH: micro, _ACCUMULATION: Known(max(1, -(-batch // part)), source_of(size))}


def _of_loaders(seen: list[Made], loader: Made | None) -> Value | None:
    loaders = (
        [loader]
        if loader is not None
        else [made for made in seen if made.last == "DataLoader" and "sampler" not in made.name.lower()]
    )
    shuffled = [made for made in loaders if is_on(made.arguments.get("shuffle")) or "sampler" in made.arguments]
    if not loaders:
        return None
    first = (shuffled or loaders)[0]
    given = first.positional[1] if len(first.positional) > 1 else first.arguments.get("batch_size")
    return _of_whole_batches(first, given) or (
        Undetermined("the loader gets no batch size") if first.is_open or first.arguments else Known(1)
    )


def _of_whole_batches(loader: Made, given: Value | None) -> Value | None:
    """`batch_size=None` leaves batches to the data set, whose objects have the size under that name (torch 2.13
    utils/data/dataloader.py: "automatic batching is disabled")."""
    (dataset,) = loader.positional[:1] or (loader.arguments.get("dataset"),)
    if not (isinstance(given, Known) and given.value is None and isinstance(dataset, Instance)):
        return given
    return dataset.attributes.get("batch_size") or Undetermined("the data set makes the batches", loader.source)


def _drawn(seen: list[Made]) -> Value | None:
    """12 where as many places of one long text are drawn: `torch.randint(len(data) - block_size, (12,))`. Where one is
    drawn, rounds may make up the batch."""
    for made in seen:
        size = made.arguments.get("size") or next(iter(made.positional[1:][-1:]), None)
        if made.name in _DRAWS and isinstance(size, Items) and len(size.values) == 1 and not size.is_open:
            (number,) = size.values
            return None if isinstance(number, Known) and number.value == 1 else number
    return None


def of_own_loader(seen: list[Made]) -> tuple[Value | None, Value | None]:
    """The batch and the length that a function or class of the script is given together, which so makes batches of
    whole sequences; the first with both known."""
    for made in seen:
        if made.name != BOUND or _OF_WRITING & made.arguments.keys():
            continue
        batch, length = (_one_of(made, names) for names in (_BATCHES, _SEQUENCES))
        texts = (one.value for one in made.arguments.values() if isinstance(one, Known) and isinstance(one.value, str))
        if _is_size(batch) and _is_size(length) and not any(map(_OTHER_DATA.search, texts)):
            return batch, length
    return None, None


def _one_of(made: Made, names: tuple[str, ...]) -> Value | None:
    return next((made.arguments[name] for name in names if name in made.arguments), None)


def _is_size(value: Value | None) -> bool:
    return isinstance(value, Known) and isinstance(value.value, int) and not isinstance(value.value, bool)


_STEPS = re.compile(r"(?:^| )(?!\w*(?:sched|lr|prof))\w*\.step(?= |$)")


def _rounds(seen: list[Made]) -> Value | None:
    """4 where the loop steps in every fourth round alone: `if (step + 1) % 4 == 0: optimizer.step()`."""
    for made in seen:
        calls = made.arguments.get("calls") if made.name == EVERY else None
        if isinstance(calls, Known) and _STEPS.search(str(calls.value)) and ".backward" not in str(calls.value):
            rounds = made.arguments["rounds"]
            is_whole = isinstance(rounds, Known) and isinstance(rounds.value, int) and rounds.value > 0
            return rounds if is_whole else Undetermined("how many rounds are between two steps", source_of(rounds))
    return None


def _passed(seen: list[Made]) -> Value | None:
    """The `batch_size` that a loader of the script's own is given, else that of the command line."""
    calls = [made.arguments["batch_size"] for made in seen if made.name != OPTIONS and "batch_size" in made.arguments]
    numbers = [one for one in calls if isinstance(one, Known) and isinstance(one.value, int)]
    return either(list(numbers), "loaders of several sizes") if numbers else _named(seen, ("batch_size",))


def _whole(value: Value) -> Value:
    """A batch size; text or a fraction is none."""
    if isinstance(value, Known) and not (isinstance(value.value, int) and not isinstance(value.value, bool)):
        return Undetermined("the batch size is no number", value.source)
    return value if isinstance(value, (Known, Undetermined)) else Undetermined("the script computes it")


def _named(seen: list[Made], names: tuple[str, ...]) -> Value | None:
    """The value that the command line gives under one of these names."""
    for made in seen:
        for name in names if made.name == OPTIONS else ():
            value = made.arguments.get(name)
            if isinstance(value, Undetermined) or (isinstance(value, Known) and isinstance(value.value, int)):
                return value
    return None


def engine_config(engine: Made) -> Value | None:
    """The configuration that `deepspeed.initialize` gets."""
    return engine.arguments.get("config") or engine.arguments.get("config_params")


def said_by_engine(engines: list[Made], *names: str) -> Value | None:
    """What DeepSpeed's configuration in the script says at a path; None where it says nothing."""
    for made in engines:
        value = made.arguments.get(CONFIG_READ) or engine_config(made)
        for name in names:
            value = value.values.get(name) if isinstance(value, Table) else None
        if value is not None:
            # what a file says stays there: the arguments are the script's
            return Known(value.value) if isinstance(value, Known) and value.source.how == "config" else value
    return None
