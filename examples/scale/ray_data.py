"""Configs in Parquet, checked with Ray Data: `python examples/scale/ray_data.py configs.parquet results/`.

Columns: path, text. On a cluster nothing changes but the address of `ray.init`.
"""

from __future__ import annotations

import sys

import ray
import ray.data
from rows import check_batch


def check(source: str, target: str, cpus: int | None = None) -> None:
    ray.init(num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    table = ray.data.read_parquet(source, columns=["path", "text"], override_num_blocks=max(8, 4 * (cpus or 2)))
    table.map_batches(check_batch, batch_size=256).write_parquet(target)
    ray.shutdown()


if __name__ == "__main__":
    check(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
