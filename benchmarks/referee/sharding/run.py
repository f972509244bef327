"""Runs the settings of `settings.json` on real engines and appends what they allocate to `results.jsonl`.

    python benchmarks/referee/sharding/run.py [--only NAME_PREFIX] [--again] [--grid NAME]

Needs torch, transformers, peft, deepspeed, accelerate. Every setting runs in freshly forked processes over
gloo on the CPU: real tensors, a tiny model, a few seconds each. A setting that already has a result is
left out unless `--again`. `--grid experts`: settings of a model with stacked experts, from `experts.json` into
`experts.jsonl`; `--grid sequences`: ranks that share each sequence.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(HERE))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--grid", choices=("settings", "experts", "sequences"), default="settings")
    options = parser.parse_args()
    grid = json.loads((HERE / f"{options.grid}.json").read_text())
    settings = [setting for setting in grid if setting["name"].startswith(options.only)]
    results = HERE / ("results.jsonl" if options.grid == "settings" else f"{options.grid}.jsonl")
    done = {} if options.again else _done(results)
    preload()
    for setting in settings:
        if done.get(setting["name"]) == setting:
            continue
        started = time.perf_counter()
        row = {"setting": setting, "versions": versions(), **run(setting)}
        _replace(results, row)
        print(
            f"{setting['name']:50s} {time.perf_counter() - started:5.1f} s  {row.get('error', '')[-200:]}", flush=True
        )
    return 0


def preload() -> None:
    """Import what the forked processes need once."""
    import deepspeed  # noqa: F401
    import peft  # noqa: F401
    import torch
    import torch.distributed.fsdp
    import transformers.models.llama.modeling_llama  # noqa: F401

    torch.set_num_threads(1)


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "deepspeed", "transformers", "peft")}


Measure = Callable[[dict[str, Any], int, int], dict[str, int]]


def measured(setting: dict[str, Any], rank: int, world: int) -> dict[str, int]:
    """Bytes by phase of one rank's training, or of the model alone."""
    from engines import train, watch

    return watch(setting) if setting["engine"] == "none" else train(setting, rank, world)


def run(setting: dict[str, Any], measure: Measure = measured) -> dict[str, Any]:
    """`ranks`: a table of phase -> bytes for each rank; `error` where one of them failed."""
    import torch.multiprocessing as processes

    world = setting.get("world", 2)
    with tempfile.TemporaryDirectory() as folder:
        context = processes.get_context("fork")
        port = _port()
        workers = [
            context.Process(target=_work, args=(setting, rank, world, port, folder, measure)) for rank in range(world)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(setting.get("timeout", 100))
        for worker in workers:
            if worker.is_alive():
                worker.kill()
        free_shared_buffers(port)
        outcomes = [_read(Path(folder, f"{rank}.json")) for rank in range(world)]
    errors = [outcome["error"] for outcome in outcomes if "error" in outcome]
    return {"error": errors[0]} if errors else {"ranks": outcomes}


def _work(setting: dict[str, Any], rank: int, world: int, port: int, folder: str, measure: Measure) -> None:
    import traceback

    import torch.distributed

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    os.environ.update(LOCAL_RANK=str(rank), LOCAL_SIZE=str(setting.get("gpus_per_node", world)))
    log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    target = Path(folder, f"{rank}.json")
    try:
        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
        figures = measure(setting, rank, world)
        target.write_text(json.dumps(figures))
    except BaseException:
        target.write_text(json.dumps({"error": traceback.format_exc()}))
    os._exit(0)


def free_shared_buffers(port: int | str) -> None:
    """Deletes the 66 MiB of shared memory that DeepSpeed leaves behind for each rank (csrc/cpu/comm/shm.cpp)."""
    for left in Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_*_{port}_*"):
        left.unlink(missing_ok=True)


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {"error": "no result: killed or out of time"}


def _done(results: Path) -> dict[str, Any]:
    if not results.exists():
        return {}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {row["setting"]["name"]: row["setting"] for row in rows if "error" not in row}


def _replace(results: Path, row: dict[str, Any]) -> None:
    """Write `row` in place of an older one of the same name; failures are not kept."""
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    rows = [old for old in rows if old["setting"]["name"] != row["setting"]["name"]]
    if "error" not in row:
        rows.append(row)
    results.write_text("".join(json.dumps(r, sort_keys=True) + "\n" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
