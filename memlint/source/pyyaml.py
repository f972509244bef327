"""PyYAML's reader, without what PyYAML compiles at its import. Most files are read without it (`flat`)."""

from __future__ import annotations

from memlint._pattern import without_compiling

without_compiling("yaml")  # 5 ms of patterns for its own parser; libyaml's is the one in use

from memlint.source.yaml import scalar_spans, trees  # noqa: E402

__all__ = ["scalar_spans", "trees"]
