"""Answers of a store for people, for machines and as files: sentences, tables, csv, figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unweave.report.figures import save_figure
from unweave.report.tables import print_json, print_records
from unweave.studies.answers import Answer, Question, Rows, analyse, find_question
from unweave.training.folder import write_atomically
from unweave.types import UserError


def report_answers(rows: Rows, questions: Sequence[str] | None, *, out: Path | None, seed: int,
                   as_json: bool) -> None:
    """Print the answers; with `out`, write tables and figures too.

    A question that is asked by name shows its whole tables, otherwise the numbers in short.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: give a folder for tables and figures")
    documents = []
    for name in questions or ():
        find_question(name)  # before anything is printed
    if not as_json:
        print(about(rows))
    for question, answer in analyse(rows, questions, seed=seed):
        files = [] if out is None else save_answer(question, answer, out)
        if as_json:
            documents.append(_document(question, answer, files))
            continue
        print(f"\n{question.name}: {question.asks} ({question.source})")
        print(answer.missing or answer.sentence)
        if answer.summary:
            _print(answer.summary)
        for name, records in (answer.tables if questions else {}).items():
            if records:
                _print(records, title=f"{question.name}, {name}")
        for file in files:
            print(file)
    if as_json:
        print_json(documents)


def about(rows: Rows) -> str:
    """One line on the rows behind the answers."""
    line = (f"{rows.num_runs:,} {'published ' if rows.source == 'published' else ''}runs: "
            f"{len(rows.data)} data sets, {len(rows.settings)} settings, {len(rows.seeds)} seeds; "
            f"scores in the convention {rows.convention}; 95 % intervals from redrawn seeds")
    if rows.left_out:
        line += (f". {rows.left_out:,} runs share data set, setting and seed with another and are "
                 "left out: choose with --study")
    return line


def save_answer(question: Question, answer: Answer, folder: Path) -> list[Path]:
    """The tables of an answer as csv and its figures as PNG and SVG; the files."""
    if answer.missing:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, records in {"summary": answer.summary, **answer.tables}.items():
        if records:
            file = folder / f"{question.name}-{name}.csv"
            text = io.StringIO()
            columns = list(dict.fromkeys(k for record in records for k in record))
            writer = csv.DictWriter(text, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)
            write_atomically(file, lambda temporary, t=text: temporary.write_text(t.getvalue()))
            files.append(file)
    for figure in answer.figures:
        files += save_figure(figure, folder)
    return files


def _print(records: Sequence[Any], title: str = "") -> None:
    columns = list(dict.fromkeys(k for record in records for k in record))
    print_records(records, columns, as_json=False, title=title)


def _document(question: Question, answer: Answer, files: Sequence[Path]) -> dict[str, Any]:
    return {"name": question.name, "asks": question.asks, "source": question.source,
            "sentence": answer.sentence, "missing": answer.missing,
            "summary": [dict(r) for r in answer.summary],
            "tables": {k: [dict(r) for r in v] for k, v in answer.tables.items()},
            "files": [str(file) for file in files]}
