"""Who reads a config: a parser of the framework, or a script by itself."""

import json

import pytest

from memlint.formats.base import ConfigReader
from memlint.formats.trainer.format import skips_rule
from memlint.hardware import find
from memlint.repository.reader import program_modules
from memlint.repository.workspace import Workspace, in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.shipped import shipped
from memlint.run import UNKNOWN
from memlint.source.document import Start, StartedProgram

CONFIG = """model_name_or_path: Qwen/Qwen2.5-1.5B
output_dir: out
per_device_train_batch_size: 1
learning_rate: 2e-5
eval_steps: 100
max_length: 512
"""
OWN = """import yaml, argparse
cfg = yaml.safe_load(open(args.config))
model = load(cfg["model_name_or_path"])
train(float(cfg["learning_rate"]), cfg["eval_steps"], cfg.get("output_dir"))
"""
OWN_LOADER = OWN.replace("yaml.safe_load(open(args.config))", "read_simple_yaml(args.config)").replace(
    "import yaml, argparse", "def read_simple_yaml(path):\n    return split(open(path).read())"
)
JOINS = 'import os, yaml\ndef load(folder):\n    return yaml.safe_load(open(os.path.join(folder, "sft.yaml")))\n'
APP = 'import os, yaml\nconfig = yaml.safe_load(open(os.path.join(os.environ["ROOT"], "configs", "app.yaml")))\n'
READER = OWN.split("model = ")[0]
BY_HELPER = OWN.replace("yaml.safe_load(open(args.config))", "load_config(args.config)").replace(
    "yaml, argparse", "argparse\nfrom utils.config import load_config"
)
LOADER = "import yaml\ndef load_config(path):\n    return yaml.safe_load(open(path))\n"
LOOKS_UP = OWN.partition("model = ")[2]  # keys of values that something else has read
LABELS = 'import yaml\nlabels = yaml.safe_load(open("configs/labels.yaml"))\n'
PARSER = "parser = HfArgumentParser((Arguments, TrainingArguments))\n"
TRL_PARSER = "parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))\n"
NAMES_IT = 'from own.files import load\nconfig = load("configs/sft.yaml")\n'
FILES = "import yaml\ndef load(path):\n    return yaml.safe_load(open(path))\n"
JUDGED = ["CFG007", "EVA004"]


def analysed(config: str = CONFIG, gpu: bool = False, **files: str) -> Analysis:
    named = {key.replace("__", "/").replace("_py", ".py").replace("_sh", ".sh"): text for key, text in files.items()}
    workspace = in_memory({"configs/sft.yaml": config, **named})
    context = workspace.context(gpu=find("A100-80GB"), gpus=1) if gpu else workspace.context()
    return Engine(tuple(shipped())).analyse(workspace.documents("configs/sft.yaml")[0], context)


