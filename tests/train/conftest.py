"""Each training asks for full collections of garbage (memlint/train/meters.py), which would look at all that the tests
before it left: a second each at the end of the whole suite."""

import gc

import pytest


@pytest.fixture(autouse=True)
def _what_is_there_is_no_garbage() -> None:
    gc.freeze()
