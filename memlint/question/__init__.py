"""Answers questions about a run that no file describes: writes the framework files that would describe it, and
estimates them.

    question = question_of({"model": "llama-3-8b", "method": "qlora", "gpu": "RTX 4090"})
    files_of(question).contents    # the texts of train.yaml and what it names, by path
    answer(question).run.estimate  # the estimate of exactly these texts

There is no second estimator: a question is answered by linting these files. So the files that `--write-config` writes
give the same figures.
"""

from memlint.question.answer import Answer as Answer
from memlint.question.answer import answer as answer
from memlint.question.check import question_of as question_of
from memlint.question.files import files_of as files_of
from memlint.question.model import Question as Question
from memlint.question.model import QuestionFiles as QuestionFiles