def rules(found: Analysis) -> list[str]:
    return sorted(one.rule for one in found.findings if one.rule in ("CFG007", "CFG013", "EVA004"))


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, JUDGED),
        ({"labels_py": LABELS}, JUDGED),  # of another file in the same folder
        ({"train_py": OWN}, ["CFG013"]),  # reads most of the keys
        ({"train_py": OWN_LOADER}, ["CFG013"]),  # without a library for YAML
        ({"prune_py": JOINS}, JUDGED),  # a file of that name in a folder that it is given
        ({"app_py": APP}, JUDGED),  # another file of the same folder
        ({"train_py": BY_HELPER, "utils__config_py": LOADER}, ["CFG013"]),  # and another script loads the file
        ({"train_py": BY_HELPER}, JUDGED),
        ({"train_py": READER, "run_sh": "python train.py --config configs/sft.yaml"}, ["CFG013"]),
        ({"train_py": LOOKS_UP, "run_sh": "deepspeed train.py --config configs/sft.yaml"}, ["CFG013"]),
        ({"train_py": LOOKS_UP}, JUDGED),  # of nobody knows what
        ({"train_py": READER}, JUDGED),  # reads some YAML
        ({"src__train_py": NAMES_IT, "own__files_py": FILES}, ["CFG013"]),  # by a function of another module
        ({"src__train_py": NAMES_IT, "own__other_py": FILES}, JUDGED),  # which it does not import
        ({"train_py": 'yaml.safe_load(open("configs/sft.yaml"))'}, ["CFG013"]),
        ({"src__train_py": 'yaml.safe_load(open("../configs/sft.yaml"))'}, ["CFG013"]),
        ({"src__train_py": 'yaml.safe_load(open("/work/configs/sft.yaml"))'}, ["CFG013"]),
        ({"src__train_py": 'yaml.safe_load(open(f"{HERE}/sft.yaml"))'}, ["CFG013"]),
        ({"src__train_py": 'yaml.safe_load(open(HERE + "sft.yaml"))'}, ["CFG013"]),
        ({"src__train_py": 'yaml.safe_load(open("data/sft.yaml"))'}, JUDGED),  # another file of that name
        ({"train_py": 'for name in glob("configs/*.yaml"): yaml.safe_load(open(name))'}, ["CFG013"]),
        ({"train_py": 'import hydra\n@hydra.main(config_path="./configs")\ndef main(cfg): pass\n'}, ["CFG013"]),
        ({"src__train_py": 'import hydra\n@hydra.main(config_path="../configs")\ndef main(cfg): pass\n'}, ["CFG013"]),
        ({"train_py": 'import hydra\n@hydra.main(config_path="conf")\ndef main(cfg): pass\n'}, JUDGED),
        ({"src__train_py": OWN, "run_sh": "python -m src.train --config configs/sft.yaml"}, ["CFG013"]),
        ({"train_py": OWN, "run_sh": "accelerate launch other.py configs/sft.yaml"}, ["EVA004"]),  # nobody knows how
        ({"train_py": OWN, "other_py": "", "run_sh": "accelerate launch other.py configs/sft.yaml"}, JUDGED),
        ({"train_py": PARSER, "labels_py": LABELS}, JUDGED),
        ({"train_py": PARSER, "own_py": OWN, "run_sh": "torchrun train.py \\\n  configs/sft.yaml"}, JUDGED),
        ({"train_py": OWN, "run_sh": "trl sft --config configs/sft.yaml"}, ["EVA004"]),  # TrlParser makes numbers
        ({"train_py": TRL_PARSER, "own_py": OWN, "run_sh": "python train.py --config configs/sft.yaml"}, ["EVA004"]),
    ],
)
def test_what_is_judged_hangs_on_who_reads_the_file(files: dict[str, str], found: list[str]) -> None:
    assert rules(analysed(**files)) == found


@pytest.mark.parametrize(("converted", "found"), [("float", ["EVA004"]), ("print", JUDGED)])
def test_a_script_may_make_numbers_of_what_its_helper_reads(converted: str, found: list[str]) -> None:
    helper = (
        "from transformers import HfArgumentParser, TrainingArguments\n"
        "def get():\n    return HfArgumentParser(TrainingArguments).parse_yaml_file('configs/sft.yaml')\n"
    )
    train = f"from helper import get\nargs = get()\nargs.learning_rate = {converted}(args.learning_rate)\n"
    assert rules(analysed(helper_py=helper, train_py=train)) == found


@pytest.mark.parametrize(
    ("files", "severity"),
    [({}, "warning"), ({"train_py": PARSER, "run_sh": "python train.py configs/sft.yaml"}, "error")],
)
def test_what_is_text_is_an_error_where_the_parser_is_known(files: dict[str, str], severity: str) -> None:
    (finding,) = (one for one in analysed(**files).findings if one.rule == "CFG007")
    assert finding.severity == severity


