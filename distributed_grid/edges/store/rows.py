"""What is written to and read from the tables, statement by statement.

Lives here: SQL and the rows it gives. Never here: transactions, threads, errors (`sqlite`).
"""

import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from distributed_grid.edges.store import (
    EVENTS_KEPT,
    LATEST,
    STORE_ID,
    AddEvent,
    DropHeld,
    DropJob,
    DropLease,
    DropMeta,
    Event,
    ForgetFinished,
    JobFilter,
    JobRow,
    PutHeld,
    PutJob,
    PutLease,
    Remembered,
    SetMeta,
    Write,
)

_COLUMNS = "id, record, state, name, user, submitted_ms, is_finished"
# Name, user and age of a job never change; left alone, so are the indices over them, which would be
# half of the pages that a sync writes.
_PUT_JOB = (
    f"INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) "  # noqa: S608  (our own words)
    "ON CONFLICT (id) DO UPDATE SET record = excluded.record, state = excluded.state, "
    "is_finished = excluded.is_finished"
)
_FORGET = (
    "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE is_finished = 1 "
    "ORDER BY submitted_ms DESC, id DESC LIMIT -1 OFFSET ?)"
)
_DROPS = {
    DropJob: "DELETE FROM jobs WHERE id = ?",
    DropLease: "DELETE FROM leases WHERE id = ?",
    DropHeld: "DELETE FROM held WHERE id = ?",
    DropMeta: "DELETE FROM meta WHERE key = ?",
}
_LAST = "\U0010ffff"  # Sorts after every character of a name or an id.


def apply(connection: sqlite3.Connection, writes: Iterable[Write]) -> None:
    """Carry out writes, inside a transaction of the caller."""
    newest_event = 0
    for write in writes:
        connection.execute(*_statement(write))
        if isinstance(write, AddEvent):
            newest_event = max(newest_event, write.number)
    if newest_event > EVENTS_KEPT:
        connection.execute("DELETE FROM events WHERE number <= ?", (newest_event - EVENTS_KEPT,))


def _statement(write: Write) -> tuple[str, tuple[Any, ...]]:
    match write:
        case PutJob(job):
            return _PUT_JOB, (
                job.id,
                job.record,
                job.state,
                job.name,
                job.user,
                job.submitted_ms,
                job.is_finished,
            )
        case ForgetFinished(keep):
            return _FORGET, (keep,)
        case PutLease(lease_id, record):
            return "INSERT OR REPLACE INTO leases (id, record) VALUES (?, ?)", (lease_id, record)
        case AddEvent(number, at_ms, record):
            return (
                "INSERT OR REPLACE INTO events (number, at_ms, record) VALUES (?, ?, ?)",
                (number, at_ms, record),
            )
        case PutHeld():
            put = "INSERT OR REPLACE INTO held (id, record, sender) VALUES (?, ?, ?)"
            return put, msgspec.structs.astuple(write)
        case DropJob() | DropLease() | DropHeld() | DropMeta():
            return _DROPS[type(write)], msgspec.structs.astuple(write)
        case SetMeta(key, value):
            return "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value)


def name_store(connection: sqlite3.Connection) -> None:
    """Give a new store its own id."""
    connection.execute("INSERT OR IGNORE INTO meta VALUES (?, randomblob(16))", (STORE_ID,))


def load_all(connection: sqlite3.Connection) -> Remembered:
    """What an agent needs at its start, as of one moment."""
    connection.execute("BEGIN")
    try:
        unfinished = connection.execute(
            f"SELECT {_COLUMNS} FROM jobs WHERE is_finished = 0 ORDER BY submitted_ms, id"  # noqa: S608
        )
        (last_event,) = connection.execute("SELECT max(number) FROM events").fetchone()
        return Remembered(
            jobs=tuple(map(_job_row, unfinished)),
            latest=tuple(jobs(connection, JobFilter(is_finished=True), LATEST, None)),
            leases=_by_name(connection.execute("SELECT id, record FROM leases")),
            meta=_by_name(connection.execute("SELECT key, value FROM meta")),
            last_event=last_event or 0,
            held={
                str(job): str(sender or "")
                for job, sender in connection.execute("SELECT id, sender FROM held")
            },
        )
    finally:
        if connection.in_transaction:  # An error may have ended it.
            connection.execute("ROLLBACK")


def held(connection: sqlite3.Connection, job_id: str) -> bytes | None:
    """A record that is kept for another node."""
    found = connection.execute("SELECT record FROM held WHERE id = ?", (job_id,)).fetchone()
    return None if found is None else _bytes(found[0])


def job(connection: sqlite3.Connection, job_id: str) -> JobRow | None:
    """One job."""
    query = f"SELECT {_COLUMNS} FROM jobs WHERE id = ?"  # noqa: S608  (our own words)
    found = connection.execute(query, (job_id,)).fetchone()
    return None if found is None else _job_row(found)


def jobs(
    connection: sqlite3.Connection,
    matching: JobFilter,
    limit: int,
    before: tuple[int, str] | None,
) -> list[JobRow]:
    """Jobs, the newest first."""
    conditions, values = ["1"], list[Any]()
    for column, some in (("state", matching.states), ("id", matching.ids)):
        if some is not None:
            conditions.append(f"{column} IN ({', '.join('?' * len(some))})")
            values += some
    if matching.id_prefix is not None:
        conditions.append("id >= ? AND id < ?")
        values += (matching.id_prefix, matching.id_prefix + _LAST)
    for column, wanted in (
        ("name", matching.name),
        ("user", matching.user),
        ("is_finished", matching.is_finished),
        ("length(id)", matching.id_digits),
    ):
        if wanted is not None:
            conditions.append(f"{column} = ?")
            values.append(wanted)
    if before is not None:
        conditions.append("(submitted_ms, id) < (?, ?)")
        values += before
    query = (
        f"SELECT {_COLUMNS} FROM jobs WHERE {' AND '.join(conditions)} "  # noqa: S608  (only words
        "ORDER BY submitted_ms DESC, id DESC LIMIT ?"  # of ours; every value is a parameter)
    )
    return [_job_row(row) for row in connection.execute(query, (*values, limit))]


def events(connection: sqlite3.Connection, since_excluded: int, limit: int) -> list[Event]:
    """Events, the oldest first."""
    query = "SELECT number, at_ms, record FROM events WHERE number > ? ORDER BY number LIMIT ?"
    return [Event(*row) for row in connection.execute(query, (since_excluded, limit))]


def _by_name(rows: Iterable[tuple[Any, Any]]) -> dict[str, bytes]:
    return {str(name): _bytes(record) for name, record in rows}


def _bytes(value: Any) -> bytes:
    """What somebody wrote there who is no Grid is no record: empty, it fails where it is read."""
    return value if isinstance(value, bytes) else b""


def _job_row(row: tuple[Any, ...]) -> JobRow:
    job_id, record, state, name, user, submitted_ms, is_finished = row
    return JobRow(
        id=str(job_id),
        record=_bytes(record),
        state=str(state),
        name=str(name),
        user=str(user),
        submitted_ms=submitted_ms if isinstance(submitted_ms, int) else 0,
        is_finished=bool(is_finished),
    )
