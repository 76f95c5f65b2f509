"""Answers: every question of the study and of its neighbours, asked to the rows of a store.

Each question is a file or two of them one, and each answer a sentence, tables of numbers with
bootstrap intervals, and figures as plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unweave.studies.answers import agreement, selection, total_correlation, transfer, variance
from unweave.studies.answers import unsupervised as unsupervised_scores
from unweave.studies.answers.answer import Answer, Figure, Line, Panel, Question
from unweave.studies.answers.boxes import DATASETS, MODELS
from unweave.studies.answers.downstream import DOWNSTREAM_QUESTION, EFFICIENCY_QUESTION
from unweave.studies.answers.grid import Missing, Rows, read_rows
from unweave.studies.answers.settings import BEST_STRENGTHS, HYPERPARAMETERS, SEEDS
from unweave.studies.answers.strengths import RANGES, STRENGTHS
from unweave.studies.answers.tradeoff import TRADEOFF, TRAINING
from unweave.types import unknown_name

QUESTIONS: dict[str, Question] = {question.name: question for question in (
    total_correlation.QUESTION, agreement.QUESTION, RANGES, variance.QUESTION, STRENGTHS,
    unsupervised_scores.QUESTION, transfer.QUESTION, selection.QUESTION, DOWNSTREAM_QUESTION,
    EFFICIENCY_QUESTION, MODELS, DATASETS, HYPERPARAMETERS, BEST_STRENGTHS, SEEDS, TRAINING,
    TRADEOFF)}
"""By name, in the order of the papers."""


def find_question(name: str) -> Question:
    """A question by name."""
    if name not in QUESTIONS:
        raise unknown_name("question", name, QUESTIONS)
    return QUESTIONS[name]


def analyse(rows: Rows, questions: Sequence[str] | None = None, *,
            seed: int = 0) -> Iterator[tuple[Question, Answer]]:
    """Answers to some questions, or to all; one that the rows cannot answer says so."""
    asked = [find_question(name) for name in questions or QUESTIONS]
    for question in asked:
        try:
            yield question, question.answer(rows, np.random.default_rng(seed))
        except Missing as missing:
            yield question, Answer(missing=str(missing))


__all__ = ["QUESTIONS", "Answer", "Figure", "Line", "Panel", "Question", "Rows", "analyse",
           "find_question", "read_rows"]