def test_a_folder_called_as_a_part_of_a_data_set_is_not_named_by_that_word() -> None:
    reads = 'import yaml\nrows = load_dataset("a/b", split="train")\nagent = yaml.safe_load(open("agents/own.yaml"))\n'
    for folder, found in (("train", JUDGED), ("recipes", ["CFG013"])):
        files = {f"{folder}/sft.yaml": CONFIG, "verify.py": reads.replace('"train"', f'"{folder}"')}
        workspace = in_memory(files)
        document = workspace.documents(f"{folder}/sft.yaml")[0]
        assert rules(Engine(tuple(shipped())).analyse(document, workspace.context())) == found


GIVES = "model = load(attn_implementation=model_args.attn_implementation)\n"


@pytest.mark.parametrize(
    ("files", "is_said"),
    [
        ({}, True),
        ({"train_py": TRL_PARSER + GIVES}, True),
        ({"train_py": TRL_PARSER + "model = load(**vars(model_args))\n"}, True),
        ({"train_py": TRL_PARSER + "from own import load\n", "own_py": GIVES}, True),  # a module that it imports
        ({"train_py": TRL_PARSER + "model = load(model_args.model_name_or_path)\n"}, False),
    ],
)
def test_an_argument_of_the_model_that_the_program_leaves_out(files: dict[str, str], is_said: bool) -> None:
    config = f"{CONFIG}attn_implementation: flash-attention-3\ndataset_name: a/b\n"
    command = {"run_sh": "python train.py --config configs/sft.yaml"} if files else {}
    assert ("CFG003" in {one.rule for one in analysed(config, **files, **command).findings}) is is_said


def test_of_several_scripts_that_may_read_a_file_none_is_said_to() -> None:
    (one,) = (item.message for item in analysed(train_py=OWN).findings if item.rule == "CFG013")
    (several,) = (item.message for item in analysed(train_py=OWN, other_py=OWN).findings if item.rule == "CFG013")
    assert one.startswith("train.py reads this file by itself")
    assert several.startswith("a script of the repository (train.py may be it) reads this file by itself")


def test_of_several_scripts_that_may_read_a_file_the_nearest_is_named() -> None:
    files = {"a__train_py": OWN, "configs__train_py": OWN, "z__train_py": OWN}
    (found,) = (item.message for item in analysed(**files).findings if item.rule == "CFG013")
    assert "(configs/train.py may be it)" in found


def test_a_script_that_names_the_folder_alone_may_read_another_file() -> None:
    games = "import os, yaml\nwith open(os.path.join('configs', name)) as f:\n    rules = yaml.safe_load(f)\n"
    (found,) = (item.message for item in analysed(env_py=games).findings if item.rule == "CFG013")
    assert found.startswith("a script of the repository (env.py may be it) reads this file by itself")


def test_a_folder_below_the_named_one_is_another() -> None:
    games = "import os, yaml\nrules = yaml.safe_load(open(os.path.join(here, 'configs', 'games', name)))\n"
    assert not [item for item in analysed(env_py=games).findings if item.rule == "CFG013"]


def test_of_scripts_that_name_the_folder_the_one_with_most_of_its_keys_is_named() -> None:
    config = f"{CONFIG}dataset_name: a/b\n"
    reads = "import os, yaml\nwith open(os.path.join('configs', name)) as f:\n    cfg = yaml.safe_load(f)\n"
    by_keys = f"{reads}load(cfg['model_name_or_path'], cfg['dataset_name'])\n"
    (found,) = (item.message for item in analysed(config, a_py=reads, b_py=by_keys).findings if item.rule == "CFG013")
    assert "(b.py may be it)" in found


def test_keys_below_a_key_of_no_argument_class_are_a_script_s() -> None:
    """The parsers take flat files (transformers 5.23.0 hf_argparser.py, parse_dict)."""
    found = analysed(f"{CONFIG.replace('2e-5', '2.0e-5')}adapter_x:\n  rank: 8\n")
    assert rules(found) == ["CFG013"]
    assert "`adapter_x` has keys below it" in found.findings[0].message
    assert rules(analysed(f"{CONFIG.replace('2e-5', '2.0e-5')}adapter_x: 8\n")) == ["EVA004"]


