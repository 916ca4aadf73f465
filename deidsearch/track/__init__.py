"""Tracking of a sweep: one protocol, nothing by default, MLflow where asked for."""
