"""`decimal`: decimals are made and computed while tracing, in the thread's context."""

from __future__ import annotations

import decimal

from tracer.protocol.models import foldable

foldable(decimal.Decimal)
