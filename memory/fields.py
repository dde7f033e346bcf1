"""Two column types shared by every table of the engine: ids and instants.

Both keep the engine's own Python values (text and int), so a row and a record hold equal values and
nothing is converted on the way but what an engine forces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


if TYPE_CHECKING:
    # Django's fields are generic in their stubs only, and there a subclass that is not generic may
    # not be nullable. To the type checker these are columns of text and of whole numbers.
    IdField = models.CharField
    MicrosField = models.BigIntegerField
else:

    class IdField(models.Field):
        """A UUID whose Python value is lower-case text with hyphens.

        Stored as `char(36)` where the engine has no UUID type, else as its native one. Text order
        and UUID order agree, so sorting by id gives the same order everywhere. Anything else than
        that one spelling raises `ValidationError`, in filters as in writes.
        """

        description = "UUID as lower-case text"

        def db_type(self, connection: BaseDatabaseWrapper) -> str:
            return "uuid" if connection.features.has_native_uuid_field else "char(36)"

        def from_db_value(
            self, value: Any, expression: Any, connection: BaseDatabaseWrapper
        ) -> str | None:
            return None if value is None else str(value)

        def to_python(self, value: Any) -> str | None:
            if value is None:
                return None
            text = str(value)
            if UUID_TEXT.fullmatch(text) is None:
                raise ValidationError("An id is a UUID in lower case with hyphens.", code="invalid")
            return text

        def get_prep_value(self, value: Any) -> Any:
            return self.to_python(super().get_prep_value(value))

    class MicrosField(models.BigIntegerField):
        """An instant: microseconds since the Unix epoch, UTC, in a `bigint`.

        Not a `DateTimeField`, for three reasons: every engine compares and indexes it alike, years
        1 to 9999 fit without a special case, and loading builds no datetime. The views of the
        schema show ISO 8601 for people.
        """

        description = "Instant in microseconds since 1970-01-01T00:00:00Z"
