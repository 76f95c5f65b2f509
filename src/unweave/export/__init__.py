"""Out of unweave and into it: files for other programs, the Hub, checkpoints of others."""

from unweave.export.checkpoint import import_checkpoint
from unweave.export.write import FORMATS, Exported, export_run

__all__ = ["FORMATS", "Exported", "export_run", "import_checkpoint"]