def test_a_comment_in_the_file_says_who_reads_it() -> None:
    files = {"train_py": PARSER, "own_py": READER}
    assert rules(analysed(f"# python own.py --config configs/sft.yaml\n{CONFIG}", **files)) == ["CFG013"]
    assert rules(analysed(f"# python train.py configs/sft.yaml\n{CONFIG}", **files)) == JUDGED


@pytest.mark.parametrize(
    ("launch_file", "is_skipped"), [("mixed_precision: bf16\n", True), ("downcast_bf16: no\n", False)]
)
def test_a_loop_of_one_s_own_computes_as_the_launch_file_says(launch_file: str, is_skipped: bool) -> None:
    file = f"compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 8\n{launch_file}"
    workspace = in_memory({"configs/own.yaml": CONFIG, "accelerate_config.yaml": file})
    start = Start("trainer", "", StartedProgram("train.py", "torch"))
    document = workspace.documents("configs/own.yaml")[0]._replace(start=start)
    assert skips_rule("PRE003", document, workspace.context()) is is_skipped
    for config, command, skips in (
        (FOREIGN, "", is_skipped),  # a script reads it
        (CONFIG, "", is_skipped),  # nothing is known to launch it
        (CONFIG, "accelerate launch train.py configs/own.yaml", False),
    ):
        read = in_memory({"configs/own.yaml": config, "accelerate_config.yaml": file, "run.sh": command})
        assert skips_rule("PRE003", read.documents("configs/own.yaml")[0], read.context()) is skips


FOREIGN = CONFIG.replace("2e-5", "2.0e-5") + "data_prep_workers_x: 2\nmy_own_switch: true\nteacher_decay_y: 0.1\n"


def test_several_keys_of_no_argument_class_are_a_script_s() -> None:
    found = analysed(FOREIGN)

    assert rules(found) == ["CFG013"]
    assert "`data_prep_workers_x`, `my_own_switch`, `teacher_decay_y` belong to no" in found.findings[0].message
    assert rules(analysed(FOREIGN.replace("my_own_switch: true\n", ""))) == ["EVA004"]
    declared = "@dataclass\nclass Arguments:\n    my_own_switch: bool = True\n"
    assert rules(analysed(FOREIGN, run_py=declared)) == ["CFG013"]  # no parser here takes a dataclass
    parsed = f"{declared}\n\nparser = HfArgumentParser(Arguments)\n"
    assert rules(analysed(FOREIGN, run_py=parsed)) == ["EVA004"]
    assert rules(analysed(FOREIGN, run_sh="trl sft --config configs/sft.yaml")) == ["EVA004"]


def test_the_dtype_of_a_script_s_model_is_not_presumed() -> None:
    config = FOREIGN.replace("Qwen/Qwen2.5-1.5B", "meta-llama/Meta-Llama-3-8B").replace("eval_steps: 100\n", "")
    (estimate,) = analysed(config, gpu=True).estimates

    assert estimate.verdict == "unknown"
    assert [one.label for one in estimate.readings] == ["with bfloat16 weights", "with float32 weights"]
    assert not analysed(config + "torch_dtype: bfloat16\n", gpu=True).estimates[0].readings


def test_what_a_program_freezes_by_itself_leaves_no_verdict() -> None:
    config = CONFIG.replace("eval_steps: 100\n", "") + "freeze_model: true\n"
    own = "@dataclass\nclass Arguments:\n    freeze_model: bool = False\n\nparser = HfArgumentParser(Arguments)\n"
    frozen = analysed(config, gpu=True, train_py=own).runs[0].stack.unmodelled
    assert "freezing" in frozen
    assert not analysed(config.replace("true", "false"), gpu=True, train_py=own).runs[0].stack.unmodelled


def test_no_least_figure_hangs_on_a_dtype_that_is_not_presumed() -> None:
    for dtype, is_skipped in (("", True), ("torch_dtype: float32\n", False)):
        workspace = in_memory({"configs/own.yaml": FOREIGN + dtype})
        document = workspace.documents("configs/own.yaml")[0]
        assert skips_rule("MEM006", document, workspace.context()) is is_skipped


