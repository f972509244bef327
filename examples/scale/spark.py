"""Configs in Parquet, checked with PySpark: `spark-submit --py-files rows.py spark.py configs.parquet results/`.

Columns: path, text. `memlint` must be installed where the executors run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from rows import check_row

SCHEMA = "path string, verdict string, device_bytes long, worst string, findings string"


def rows(part: Iterable[Any]) -> Iterator[Row]:
    for row in part:
        yield Row(**check_row(row.path, row.text))


def check(source: str, target: str, cores: str = "*") -> None:
    spark = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false").getOrCreate()
    table = spark.read.parquet(source).select("path", "text").repartition(8)
    spark.createDataFrame(table.rdd.mapPartitions(rows), SCHEMA).write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    check(*sys.argv[1:])
