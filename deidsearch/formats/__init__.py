"""Readers and writers of annotated text, one module per format; offsets are code points."""
