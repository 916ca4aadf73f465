"""Scores of predicted mentions against human annotation, with intervals (METHOD §9)."""
