"""Annotation by dictionary: matches, ratios, ceilings, tags, training sets (METHOD §4-§7)."""