def test_no_fix_of_a_script_s_file_is_safe() -> None:
    config = FOREIGN.replace("per_device_train_batch_size: 1", "per_device_train_batch_size: 512")
    found = analysed(config + "torch_dtype: bfloat16\nbf16: true\n", gpu=True)

    assert found.is_unjudged
    assert not any(fix.safe for finding in found.findings for fix in finding.fixes)


def test_a_class_that_fills_an_argument_in_takes_null() -> None:
    config = CONFIG.replace("2e-5", "2.0e-5") + "dataloader_num_workers: null\n"
    fills = "class Config(SFTConfig):\n    def __post_init__(self):\n        if self.{} is None:\n            pass\n"

    def nulls(**files: str) -> list[str]:
        return [one.message[:25] for one in analysed(config, **files).findings if one.rule == "CFG002"]

    assert nulls() == nulls(run_py=fills.format("max_steps")) == ["`dataloader_num_workers` "]
    assert nulls(run_py=fills.format("dataloader_num_workers")) == []


def test_a_class_in_place_of_trl_s_takes_lora_s_targets_its_own_way() -> None:
    config = CONFIG.replace("2e-5", "2.0e-5") + "use_peft: true\nlora_target_modules: all\n"
    declared = "@dataclass\nclass ModelArguments:\n    lora_target_modules: Union[List[str], str] = None\n"

    def targets(**files: str) -> set[str]:
        return {one.rule for one in analysed(config, **files).findings if one.rule in ("PEF004", "PEF025")}

    assert targets() == {"PEF004", "PEF025"}  # reports fold one into the other
    assert targets(run_py=declared) == set()


def test_a_script_means_the_file_of_its_own_folder() -> None:
    other = {"other/sft.yaml": "seed: 1\n", "other/train.py": 'import yaml\nyaml.safe_load(open("sft.yaml"))\n'}
    workspace = in_memory({"configs/sft.yaml": CONFIG, **other})
    found = Engine(tuple(shipped())).analyse(workspace.documents("configs/sft.yaml")[0], workspace.context())
    assert rules(found) == JUDGED


def test_a_folder_within_another_is_not_the_configs_of_that_name() -> None:
    loads = "import yaml\nfrom pathlib import Path\nROOT = Path('.')\n"
    games = loads + "def game(name):\n    return yaml.safe_load(open(ROOT / 'games' / 'configs' / name))\n"
    assert not _reader(games_py=games)
    assert _reader(any_py=loads + "def of(name):\n    return yaml.safe_load(open(ROOT / 'configs' / name))\n")


def _reader(**files: str) -> str:
    """Who is said to read the config."""
    return next((one.message for one in analysed(**files).findings if one.rule == "CFG013"), "")


def test_of_scripts_that_ask_for_its_keys_the_one_that_loads_files_is_named() -> None:
    keys = "def of(config):\n    return config['model_name_or_path'], config['learning_rate'], config['eval_steps']\n"
    more = "    more = config['per_device_train_batch_size'], config['output_dir'], config['max_length']\n"
    asks = keys.replace("):\n", "):\n" + more)
    loads = f"import yaml\n{asks}def load(path):\n    return yaml.safe_load(open(path))\n"
    assert "z_main.py" in _reader(a_extended_py=f"from z_main import load\n{asks}", z_main_py=loads)


SETS = """parser = HfArgumentParser(Arguments)
args = parser.parse_args_into_dataclasses()[0]
for key, value in yaml.safe_load(open(args.config_file)).items():
    if getattr(args, key) is None:
        setattr(args, key, value)
"""
OF_HYDRA = """@hydra.main(config_path="configs", config_name="sft")
def main(cfg):
    return HfArgumentParser((Arguments, TrainingArguments)).parse_dict(OmegaConf.to_container(cfg))
"""
SHOWN = '"""accelerate launch train.py --config_file config/sft.yaml"""\n'


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (SHOWN + "import yaml\n" + SETS, []),
        (SHOWN + PARSER, JUDGED),  # HfArgumentParser reads the file itself
        (SHOWN + OF_HYDRA, ["EVA004"]),  # OmegaConf reads it, for which `2e-5` is a number
        (SHOWN + "import yaml\n" + SETS.replace("setattr(args, key, value)", "pass"), JUDGED),
    ],
)
def test_a_docstring_names_the_config_wherever_it_lies_now(script: str, found: list[str]) -> None:
    """A script with a parser that sets a file's items on its arguments reads that file by itself."""
    assert [one for one in rules(analysed(train_py=script)) if one != "CFG013"] == found


