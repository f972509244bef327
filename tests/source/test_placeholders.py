"""Templates: files that something else fills in."""

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from memlint.source import load
from memlint.source.placeholders import is_placeholder, template_placeholders

CONFIG = """model_name_or_path: Qwen/Qwen2.5-1.5B
stage: sft
finetuning_type: lora
template: qwen
dataset: alpaca_en_demo
output_dir: out
"""


@pytest.mark.parametrize(
    "text",
    [
        *(
            "$lr",
            "${LR}",
            "{{ lr }}",
            "<lr>",
            "{lr}",
            "__LR__",
            "@LR@",
            "X",
            "XXX",
            "xxxx",
            "CHANGE_ME",
            "...",
            "/.../...",
            "???",
        ),
        *("TO_BE_FILLED", "TBD", "FILL_ME", "INSERT_LR", "LR_PLACEHOLDER", "PLACEHOLDER", "LR_HERE"),
        *("your image max pixels", "Your value"),
    ],
)
def test_whole_values_that_something_fills_in(text: str) -> None:
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    [
        "out/$NAME",
        "5e-5",
        "qwen",
        "xx",
        "all",
        "",
        "{{ a }}/{{ b }}x",
        "<|im_end|> more",
        "../..",
        "your role is a doctor",
        3,
        None,
    ],
)
def test_other_values_are_no_placeholders(text: object) -> None:
    assert not is_placeholder(text)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("learning_rate: $lr\n", True),
        ("learning_rate: TO_BE_FILLED\n", True),
        ("learning_rate: !!float $lr\ndeepspeed: X\n", True),
        ('learning_rate: "{{ lr }}"\nper_device_train_batch_size: "<batch>"\n', True),
        ("learning_rate: {{ lr }}\n", True),
        ("learning_rate: ${lr}\ncutoff_len: ${length}\n", True),
        ("learning_rate: ${lr}\n", False),
        ("cutoff_len: 512\nmax_length: ${cutoff_len}\nmax_samples: ${cutoff_len}\n", False),
        ("run_name: $NAME\ndeepspeed: $DEEPSPEED\n", False),
        ('chat_template: "{% for message in messages %}x{% endfor %} "\n', False),
    ],
)
def test_one_note_on_a_template_and_nothing_else(more: str, told: bool) -> None:
    workspace = in_memory({"train.yaml": CONFIG + more})
    document = workspace.documents("train.yaml")[0]
    found = [
        (one.rule, one.severity) for one in Engine(tuple(shipped())).analyse(document, workspace.context()).findings
    ]

    assert found == [("SRC006", "info")] if told else ("SRC006", "info") not in found


def test_a_file_of_placeholders_alone() -> None:
    (document,) = load(b"output_dir: $out\nmodel_name_or_path: $model\n", "a.yaml")
    assert len(template_placeholders(document)) == 2


def test_fields_of_a_prompt_make_no_template() -> None:
    text = 'sequence_len: 1024\ndatasets:\n  - type: {system_format: "{system}", no_input_format: "{instruction}"}\n'
    assert not template_placeholders(load(text.encode(), "axolotl.yaml")[0])


def test_a_token_between_steps_makes_no_template() -> None:
    """A reward model's `step_separator`, which stands among the special tokens as well."""
    text = (
        "datasets: [{path: a/b, step_separator: <extra_0>}]\nspecial_tokens: {additional_special_tokens: [<extra_0>]}\n"
    )
    assert not template_placeholders(load(text.encode(), "axolotl.yaml")[0])


def test_tags_that_a_model_writes_make_no_template() -> None:
    text = "lr: 1\ncall_start: {}\ncall_end: </tool_call>\n"
    assert not template_placeholders(load(text.format("<tool_call>").encode(), "tool.yaml")[0])
    assert template_placeholders(load(text.format("<batch_size>").encode(), "tool.yaml")[0])


VERL = (
    "data: {{train_files: a.parquet, train_batch_size: {batch}}}\nalgorithm: {{adv_estimator: grpo}}\n"
    "actor_rollout_ref: {{model: {{path: Qwen/Qwen2.5-7B}}, actor: {{strategy: fsdp}}, rollout: {{name: vllm}}}}\n"
    "trainer: {{total_epochs: {epochs}, n_gpus_per_node: 8}}\n"
)


@pytest.mark.parametrize(
    ("batch", "epochs", "told"),
    [("xxxx", "xxxx", True), ("???", "???", False), ("64", "${data.train_batch_size}", False)],
)
def test_a_file_of_omegaconf_is_a_template_by_words_that_it_does_not_resolve(
    batch: str, epochs: str, told: bool
) -> None:
    workspace = in_memory({"train.yaml": VERL.format(batch=batch, epochs=epochs)})
    found = Engine(tuple(shipped())).analyse(workspace.documents("train.yaml")[0], workspace.context()).findings
    assert [one.rule == "SRC006" for one in found].count(True) == told
    assert not (told and any(one.rule == "CFG002" for one in found))
