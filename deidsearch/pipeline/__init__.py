"""The steps of one grid, in order."""
