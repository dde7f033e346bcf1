"""The two doors to the database: one writing transaction, one consistent read.

Every error that leaves through them is a `StoreTransient` or a `StoreRejected` with the driver's
error as cause; after one, nothing of the transaction is stored unless the message says that the
outcome is unknown. A connection that is no longer trusted is closed, so that the next attempt opens
a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from memory.engine.ports import StoreRejected, StoreTransient
from memory.store.dialects import Verdict, dialect_for


def store_failure(
    error: BaseException, connection: BaseDatabaseWrapper, *, at_commit: bool
) -> StoreTransient | StoreRejected:
    """The port's exception for any error of an attempt; closes a connection that is unusable.

    An error of COMMIT itself says nothing about what is on disk: always transient.
    """
    verdict, sentence = dialect_for(connection.vendor).judge(error)
    if at_commit:
        connection.close()
        return StoreTransient(f"the outcome of the commit is unknown: {sentence}")
    if verdict is Verdict.DISCONNECTED:
        connection.close()
    return StoreRejected(sentence) if verdict is Verdict.REJECTED else StoreTransient(sentence)


@contextmanager
def writing(alias: str) -> Iterator[CursorWrapper]:
    """One transaction on the writing connection, committed when the block ends well."""
    connection = connections[alias]
    is_written = False
    try:
        connection.ensure_connection()
        dialect_for(connection.vendor).check_place(connection)
        with transaction.atomic(using=alias, durable=True):
            with connection.cursor() as cursor:
                yield cursor
            is_written = True
    except (StoreTransient, StoreRejected):
        raise
    # Whatever else went wrong (a value the driver cannot bind, a bug of ours) is this data's fault:
    # the caller must learn it as a refusal, or it would retry for ever.
    except Exception as error:
        raise store_failure(error, connection, at_commit=is_written) from error


@contextmanager
def reading(alias: str) -> Iterator[CursorWrapper]:
    """Statements that all see one state of the database, from any thread.

    The thread's connection is given back afterwards if it is past its age, as Django does at the
    end of a request: our threads have no requests.
    """
    connection = connections[alias]
    connection.close_if_unusable_or_obsolete()
    try:
        with transaction.atomic(using=alias), connection.cursor() as cursor:
            yield cursor
    except Exception as error:
        raise store_failure(error, connection, at_commit=False) from error
    finally:
        connection.close_if_unusable_or_obsolete()
