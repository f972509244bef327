"""The rule language: what expressions give, and what is refused with its place."""

from __future__ import annotations

import pytest
from names import NAMES, RUN, facts, value

from memlint.checks.expression import ExpressionError, compile_expression
from memlint.checks.facts import StepLimit
from memlint.checks.vocabulary import Vocabulary
from memlint.run import UNKNOWN, Origin, Stack


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
    ],
)
def test_value(text: str, expected: object) -> None:
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


def test_the_newest_version_is_later_than_any_other() -> None:
    run = RUN._replace(stack=Stack(framework="llamafactory"))

    assert value('version("llamafactory") >= "99.0"', run=run) is True


def test_origin_tells_the_kind() -> None:
    run = RUN._replace(origins={"batch.micro_batch_size": Origin("file")})

    assert value('origin("batch.micro_batch_size") == "file"', run=run) is True
    assert value("origin(sequence.length)", run=run) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "message", "start"),
    [
        ("batch.micro_batchsize > 1", "did you mean `batch.micro_batch_size`?", 0),
        ('1 < 2 and method.kind == "ful"', "did you mean 'full'?", 25),
        ('method.kind in ["lora", "loar"]', "did you mean 'lora'?", 24),
        ("startwith('a', 'b')", "did you mean `startswith`?", 0),
        ('version("transformer") > "4"', "did you mean 'transformers'?", 8),
        ('version("torch") > "four"', "a version is compared with a text", 19),
        ("batch.micro_batch_size == 'a'", "is never equal", 26),
        ("batch.micro_batch_size and true", "`and` needs bool", 0),
        ("'a' * 3", "`*` needs", 0),
        ("'a' < 'b'", "`<` needs numbers", 0),
        ("not 1", "`not` needs bool", 4),
        ("2 ** 64", "only + - * / // % are", 0),
        ("len(1)", "len() needs", 4),
        ("round(1, 2, 3)", "takes 1 to 2", 0),
        ("(lambda: 1)()", "called by its name", 1),
        ("[x for x in [1]]", "a comprehension is not part", 0),
        ("{'a': 1}", "a mapping is not part", 0),
        ("f'{1}'", "an f-string is not part", 0),
        ("(y := 3)", ":= is not part", 1),
        ("len(*[1])", "plain arguments", 0),
        ("max(1, key=2)", "plain arguments", 0),
        ("config.a.b()", "called by its name", 0),
        ("().__class__", "only a dotted name", 0),
        ("''.join([])", "called by its name", 0),
        ("batch.__class__", "unknown name `batch.__class__`", 0),
        ("__import__('os')", "unknown function", 0),
        ("1 is 1", "compares with null only", 0),
        ("1j", "only finite numbers", 0),
        ("b'a'", "only finite numbers", 0),
        ("1e999", "only finite numbers", 0),
        ("...", "only finite numbers", 0),
        ("1 # one", "a comment", 2),
        ("1 +", "not an expression", 0),
        ("", "is empty", 0),
        ("   ", "is empty", 0),
        ('"\\d"', 'write a pattern as r"..."', 0),
        (r'matches("a", r"(a+)+")', "quantifier inside another", 13),
        (r'matches("a", r"(?=a)")', "a lookaround", 13),
        (r'matches("a", r"(a)\1")', "a backreference", 13),
        (r'matches("a", r"a*a*a*")', "open quantifiers", 13),
        (r'matches("a", r"(?:x|a*)a*b*")', "open quantifiers", 13),
        (r'matches("a", r"a?a?a?a?a?a?a?a?a?")', "too many optional parts", 13),
        (r'matches("a", r"(?:a{2}){3}")', "quantifier inside another", 13),
        (r'matches("a", r"(?:a{1,2})?b*c*")', "open quantifiers", 13),
        (r'matches("a", r"(")', "not a regular expression", 13),
        ("matches('a', config.x)", "must be written out", 13),
        ("any(any(y for y in x) for x in [[true]])", "inside another", 4),
        ("any(x for x in [true] if x)", "without `if`", 3),
        ("origin(estimate.verdict)", "takes a field of the run", 7),
        ("has(1)", "only a dotted name", 4),
    ],
)
def test_refused(text: str, message: str, start: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, NAMES)

    assert message in caught.value.message
    assert caught.value.start >= start


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
