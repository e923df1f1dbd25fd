"""`datetime`: its values are made and computed while tracing. Functions that read the clock have no model."""

from __future__ import annotations

import datetime

from tracer.protocol.models import foldable

foldable(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone)
