"""Groups of commands, one file each; `cli.py` joins them. Nothing is decided here."""
