"""The one way to DuckDB: named steps, bound values, Arrow in and out, nothing from a net."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from deidsearch.errors import RunError
from deidsearch.files import private_dir, private_umask

_T = TypeVar("_T")

# Raise it when a table's columns change: an older store is then refused with a clear word.
SCHEMA_VERSION = 1


class Database:
    """A DuckDB file that this process alone writes to.

    Args:
        path: the file; made with mode 0600 where there is none.
        temp_dir: private folder for what does not fit into memory (it may hold note text).
        read_only: open an existing file for reading only.
        memory_limit: most memory of DuckDB, as "4GB"; None leaves its own choice.
        threads: most threads; None leaves its own choice.

    Raises:
        RunError: another process holds the file, or it is of another version.
    """

    def __init__(
        self,
        path: Path,
        temp_dir: Path,
        read_only: bool = False,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
    ) -> None:
        import duckdb

        self.path = Path(path)
        private_dir(self.path.parent)
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": str(private_dir(temp_dir)),
        }
        if memory_limit is not None:
            config["memory_limit"] = memory_limit
        if threads is not None:
            config["threads"] = threads
        # Files are made with the umask of the process: none but the owner may read them.
        with private_umask():
            try:
                self._connection = duckdb.connect(
                    str(self.path), read_only=read_only, config=config
                )
            except duckdb.Error as error:
                raise _cannot_open(self.path, error) from None
        self._in_transaction = False
        if not read_only:
            self._check_version()

    def _check_version(self) -> None:
        self.execute("CREATE TABLE IF NOT EXISTS store_version (version INTEGER)")
        rows = self.query("SELECT version FROM store_version").column("version").to_pylist()
        if not rows:
            self.execute("INSERT INTO store_version VALUES (?)", [SCHEMA_VERSION])
        elif rows[0] != SCHEMA_VERSION:
            self.close()
            raise RunError(
                f"the store is of version {rows[0]}, this program needs {SCHEMA_VERSION}",
                where=self.path.name,
                mend="Start over with: deidsearch run GRID --fresh",
            )

    def execute(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Runs a statement with bound values.

        Raises:
            RunError: it failed; names the statement, never the values.
        """
        self._run(sql, params)

    def query(self, sql: str, params: Sequence[Any] = ()) -> pa.Table:
        """Returns the rows of a query as an Arrow table."""
        return self._named(sql, lambda: self._relation(sql, params).to_arrow_table())

    def batches(self, sql: str, params: Sequence[Any] = (), rows: int = 100_000) -> Iterator[Any]:
        """Yields the rows of a query as Arrow record batches of at most so many rows."""
        reader = self._named(sql, lambda: self._relation(sql, params).to_arrow_reader(rows))
        yield from reader

    def insert(self, table: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Appends rows to a table by the names of their columns.

        Raises:
            RunError: the table refuses them.
        """
        import duckdb

        name = f"insert into {table}"
        arrow = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        columns = ", ".join(f'"{column}"' for column in arrow.column_names)
        self._named(name, lambda: self._connection.register("_incoming", arrow))
        try:
            self._run(
                f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM _incoming', (), name
            )
        finally:
            # In a transaction that has just failed this fails too, and would hide why.
            with contextlib.suppress(duckdb.Error):
                self._connection.unregister("_incoming")

    def has_table(self, name: str) -> bool:
        """Returns whether a table is there."""
        sql = "SELECT count(*) AS n FROM information_schema.tables WHERE table_name = ?"
        return bool(self.query(sql, [name]).column("n")[0].as_py())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes the statements of the block take effect together or not at all; blocks may nest."""
        if self._in_transaction:
            yield
            return
        self._run("BEGIN TRANSACTION", ())
        self._in_transaction = True
        try:
            yield
        except BaseException:
            self._in_transaction = False
            with contextlib.suppress(RunError):
                self._run("ROLLBACK", ())
            raise
        self._in_transaction = False
        self._run("COMMIT", ())

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _relation(self, sql: str, params: Sequence[Any]) -> Any:
        # Arrow from a relation spares the copy that Arrow from a cursor makes.
        return self._connection.sql(sql, params=list(params) or None)

    def _run(self, sql: str, params: Sequence[Any], name: str | None = None) -> None:
        self._named(name or sql, lambda: self._connection.execute(sql, list(params)))

    def _named(self, statement: str, action: Callable[[], _T]) -> _T:
        import duckdb

        try:
            return action()
        except (duckdb.Error, RuntimeError) as error:
            is_interrupt = isinstance(error, duckdb.InterruptException)
            if is_interrupt or any(word in str(error) for word in ("nterrupted", "KeyboardInt")):
                raise KeyboardInterrupt from None  # a Ctrl-C that DuckDB saw first
            if not isinstance(error, duckdb.Error):
                raise
            if isinstance(error, duckdb.OutOfMemoryException) or "No space left" in str(error):
                # Disk and memory troubles speak of the machine, never of the text.
                what = str(error).splitlines()[0]
            else:
                # DuckDB quotes the values it stumbles over, and those may be names of patients.
                what = type(error).__name__
            shown = " ".join(statement.split())[:80]
            raise RunError(f"{what} in: {shown}", where=self.path.name) from None


def _cannot_open(path: Path, error: Exception) -> RunError:
    text = str(error)
    if "lock" in text.lower():
        owner = text[text.find("PID") :].split(")")[0] if "PID" in text else "another process"
        return RunError(
            f"the store is in use ({owner})",
            where=path.name,
            mend="Wait for that run or stop it; `deidsearch status` works meanwhile.",
        )
    return RunError(
        f"the store cannot be opened ({type(error).__name__})",
        where=path.name,
        mend="Start over with: deidsearch run GRID --fresh",
    )
