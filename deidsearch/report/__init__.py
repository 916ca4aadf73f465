"""The report of a sweep: one page that stands alone, figures and tables (INTERFACE)."""
