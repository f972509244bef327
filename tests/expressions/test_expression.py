"""The rule language: what expressions give, and what is refused with its place."""

from __future__ import annotations

from itertools import permutations

import pytest

from memlint.expressions.facts import StepLimit
from memlint.expressions.language import ExpressionError, compile_expression
from memlint.expressions.vocabulary import Vocabulary
from memlint.ruleset.rule import Condition
from memlint.run import UNKNOWN, Origin, Stack
from tests.ruleset.names import NAMES, RUN, facts, value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 == 1.0", True),
        ("7 // 2 * 2 + 7 % 2", 7),
        ("2.5 * 4", 10.0),
        ("6 / 3 == 2", True),
        ("4611686018427387904 * 4611686018427387904", 2**124),
        ("9007199254740993 == 9007199254740992.0", False),
        ("true == 1", None),
        ("1 < 2 < 3", True),
        ("1 < 3 < 2", False),
        ("not (1 > 2)", True),
        ("-3 + abs(-3)", 0),
        ("'a' if 1 < 2 else 'b'", "a"),
        ("batch.micro_batch_size * 2", 8),
        ("batch.micro_batch_size in [1, 4]", True),
        ("batch.micro_batch_size not in [1, 4]", False),
        ('version("transformers") >= "4.57"', True),
        ('version("transformers") >= "4.57.1"', False),
        ('version("transformers") < "5"', True),
        ('"4.6" < version("transformers")', True),
        ('version("llamafactory") >= "0.9"', UNKNOWN),
        ("gib(3 * GiB)", "3.0 GiB"),
        ("gib(3 * GiB, 0)", "3 GiB"),
        ("gib(3 * GiB, -1)", "3 GiB"),
        ("gib(3 * GiB, 9)", "3.000000 GiB"),
        ("2 <= 2 and 2 >= 2 and not (2 < 2) and not (2 > 2)", True),
        ("-(1 // 0)", UNKNOWN),
        ('version("transformers") == "4.57.0.0"', True),
        ('"4.57.0.0" == version("transformers")', True),
        ("join(" + str(list(range(20))) + ")", ", ".join(map(str, range(20)))),
        ("join(" + str(list(range(30))) + ")", ", ".join(map(str, range(20))) + ", ..."),
        (r"""matches("aab", r"a*b?a*")""", True),
        (r"""matches("ac", r"a(?:b|c)")""", True),
        (r"""matches("aaa", r"^a{3}$")""", True),
        (r"""matches("x", r"(?:a?b){2}")""", None),
        (r"""matches("x", r"(?:a+|b)")""", False),
        ("mib(MiB)", "1 MiB"),
        ("percent(1, 4)", "25 %"),
        ("percent(1, 0)", UNKNOWN),
        ("count(8030261248)", "8.03 billion"),
        ("count(152064)", "152,064"),
        ("min(3, 1, 2)", 1),
        ("max([3, 1, 2])", 3),
        ("min([])", UNKNOWN),
        ("len('abc')", 3),
        ("round(2.567, 1)", 2.6),
        ("int(2.9)", 2),
        ("number('1e-5')", 1e-5),
        ("number('12')", 12),
        ("number('auto')", UNKNOWN),
        ("startswith('abc', 'a') and endswith('abc', 'c') and contains('abc', 'b')", True),
        ("contains([1, 2], 2)", True),
        ("lower('AbC')", "abc"),
        ("split('a,b', ',')", ["a", "b"]),
        ("strip(' a ')", "a"),
        ("join(['a', 'b'])", "a, b"),
        ("basename('/models/Qwen/')", "Qwen"),
        (r"""matches("Qwen2-7B-bnb-4bit", r"-bnb-4bit$")""", True),
        ("any(x > 2 for x in [1, 2, 3])", True),
        ("all(x > 2 for x in [1, 2, 3])", False),
        ("1 / 0", UNKNOWN),
        ("1 // 0", UNKNOWN),
        ("is_number(1) and not is_number('1') and is_string('1') and is_bool(true)", True),
        ("is_list([]) and not is_map([])", True),
        ("estimate.peak.logits == 3 * GiB", True),
        ("estimate.phases.optimizer_step.optimizer_states == 8 * GiB", True),
        ("estimate.phases.backward.allocated_bytes == 10 * GiB", True),
        ("estimate.phases.evaluation.allocated_bytes", UNKNOWN),
        ("estimate.details.logits_bytes == 3 * GiB", True),
        ("estimate.details.nothing", UNKNOWN),
        ("estimate.reserved_bytes", UNKNOWN),
        ("hardware.bf16", UNKNOWN),
        ("model.hidden_size", UNKNOWN),
        ('format == "llamafactory"', True),
        ("KiB * KiB == MiB and MiB * KiB == GiB and KiB == 1024", True),
        ("true and not false and null is null", True),
        ("--3", 3),
        ("-(2 + 1)", -3),
        ("7 / 2", 3.5),
        ("'a' == 'a' and 'a' != 'b'", True),
        ("1 if 2 < 1 else 2", 2),
        ("len([])", 0),
        ("len(batch)", None),
        ("max([1, 2], 3)", UNKNOWN),
        ("max(1, [2])", UNKNOWN),
        ("max([[1]])", UNKNOWN),
        ("min(2)", 2),
        ("number('1E5')", 1e5),
        ("number('0.5')", 0.5),
        ("number('inf') > 10", True),
        ("number('-Inf') < 10", True),
        ("number('nan')", UNKNOWN),
        ("number('NaN')", UNKNOWN),
        ("number(true)", UNKNOWN),
        ("number(7)", 7),
        ("round(2.5)", 2),
        ("round(1234.5, -2)", 1200.0),
        ("round(1.9876543219876, 12) == round(1.9876543219876, 9)", True),
        ("round(1.9876543219876, 8) == round(1.9876543219876, 9)", False),
        ("round(12345678901, -9) == round(12345678901, -12)", True),
        ("round(12345678901, -9) == round(12345678901, -8)", False),
        ("int(-2.9)", -2),
        ("gib(1.26 * GiB)", "1.3 GiB"),
        ("gib(2048 * GiB)", "2,048.0 GiB"),
        ("mib(1.5 * MiB, 1)", "1.5 MiB"),
        ("mib(MiB, 9)", "1.000000 MiB"),
        ("mib(MiB, -9)", "1 MiB"),
        ("mib(GiB * 2)", "2,048 MiB"),
        ("percent(0.25)", "25 %"),
        ("percent(12)", "1,200 %"),
        ("count(999999)", "999,999"),
        ("count(1000000)", "1 million"),
        ("count(999499999)", "999 million"),
        ("count(999500000)", "1 billion"),
        ("count(-999999999999)", "-1 trillion"),
        ("count(1000000000)", "1 billion"),
        ("count(1000000000000)", "1 trillion"),
        ("count(-7300000)", "-7.3 million"),
        ("count(0.5)", "0.5"),
        ("count(2.0)", "2"),
        ("join(['a', 1, 0.5], '/')", "a/1/0.5"),
        ("join([[1]])", UNKNOWN),
        ("split('a', '')", UNKNOWN),
        ("split('', ',')", [""]),
        ("basename('C:\\\\models\\\\Qwen')", "Qwen"),
        ("basename('Qwen')", "Qwen"),
        ("is_list(method.targets)", True),
        ("is_bool(1) or is_number(true) or is_string(1) or is_map([]) or is_list('a')", False),
        ("any([1 > 2, batch.gradient_accumulation_steps > 1])", UNKNOWN),
        ("any([batch.gradient_accumulation_steps > 1, true])", True),
        ("all([batch.gradient_accumulation_steps > 1, true])", UNKNOWN),
        ("all([batch.gradient_accumulation_steps > 1, false])", False),
        ("any([]) or not all([])", False),
        ("any(batch.micro_batch_size == x for x in [1, 4])", True),
        ("[1, 2] == [1, 2] and [1] != [1, 2] and [1, 2] != [1, 3]", True),
        ("[1, true] == [1, 1]", False),
        ("[1, 2] == [1]", False),
        ("[1] == [1, 2]", False),
        ("[[1]] == [[1]]", UNKNOWN),
        ("estimate.peak.allocated_bytes == estimate.phases.backward.allocated_bytes", True),
        ("estimate.peak.gradients", 0),
        ("estimate.phases.optimizer_step.logits", 0),
        ("given(batch.micro_batch_size) and has(batch.micro_batch_size) and known(batch.micro_batch_size)", True),
        ("default(batch.micro_batch_size, 1)", 4),
        ("enabled(method.kind)", False),
    ],
)
def test_an_expression_has_its_value_or_is_refused(text: str, expected: object) -> None:
    if expected is None:
        with pytest.raises(ExpressionError):
            value(text)
    else:
        assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("config.nothing == 1", UNKNOWN),
        ("config.nothing == 1 and 1 > 2", False),
        ("1 > 2 and config.nothing == 1", False),
        ("config.nothing == 1 or 1 < 2", True),
        ("config.nothing == 1 or 1 > 2", UNKNOWN),
        ("not (config.nothing == 1)", UNKNOWN),
        ("config.nothing < 1 < 0", False),
        ("1 in [config.nothing, 1]", True),
        ("2 in [config.nothing, 1]", UNKNOWN),
        ("has(config.nothing)", False),
        ("has(config.null)", True),
        ("given(config.null)", False),
        ("given(config.one)", True),
        ("given(batch.gradient_accumulation_steps)", False),
        ("enabled(config.nothing)", False),
        ("enabled(config.yes)", True),
        ("enabled(config.one)", False),
        ("known(batch.gradient_accumulation_steps)", False),
        ("known(config.nothing)", False),
        ("known(config.one)", True),
        ("default(config.nothing, 7)", 7),
        ("default(config.null, 7)", 7),
        ("default(config.one, 7)", 1),
        ("config.null is null", True),
        ("config.one is not null", True),
        ("config.auto > 3", UNKNOWN),
        ("config.auto * 3", UNKNOWN),
        ("config.auto and true", UNKNOWN),
        ("config.yes == 1", False),
        ("config.nested.deep == 2", True),
        ("config.nested.absent.deeper", UNKNOWN),
        ("config.one.deeper", UNKNOWN),
        ('config["odd-key"] == 5', True),
        ("config.list == [1, 2]", True),
        ("config.nested == config.nested", UNKNOWN),
        ("1 if config.nothing > 1 else 2", UNKNOWN),
    ],
)
def test_unknown_and_absent_values(text: str, expected: object) -> None:
    config = {"one": 1, "null": None, "yes": True, "auto": "auto", "nested": {"deep": 2}, "list": [1, 2], "odd-key": 5}

    assert value(text, config) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("config.auto > 1", "config.one == 1", "any(one > 3 for one in config.list)", "config.one == 1"), False),
        (("config.auto > 1", "config.one == 1", "all(one < 3 for one in config.list)"), UNKNOWN),
        (("config.one == 1", "all(one < 3 for one in config.list)", "len(config.list) == 2"), True),
    ],
)
def test_the_order_of_conjuncts_changes_nothing(parts: tuple[str, ...], expected: object) -> None:
    config = {"one": 1, "auto": "auto", "list": [1, 2]}

    assert {value(" and ".join(order), config) for order in permutations(parts)} == {expected}


