"""The program that `train_7b.sh` starts: a Trainer whose arguments are dataclasses, which memlint reads as text."""

from dataclasses import dataclass, field

import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser, Trainer


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="Qwen/Qwen2.5-0.5B")


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    model_max_length: int = field(default=2048, metadata={"help": "longest sequence in tokens"})


def main() -> None:
    model_args, args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path)
    tokenizer = AutoTokenizer.from_pretrained(model_args.model_name_or_path, model_max_length=args.model_max_length)
    Trainer(model=model, args=args, processing_class=tokenizer).train()


if __name__ == "__main__":
    main()
