"""Find the ratio ceiling that trains the best de-identification model."""

__version__ = "0.1.0"