def test_a_loop_is_not_run_where_a_field_is_false() -> None:
    condition = compile_expression("all(one > 3 for one in config.list) and config.one == 2", NAMES)
    asked = facts({"one": 1, "list": [4] * 50})
    before = asked.steps

    assert condition.evaluate(asked) is False
    assert asked.steps == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("config.one == 1 and len(config.list) == 2", True),
        ("config.one == 1", True),
        ("config.auto > 1 and config.one == 1", False),
        ("config.auto > 1", False),
        ("not (config.auto > 1 and config.one == 1)", False),
        ("not (config.auto > 1 and config.one == 2)", True),
    ],
)
def test_a_condition_holds_or_not(text: str, expected: bool) -> None:
    holds = Condition(compile_expression(text, NAMES).form)

    assert holds(facts({"one": 1, "auto": "auto", "list": [1, 2]})) is expected


def test_a_condition_ends_at_the_first_part_that_is_not_known() -> None:
    condition = Condition(compile_expression("config.auto > 1 and all(one > 3 for one in config.list)", NAMES).form)
    asked = facts({"auto": "auto", "list": [4] * 50})
    before = asked.steps

    assert condition(asked) is False
    assert asked.steps == before


def test_the_newest_version_is_later_than_any_other() -> None:
    run = RUN._replace(stack=Stack(framework="llamafactory"))

    assert value('version("llamafactory") >= "99.0"', run=run) is True


