"""``python -m deidsearch``."""

from deidsearch.cli import main

main()
