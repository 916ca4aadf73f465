"""The store of a sweep: DuckDB tables and the files they can be rebuilt from."""