HELPED = SHOWN + "from helpers import override\n" + SETS.partition("for key")[0] + "args = override(args)\n"
OVERRIDES = """def override(args):
    for key, value in yaml.safe_load(open(args.config_file)).items():
        setattr(args, key, value)
    return args
"""


@pytest.mark.parametrize(("script", "is_judged"), [(HELPED, False), (HELPED + "parser.parse_yaml_file(path)\n", True)])
def test_a_helper_sets_the_items_of_a_file_that_the_parser_does_not_read(script: str, is_judged: bool) -> None:
    """HfArgumentParser reads a file by its `parse_yaml_file` alone."""
    found = rules(analysed(train_py=script, helpers_py=OVERRIDES))
    assert (found == JUDGED) is is_judged
    assert ("CFG013" in found) is not is_judged


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"train_py": TRL_PARSER}, ["EVA004"]),  # TrlParser converts `2e-5`
        ({"train_py": PARSER}, JUDGED),
        ({"train_py": OWN}, ["CFG013"]),  # the script looks up the keys
        ({}, JUDGED),
    ],
)
def test_the_parser_of_the_other_configs_of_a_folder_reads_this_one(files: dict[str, str], found: list[str]) -> None:
    command = "accelerate launch --config_file z3.yaml \\\n train.py --config configs/large.yaml\n"
    assert rules(analysed(train_sh=command, **files)) == found


@pytest.mark.parametrize(("folder", "is_judged"), [("../../verl/configs", True), ("../../configs", False)])
def test_a_folder_of_hydra_s_is_the_one_from_its_script(folder: str, is_judged: bool) -> None:
    """`verl/configs` of a copy of verl is not `configs`."""
    program = f'@hydra.main(config_path="{folder}", config_name="ppo")\ndef main(cfg): pass\n'
    found = analysed(verl__scripts__merge_py=program)
    assert (rules(found) == JUDGED) is is_judged


def test_of_scripts_that_read_a_folder_the_one_called_after_the_config_is_named() -> None:
    hydra = 'import hydra\n@hydra.main(config_path="../configs", config_name="config")\ndef main(cfg): pass\n'
    files = {f"scripts/{name}.py": hydra for name in ("evaluate", "train_grpo", "train_sft")}
    workspace = in_memory({"configs/training/grpo.yaml": "learning_rate: 1.0e-6\n", **files})
    assert workspace.config_reader("configs/training/grpo.yaml", ["learning_rate"]).path == "scripts/train_grpo.py"


@pytest.mark.parametrize(
    ("trainer", "refused"),
    [("Trainer(args=args)", True), ("LOMOTrainer(args=args)", False), ("Mine(Trainer(args), 2)", True)],
)
def test_a_trainer_of_another_class_compares_nothing(trainer: str, refused: bool) -> None:
    files = {
        "configs/sft.yaml": f"{CONFIG}deepspeed: ds.json\n",
        "ds.json": '{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}',
        "train.py": f"{PARSER}args = parser.parse_yaml_file(sys.argv[1])\ntrainer = {trainer}\n",
        "run.sh": "deepspeed --num_gpus 2 train.py configs/sft.yaml\n",
    }
    workspace = in_memory(files)
    (command,) = workspace.documents("run.sh")
    found = Engine(tuple(shipped())).analyse(command, workspace.context()).findings
    assert ("CFG008" in [one.rule for one in found]) is refused


