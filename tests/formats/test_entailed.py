from __future__ import annotations

import pickle
from collections.abc import Iterator

from memlint.formats.entailed import EntailedByFile, put_entailed
from memlint.formats.fields import Fields
from memlint.run import Entailed

LORA = Entailed((("method.kind", "lora"),), (("method.dropout", 0.1),))
FULL = Entailed((("method.kind", "full"),), (("method.dropout", 0.0),))


def test_it_is_found_once_and_only_when_asked_for() -> None:
    asked = []

    def find() -> Iterator[Entailed | None]:
        asked.append(1)
        yield from (LORA, None)

    found = EntailedByFile(find)

    assert asked == []
    assert tuple(found) == tuple(found) == (LORA,)
    assert asked == [1]


def test_two_readings_of_a_file_are_equal() -> None:
    found = EntailedByFile(lambda: [LORA])

    assert found == EntailedByFile(lambda: [LORA]) == (LORA,)
    assert found != EntailedByFile(lambda: [FULL])
    assert found != [LORA]
    assert hash(found) == hash((LORA,))
    assert pickle.loads(pickle.dumps(found)) == (LORA,)


def test_later_ones_stand_behind_earlier_ones_and_see_the_fields_of_their_time() -> None:
    fields = Fields()
    fields.values["method.kind"] = "full"
    put_entailed(fields, lambda then: [FULL if then.get("method.kind") == "full" else None], "source")
    fields.values["method.kind"] = "lora"
    put_entailed(fields, lambda then: [LORA if then.get("method.kind") == "lora" else None], "source")

    assert fields.get("planning.entails") == (FULL, LORA)
