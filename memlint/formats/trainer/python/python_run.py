"""One training run of a Python script: which trainer it makes, with which arguments, and what else its code shows.

`SFTTrainer(model, args=SFTConfig(max_length=2048))` in a script is `PythonRun("SFTTrainer", "SFTConfig", {"max_length":
...}, ...)`; `framework`, `task` and `arguments_class` follow from the trainer's name.
"""

from __future__ import annotations

from collections.abc import Mapping

from memlint._record import NamedTuple
from memlint.formats.trainer.python.embeddings import OF_EMBEDDINGS
from memlint.source.document import Span, StartedProgram
from memlint.source.python.values import Made, Table, Value, ValueSource

TRL = frozenset(
    {
        *("SFTTrainer", "DPOTrainer", "KTOTrainer", "ORPOTrainer", "CPOTrainer", "GRPOTrainer", "RLOOTrainer"),
        *("RewardTrainer", "PPOTrainer", "OnlineDPOTrainer", "GKDTrainer", "PRMTrainer", "BCOTrainer"),
        *("XPOTrainer", "NashMDTrainer"),
    }
)
TRANSFORMERS = frozenset({"Trainer", "Seq2SeqTrainer", "UnslothTrainer"})
LOOP = "loop"  # in place of a class of arguments: a training loop of the script's own
_TASKS: Mapping[str, str] = {
    "SFTTrainer": "sft",
    "DPOTrainer": "dpo",
    "KTOTrainer": "kto",
    "ORPOTrainer": "orpo",
    "CPOTrainer": "cpo",
    "GRPOTrainer": "grpo",
    "RewardTrainer": "rm",
    "PPOTrainer": "ppo",
    "RLOOTrainer": "rloo",
    "OnlineDPOTrainer": "online_dpo",
    "GKDTrainer": "gkd",
    "XPOTrainer": "xpo",
    "NashMDTrainer": "nash_md",
    "Trainer": "sft",
    "Seq2SeqTrainer": "sft",
}


class PythonRun(NamedTuple):
    """One trainer that a script makes, or one training loop of the script's own.

    `trainer` and `arguments`: the names of the trainer's class and of the class of its arguments; "" of a loop.
    `keys`: what the code says, under the names of the Trainer's and TRL's arguments. `source`: the trainer's call.
    `program`: what else the code shows of the run, without the fields that `started` fills in.
    """

    trainer: str
    arguments: str
    keys: Mapping[str, Value]
    source: ValueSource
    program: StartedProgram = StartedProgram()
    arguments_call: Span | None = None  # where the training arguments are made
    loading_call: ValueSource | None = None  # where `from_pretrained` loads the model
    set_later: frozenset[str] = frozenset()  # arguments that are set after the call that makes and checks them
    gpus: int = 0  # that Lightning's trainer is told to train on, over all machines; 0: whatever starts it decides
    gpus_per_node: int = 0
    asked_of_modal: Made | None = None  # the decorator that says on what machine Modal runs the trainer's function
    asks_for_card: bool = False  # the script asks for its card's compute capability
    format: str = "trainer"  # whose keys they are

    @property
    def framework(self) -> str:
        """Whose trainer it is: "trl", "transformers", "torch" for a loop of the script's own, or another format's."""
        if self.format != "trainer":
            return self.format
        if not self.trainer:
            return "torch"
        of_transformers = self.trainer in ("Trainer", "Seq2SeqTrainer") or self.trainer in OF_EMBEDDINGS
        return "transformers" if of_transformers else "trl"

    @property
    def has_plain_arguments(self) -> bool:
        """Whether a trainer of TRL gets transformers' arguments. It makes its own class of all their values, so what
        they leave at transformers' default is not at TRL's (trl 0.16.1 to 1.16.0 sft_trainer.py: `args.to_dict()`)."""
        return self.framework == "trl" and self.arguments in ("TrainingArguments", "Seq2SeqTrainingArguments")

    @property
    def arguments_class(self) -> str:
        """The class of TRL or transformers whose arguments the trainer takes; `LOOP` of a loop of the script's own."""
        if not self.trainer:
            return LOOP
        kind = self.trainer.removesuffix("Trainer")
        if self.framework == "transformers":
            return f"{kind}TrainingArguments"
        return f"{kind}Config" if self.trainer in TRL else "SFTConfig"

    @property
    def task(self) -> str:
        """What the trainer trains: sft, dpo, ...; "" where its name does not say."""
        return self.program.task or _TASKS.get(self.trainer, "")

    def started(self, entry: str) -> StartedProgram:
        """What the run says of the program, whose path or command is `entry`."""
        return self.program._replace(
            entry=entry, framework=self.framework, task=self.task, has_plain_arguments=self.has_plain_arguments
        )


def lacks_its_stage(engine: Value) -> bool:
    """Whether the ZeRO section of a DeepSpeed configuration is unknown."""
    return isinstance(engine, Table) and engine.is_open and "zero_optimization" not in engine.values
