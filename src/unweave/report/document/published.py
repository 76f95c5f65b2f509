"""Own runs beside the published ones: percentiles, and boxes of the published scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unweave.data import parse_spec
from unweave.report.document.contents import Scores, setting_of
from unweave.report.document.questions import box
from unweave.report.document.values import short, table
from unweave.studies.answers.grid import Rows
from unweave.studies.compare import stand_among

_MOST_FIGURES = 8


def beside_published(runs: Sequence[Mapping[str, Any]], scores: Scores,
                     rows: Rows) -> dict[str, Any] | None:
    """Percentiles of each own run, and its scores over boxes of the published settings."""
    records, shown = [], []
    for i, run in enumerate(runs):
        if run.get("source") == "published" or run["status"] != "done":
            continue
        own = {key: float(values[i]) for key, values in scores.value.items()
               if np.isfinite(values[i])}
        about = {"method": run["method"], "data": _data(run["data"]),
                 "strength": run.get("strength")}
        found = stand_among(rows, about, own)
        for key, places in found.items():
            records.append({"run_id": run["run_id"], "setting": setting_of(run),
                            "data": run["data"],
                            "score": key, "value": own[key], "of all": places["all"],
                            "of the method": places.get(run["method"]),
                            "of the setting": places["setting"],
                            "better": scores.better.get(key, "neither")})
        if found:
            shown.append((i, run, about))
    if not records:
        return None
    return {"table": table(records), "figures": _figures(shown, scores, rows),
            "sentence": f"{len(shown):,} own run{'' if len(shown) == 1 else 's'} beside "
                        f"{rows.num_runs:,} published ones. A percentile is the share of published "
                        "runs with a lower score; whether that is better is in the last column."}


def _data(name: str) -> str:
    try:
        return parse_spec(name)[0]
    except ValueError:
        return name


def _figures(shown: Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any]]], scores: Scores,
             rows: Rows) -> list[dict[str, Any]]:
    figures = []
    for data in dict.fromkeys(about["data"] for _, _, about in shown):
        d = rows.data.index(data)
        panels = []
        for key in scores.ordered():
            own = [i for i, _, about in shown if about["data"] == data
                   and np.isfinite(scores.value[key][i])]
            if not own or key not in rows.scores or np.isnan(rows.scores[key][d]).all():
                continue
            boxes = []
            for s, setting in enumerate(rows.settings):
                spread = box(rows.scores[key][d, s])
                if not spread["num"]:
                    continue
                points = [{"name": run["run_id"], "value": short(float(scores.value[key][i]))}
                          for i, run, about in shown if about["data"] == data
                          and run["method"] == setting.method
                          and run.get("strength") == setting.strength
                          and np.isfinite(scores.value[key][i])]
                boxes.append({"name": str(setting), "points": points, **spread})
            others = [{"name": run["run_id"], "value": short(float(scores.value[key][i]))}
                      for i, run, about in shown if about["data"] == data
                      and np.isfinite(scores.value[key][i])
                      and not any(p["name"] == run["run_id"] for b in boxes for p in b["points"])]
            if others:
                boxes.append({"name": "other settings", "num": 0, "points": others})
            panels.append({"kind": "boxes", "title": key, "x": "", "y": "", "log": False,
                           "boxes": boxes})
        figures.append({"name": f"published-{data}", "panels": panels[:_MOST_FIGURES],
                        "title": f"Published scores on {data} by setting, own runs as points"})
    return figures
