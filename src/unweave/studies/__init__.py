"""Studies: scoring runs and, later, grids of runs, their store and their analysis."""

from unweave.studies.scoring import score_run, store_scores

__all__ = ["score_run", "store_scores"]