def test_origin_tells_the_kind() -> None:
    run = RUN._replace(origins={"batch.micro_batch_size": Origin("file")})

    assert value('origin("batch.micro_batch_size") == "file"', run=run) is True
    assert value("origin(sequence.length)", run=run) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("batch.micro_batchsize > 1", "did you mean `batch.micro_batch_size`?", "batch.micro_batchsize"),
        ('1 < 2 and method.kind == "ful"', "did you mean 'full'?", '"ful"'),
        ('method.kind in ["lora", "loar"]', "did you mean 'lora'?", '"loar"'),
        ("startwith('a', 'b')", "did you mean `startswith`?", "startwith"),
        ('version("transformer") > "4"', "did you mean 'transformers'?", '"transformer"'),
        ('version("torch") > "four"', "a version is compared with a text", '"four"'),
        ("batch.micro_batch_size == 'a'", "is never equal", "'a'"),
        ("batch.micro_batch_size and true", "`and` needs bool", "batch.micro_batch_size"),
        ("'a' * 3", "`*` needs", "'a'"),
        ("'a' < 'b'", "`<` needs numbers", "'a'"),
        ("not 1", "`not` needs bool", "1"),
        ("2 ** 64", "only + - * / // % are", "2 ** 64"),
        ("len(1)", "len() needs", "1"),
        ("round(1, 2, 3)", "takes 1 to 2", "round(1, 2, 3)"),
        ("(lambda: 1)()", "called by its name", "lambda: 1"),
        ("[x for x in [1]]", "a comprehension is not part", "[x for x in [1]]"),
        ("{'a': 1}", "a mapping is not part", "{'a': 1}"),
        ("f'{1}'", "an f-string is not part", "f'{1}'"),
        ("(y := 3)", ":= is not part", "y := 3"),
        ("len(*[1])", "plain arguments", "len(*[1])"),
        ("max(1, key=2)", "plain arguments", "max(1, key=2)"),
        ("config.a.b()", "called by its name", "config.a.b"),
        ("().__class__", "only a dotted name", "().__class__"),
        ("''.join([])", "called by its name", "''.join"),
        ("batch.__class__", "unknown name `batch.__class__`", "batch.__class__"),
        ("__import__('os')", "unknown function", "__import__"),
        ("1 is 1", "compares with null only", "1"),
        ("1j", "only finite numbers", "1j"),
        ("b'a'", "only finite numbers", "b'a'"),
        ("1e999", "only finite numbers", "1e999"),
        ("...", "only finite numbers", "..."),
        ("1 # one", "a comment", "# one"),
        ("", "is empty", ""),
        ("   ", "is empty", ""),
        (r'matches("a", r"(a+)+")', "quantifier inside another", 'r"(a+)+"'),
        (r'matches("a", r"(?=a)")', "a lookaround", 'r"(?=a)"'),
        (r'matches("a", r"(a)\1")', "a backreference", r'r"(a)\1"'),
        (r'matches("a", r"a*a*a*")', "open quantifiers", 'r"a*a*a*"'),
        (r'matches("a", r"(?:x|a*)a*b*")', "open quantifiers", 'r"(?:x|a*)a*b*"'),
        (r'matches("a", r"a?a?a?a?a?a?a?a?a?")', "too many optional parts", 'r"a?a?a?a?a?a?a?a?a?"'),
        (r'matches("a", r"(?:a{2}){3}")', "quantifier inside another", 'r"(?:a{2}){3}"'),
        (r'matches("a", r"(?:a{1,2})?b*c*")', "open quantifiers", 'r"(?:a{1,2})?b*c*"'),
        (r'matches("a", r"(")', "not a regular expression", 'r"("'),
        ("matches('a', config.x)", "must be written out", "config.x"),
        ("any(any(y for y in x) for x in [[true]])", "inside another", "(y for y in x)"),
        ("any(x for x in [true] if x)", "without `if`", "(x for x in [true] if x)"),
        ("origin(estimate.verdict)", "takes a field of the run", "estimate.verdict"),
        ("has(1)", "only a dotted name", "1"),
        ("has(config.x, 1)", "has() takes 1 argument(s)", "has(config.x, 1)"),
        ("default(config.x)", "default() takes 2 argument(s)", "default(config.x)"),
        ("len()", "len() takes 1 argument(s)", "len()"),
        ("round()", "takes 1 to 2", "round()"),
        ("max()", "max() takes", "max()"),
        ("+1", "only `not` and `-`", "+1"),
        ("~1", "only `not` and `-`", "~1"),
        ("-true", "`-` needs float or int, this is bool", "true"),
        ("3 - true", "`-` needs float or int, this is bool", "true"),
        ("'a' if 1 else 'b'", "`if` needs bool", "1"),
        ("1 is true", "compares with null only", "true"),
        ("1 is not 2", "compares with null only", "2"),
        ("config.a[1]", "a key in brackets is a text", "1"),
        ("config[config.a]", "only a dotted name", "config[config.a]"),
        ("config.a[1:2]", "only a dotted name", "config.a[1:2]"),
        ("{1}", "a set is not part", "{1}"),
        ("1 in 2", "`in` needs a list, this is int", "2"),
        ("1 not in 'abc'", "`not in` needs a list, this is str", "'abc'"),
        ("'a' in [1, 2]", "str is never in a list of int", "'a'"),
        ("'zzz' == method.kind", "it is one of", "'zzz'"),
        ('"ful" == method.kind', "did you mean 'full'?", '"ful"'),
        ('version("numpy") > "1"', "one of transformers, torch", '"numpy"'),
        ("version(1) > '1'", "takes the name of a package", "1"),
        ('version("torch") > "2..1"', "a version is compared", '"2..1"'),
        ('version("torch") > ""', "a version is compared", '""'),
        ('version("torch") > 2', "a version is compared", "2"),
        ('2.1 > version("torch")', "a version is compared", "2.1"),
        ("origin('batch')", "takes a field of the run", "'batch'"),
        ("origin(batch.nothing)", "takes a field of the run", "batch.nothing"),
        ("matches(1, r'a')", "matches() needs str, this is int", "1"),
        ("matches('1', 1)", "must be written out", "1"),
        (r"matches('a', r'(?<=b)a')", "a lookaround", "r'(?<=b)a'"),
        (r"matches('a', r'(?!b)a')", "a lookaround", "r'(?!b)a'"),
        ("any(1)", "any() needs list, this is int", "1"),
        ("all(x for x in 1)", "`for` needs list, this is int", "1"),
        ("all(x for x in [1])", "the test of a loop needs bool, this is int", "x"),
        ("all(true for x in [1] for y in [2])", "without `if`", "(true for x in [1] for y in [2])"),
        ("all(true for x, y in [[1, 2]])", "a loop is written as", "(true for x, y in [[1, 2]])"),
        ("all(true for GiB in [1])", "`GiB` already stands for", "GiB"),
        ("all(true for path in ['a'])", "`path` already stands for", "path"),
        ("any(x == 1 for x in [1]) and x", "unknown name `x`", "x"),
        ("(x == 1 for x in [1])", "a loop outside any() and all()", "(x == 1 for x in [1])"),
        ("zzzzzz", "unknown name `zzzzzz`", "zzzzzz"),
        ("zzzzzz()", "unknown function `zzzzzz`", "zzzzzz"),
    ],
)
def test_a_refused_expression_marks_the_words_at_fault(text: str, message: str, marked: str) -> None:
    """The words that are at fault are marked: the only ones of the text, or the last."""
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, NAMES)

    assert message in caught.value.message
    assert text[caught.value.start : caught.value.end] == marked


