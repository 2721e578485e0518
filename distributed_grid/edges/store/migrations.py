"""The schema of the SQLite store, and how older ones become it.

Lives here: one list of statements for each version; a new version is a new entry, and an old
entry is never changed. Never here: reading and writing rows (`sqlite`).
Invariant: a migration and the number that says it was done are one transaction.
"""

import sqlite3
from typing import Final

from distributed_grid.edges.store import StoreBroken, StoreTooNew

APPLICATION_ID: Final = 0x47524944  # "GRID", in the header of the file.

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (  # 1: jobs, leases and single values.
        """CREATE TABLE jobs (
            id TEXT PRIMARY KEY,
            state TEXT NOT NULL,
            name TEXT NOT NULL,
            user TEXT NOT NULL,
            submitted_ms INTEGER NOT NULL,
            is_finished INTEGER NOT NULL,
            record BLOB NOT NULL)""",
        "CREATE INDEX jobs_by_age ON jobs (submitted_ms, id)",
        "CREATE INDEX jobs_by_name ON jobs (name, submitted_ms)",
        "CREATE TABLE leases (id TEXT PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID",
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    ),
    (  # 2: events; and the unfinished are found without reading the finished.
        """CREATE TABLE events (
            number INTEGER PRIMARY KEY,
            at_ms INTEGER NOT NULL,
            record BLOB NOT NULL)""",
        "CREATE INDEX jobs_by_end ON jobs (is_finished, submitted_ms, id)",
    ),
    (  # 3: records of jobs that are kept for other nodes.
        "CREATE TABLE held (id TEXT PRIMARY KEY, record BLOB NOT NULL)",
    ),
    (  # 4: and from which node each came.
        "ALTER TABLE held ADD COLUMN sender TEXT NOT NULL DEFAULT ''",
    ),
)
VERSION: Final = len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, file: str, *, upto: int = VERSION) -> int:
    """Bring a file to this version; tells from which one."""
    found = check_version(connection, file)
    for number in range(found + 1, upto + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in MIGRATIONS[number - 1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return found


def check_version(connection: sqlite3.Connection, file: str) -> int:
    """The version of a file; 0 for a new one. Refuses a later Grid's, and other programs'."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreBroken(file, "it is a database of another program")
    if version > VERSION:
        raise StoreTooNew(file, version=version, known=VERSION)
    return int(version)
