"""What can be wrong with the store.

StorageError              every error of this package: a sentence and a remedy
├── NotWritableError      the folder or the file cannot be written
├── NewerDatabaseError    written by a newer cockpit; left as it is
├── CorruptDatabaseError  not a database, or damaged, and it cannot be set aside
├── RejectedError         the database's rules forbid the change
└── UnknownRecordError    an id without a record
"""

from __future__ import annotations


class StorageError(Exception):
    """An error an operator can act on."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class NotWritableError(StorageError):
    """The folder or the file cannot be written."""


class NewerDatabaseError(StorageError):
    """Written by a newer cockpit; left as it is."""


class CorruptDatabaseError(StorageError):
    """Not a database, or damaged, and it cannot be set aside."""


class RejectedError(StorageError):
    """The database's rules forbid the change: a reference to nothing, a name given twice."""


class UnknownRecordError(StorageError):
    """An id without a record."""