@pytest.mark.parametrize(("script", "said"), [(OWN, UNKNOWN), (TRL_PARSER, 8)])
def test_a_batch_in_a_script_s_own_words_is_not_the_default(script: str, said: object) -> None:
    config = CONFIG.replace("per_device_train_batch_size", "batch_size")
    named = {"train_py": script, "run_sh": "python train.py --config configs/sft.yaml"}
    assert analysed(config, **named).runs[0].batch.micro_batch_size == said


def test_an_excess_is_certain_only_where_a_framework_reads_the_file() -> None:
    """A script that reads the file by itself may quantise the model."""
    large = CONFIG.replace("1.5B", "72B") + "bf16: true\n"
    (judged,), (own,) = (
        [one for one in analysed(large, True, train_py=program).findings if one.rule == "MEM001"]
        for program in (PARSER, OWN)
    )
    assert (judged.severity, own.severity) == ("error", "warning")
    assert own.message.endswith("(where the script that reads this file trains what its keys say)")


def test_a_program_that_makes_its_adapter_asks_for_no_use_peft() -> None:
    config = CONFIG.replace("2e-5", "2.0e-5") + "lora_r: 16\nmax_length: 512\npacking: false\nbeta: 0.1\n"
    start = "accelerate launch train.py --config configs/sft.yaml"
    own = f"{TRL_PARSER}config = LoraConfig(r=args.lora_r)\n"

    def found(program: str) -> bool:
        return "PEF019" in {one.rule for one in analysed(config, train_py=program, run_sh=start).findings}

    assert found(TRL_PARSER) and found(own + "if args.use_peft: pass\n")
    assert not found(own)


def test_a_key_that_the_program_asks_for_is_its_own() -> None:
    config = {"zero_optimization": {"stage": 2}, "optimizer": {"type": "Adam"}, "lora": {}, "warmup": 1, "precision": 1}
    file = json.dumps({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, **config})
    program = 'import json\nsettings = json.load(open(path))\nif "lora" in settings: settings.get("precision")\n'
    files = {"ds.json": file, "train.py": program, "run.sh": "deepspeed train.py --ds ds.json"}
    workspace = in_memory(files)
    found = Engine(tuple(shipped())).analyse(workspace.documents("ds.json")[0], workspace.context()).findings
    assert [one.message for one in found if one.rule == "CFG001"] == ["unknown key `warmup`"]


def test_a_changed_config_does_not_have_the_programs_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    search = program_modules._words
    monkeypatch.setattr(program_modules, "_words", lambda script: searched.append(script.path) or search(script))
    files = {"configs/sft.yaml": CONFIG, "train.py": BY_HELPER, "utils/config.py": LOADER}
    workspace = in_memory(files)

    def reader(of: Workspace, *more: str) -> ConfigReader:
        return of.config_reader("configs/sft.yaml", [*(line.partition(":")[0] for line in CONFIG.splitlines()), *more])

    assert reader(workspace).path == "train.py"
    changed = workspace.overlaid({"configs/sft.yaml": (CONFIG + "packing: true\n").encode()})
    assert reader(changed, "packing").path == reader(workspace, "packing").path == "train.py"
    assert sorted(searched) == ["train.py", "utils/config.py"]


@pytest.mark.parametrize(("folder", "found"), [("configs", "configs/train.py"), ("other", "steering/run.py")])
def test_a_program_beside_the_file_reads_what_its_first_word_names(folder: str, found: str) -> None:
    """Before a program elsewhere that has the file's keys."""
    keys = dict.fromkeys(("model", "epochs", "lora_alpha", "seed", "output_dir"), 1)
    asks = "".join(f"print(cfg['{key}'])\n" for key in keys)
    files = {
        "configs/a.json": json.dumps(keys),
        f"{folder}/train.py": "import json, sys\ntrain(**json.load(open(sys.argv[1])))\n",
        "steering/run.py": f"import json\ncfg = json.load(open(path))\n{asks}",
    }
    assert in_memory(files).config_reader("configs/a.json", list(keys)).path == found
