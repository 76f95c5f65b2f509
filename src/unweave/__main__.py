"""`python -m unweave` is the same as `unweave`."""

from unweave.cli import main

main()