@pytest.mark.parametrize(
    ("text", "message", "start"),
    [
        ("1 +", "not an expression", 0),
        ("(1", "not an expression", 0),
        ("1 2", "not an expression", 2),
        (" \n 1 2", "not an expression", 5),
        ('"\\d"', 'write a pattern as r"..."', 0),
    ],
)
def test_what_python_cannot_parse_is_refused_near_its_place(text: str, message: str, start: int) -> None:
    """Where exactly depends on the version of Python; one character is marked."""
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, NAMES)

    assert message in caught.value.message
    assert start - 2 <= caught.value.start == caught.value.end - 1 < len(text)


@pytest.mark.parametrize(
    ("text", "kinds", "choices"),
    [
        ("1 + 2", "int", ()),
        ("1 + 2.0", "float int", ()),
        ("1.0 * 2", "float int", ()),
        ("4 / 2", "float int", ()),
        ("4 // 2", "int", ()),
        ("-batch.micro_batch_size", "int", ()),
        ("-config.x", "float int", ()),
        ("-1.5", "float", ()),
        ("1 < 2", "bool", ()),
        ("not true", "bool", ()),
        ("true and false", "bool", ()),
        ("'a'", "str", ("a",)),
        ("'a' if true else 'b'", "str", ("a", "b")),
        ("'a' if true else 1", "int str", ("a",)),
        ("'a' if true else config.x", "bool float int list map null str version", ()),
        ("1 if true else null", "int null", ()),
        ("null", "null", ()),
        ("[1, 'a']", "list", ()),
        ("default(stack.framework, 'x')", "str", ()),
        ("default(config.x, 1)", "bool float int list map str version", ()),
        ("default(method.kind, 'all')", "str", ("all", "full")),
        ("version('torch')", "version", ()),
        ("len([1])", "int", ()),
        ("origin(batch.micro_batch_size)", "str", ("file", "unknown")),
        ("has(config.x)", "bool", ()),
        ("known(config.x)", "bool", ()),
        ("any([true])", "bool", ()),
        ("matches('a', r'a')", "bool", ()),
    ],
)
def test_a_type_says_no_more_than_can_come_out(text: str, kinds: str, choices: tuple[str, ...]) -> None:
    """Sharp types find more slips; that they are true is a law of tests/laws. `choices`: some of those known."""
    found = compile_expression(text, NAMES).type

    assert found.kinds == set(kinds.split())
    assert set(choices) <= set(found.choices) and bool(choices) == bool(found.choices)


