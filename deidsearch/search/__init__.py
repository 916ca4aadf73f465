"""The search: trainings run by Ray Tune, cells scored, tracked and kept in files."""
