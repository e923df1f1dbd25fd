"""`counters`: how often what happened in this process, as `tracer.counters["frames"]["total"]`.

Any room may add to it; it is never reset by `tracer.reset()`, only by `counters.clear()`.
"""

from __future__ import annotations

from collections import Counter, defaultdict

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