def test_limits_on_length_and_parts() -> None:
    for text in ("1 + " * 300 + "1", "-" * 250 + "1", "(" * 400 + "1" + ")" * 400, "9" * 900):
        with pytest.raises(ExpressionError):
            compile_expression(text, NAMES)


def test_offsets_count_characters_and_not_bytes() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression('"ééé" == "ü" and sequence.lenght > 1', NAMES)

    assert (caught.value.start, caught.value.end) == (17, 32)


def test_an_evaluation_takes_a_bounded_number_of_steps() -> None:
    program = compile_expression("any(x > 3 and x > 4 for x in config.list)", NAMES)

    with pytest.raises(StepLimit):
        program.evaluate(facts({"list": [0] * 5_000}))


def test_keys_are_checked_where_a_schema_exists() -> None:
    names = Vocabulary(("llamafactory",))

    assert compile_expression("config.cutoff_len > 1", names).type.kinds == {"bool"}
    with pytest.raises(ExpressionError, match=r"did you mean `config.cutoff_len`"):
        compile_expression("config.cutof_len > 1", names)
    with pytest.raises(ExpressionError, match=r"did you mean `deepspeed.zero_optimization.reduce_bucket_size`"):
        compile_expression("deepspeed.zero_optimization.reduce_bucketsize > 1", names)
    with pytest.raises(ExpressionError, match="is not a value it can have"):
        compile_expression('config.finetuning_type == "loar"', names)


