"""Find the ratio ceiling that trains the best de-identification model."""

from deidsearch.quiet import silence

__version__ = "0.1.0"

# Before any library that phones home can be imported, by whatever door.
silence()
