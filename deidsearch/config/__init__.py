"""The grid: models, lines, search space."""