def test_infinite_and_huge_values_of_a_config_stay_harmless() -> None:
    config = {"inf": float("inf"), "nan": float("nan"), "big": 10**4000, "text": "x" * 100_000}

    assert value("round(config.inf)", config) is UNKNOWN
    assert value("config.nan + 1", config) is UNKNOWN
    assert value("config.big * config.big", config) is UNKNOWN
    assert value("gib(config.big)", config) is UNKNOWN
    assert value("config.big > config.inf", config) is False
    assert value('matches(config.text, r"x*y")', config) is UNKNOWN
    assert value("split(config.text, 'x')", config) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("truthy(config.on)", True),
        ("truthy(config.word)", True),
        ("truthy(config.off) or truthy(config.zero) or truthy(config.nothing) or truthy(config.empty)", False),
        ("truthy(config.absent)", False),
        ("truthy(config.later)", UNKNOWN),
        ("truthy(config.nested.on) and not truthy(config.nested.absent) and not truthy(config.on.below)", True),
        ("truthy_keys(config.off, config.word, config.nested.on, config.later)", ["word", "on"]),
        ("first(truthy_keys(config.off, config.word))", "word"),
        ("first([])", UNKNOWN),
        ("has(config.later)", True),
        ("given(config.later)", UNKNOWN),
        ("not given(config.later)", UNKNOWN),
        ("enabled(config.later) or known(config.later)", False),
        ("default(config.later, 1)", UNKNOWN),
        ("config.later == 'x'", UNKNOWN),
        (r"is_regex('a(b)*') and not is_regex('*a') and not is_regex('(')", True),
        ("is_regex(config.on)", UNKNOWN),
    ],
)
def test_what_a_file_says(text: str, expected: object) -> None:
    config = {
        "on": True,
        "word": "false",
        "off": False,
        "zero": 0,
        "nothing": None,
        "empty": [],
        "later": "${LATER}",
        "nested": {"on": 1},
    }
    assert value(text, config) == expected


def test_truthy_keys_takes_keys_of_a_file() -> None:
    with pytest.raises(ExpressionError, match="takes keys of a file"):
        compile_expression("truthy_keys(batch.micro_batch_size)", NAMES)
