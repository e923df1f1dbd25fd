"""What the page says to who runs a server: names, axes, certificates, seals, variants, misses and latencies."""

from __future__ import annotations

import functools
import re

import pytest
import torch

import tracer
from tests.report.programs import found, recorded
from tests.report.test_page import text_of
from tracer.exc import SealedError
from tracer.report.axes import Axes
from tracer.report.findings import Latency
from tracer.report.page import page
from tracer.report.shape_space import picture, words


def passing_on(forward):
    """As libraries decorate forwards."""

    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    return wrapper


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 2)

    @passing_on
    def forward(self, ids, mask=None):
        x = self.linear(ids[:, :, None])
        if ids.shape[0] <= 8:
            x = x + 1
        return x if mask is None else x * mask[:, 1:, None]


SPEC = "ids: B, S; mask: B, S + 1; B in 1..64; S in 1..32"


def scored(made, batch, length, masked=False, dtype=torch.float32):
    mask = {"mask": torch.ones(batch, length + 1)} if masked else {}
    try:
        return made(ids=torch.ones(batch, length, dtype=dtype), **mask)
    except SealedError:
        return None


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Two variants, certified and sealed; calls that hit, and misses of three kinds."""

    def calls():
        model = Scorer().eval()
        made = tracer.compile(model, shapes=SPEC)
        variants = [
            tracer.Variant(kwargs={"ids": torch.ones(3, 5)}, name="plain"),
            tracer.Variant(kwargs={"ids": torch.ones(3, 5), "mask": torch.ones(3, 6)}, name="masked"),
        ]
        with torch.no_grad():
            assert tracer.precompile(made, variants).certified
            made.seal()
            for batch, length in ((2, 3), (2, 3), (20, 7), (9, 3)):
                scored(made, batch, length)
                scored(made, batch, length, masked=True)
            scored(made, 65, 3)
            for batch in (3, 4):
                scored(made, batch, 5, dtype=torch.float64)
            model.linear.bias = None
            scored(made, 5, 5)

    return found(tmp_path_factory.mktemp("served"), calls)


def test_a_module_is_named_by_its_class_and_its_code_beside_it(served):
    (function,) = served.functions
    assert (function.name, function.code) == ("Scorer", "passing_on.<locals>.wrapper")
    made = page(served)
    assert "<h2>Scorer</h2>" in made and "passing_on.&lt;locals&gt;.wrapper" in made


def test_a_name_that_the_user_gave_tells_functions_of_the_same_code_apart(tmp_path):
    def calls():
        for name in ("draft", "target"):
            tracer.compile(lambda x: x + 1, name=name)(torch.ones(3))

    assert [function.name for function in found(tmp_path, calls).functions] == ["draft", "target"]


def test_axes_are_those_of_the_spec_and_sizes_that_follow_from_them_are_no_axes(served):
    (function,) = served.functions
    (space,) = picture(function)["spaces"]
    assert [dim["name"] for dim in space["dims"]] == ["B", "S"]
    served_calls = [(call["at"], call["count"]) for call in space["calls"] if call["entry"]]
    assert sorted(served_calls) == [([2, 3], 2), ([2, 3], 2), ([9, 3], 1), ([9, 3], 1), ([20, 7], 1), ([20, 7], 1)]
    assert {words(entry) for entry in function.entries} == {"1 <= B <= 8, 1 <= S <= 32", "9 <= B <= 64, 1 <= S <= 32"}


def test_calls_of_a_function_that_takes_keywords_lie_where_the_regions_are(served):
    (function,) = served.functions
    assert sum(bool(entry.served) for entry in function.entries) == 4
    for entry in function.entries:
        assert all(dict(sizes).keys() == dict(entry.record["sizes"]).keys() for sizes in entry.served)


def test_the_certificate_is_told_by_variant_with_the_entries_that_serve_it(served):
    made = page(served)
    card = made[made.index('<div class="card certificate good">') :]
    card = card[: card.index("</div>")]
    text = text_of(card)
    assert re.search(r"Certified \(2 variants\) at \d\d:\d\d:\d\d; sealed at \d\d:\d\d:\d\d: a miss is refused", text)
    assert all(words in text for words in ("plain", "masked", "no_grad", "1 <= B <= 64, 1 <= S <= 32", "B <= 8"))
    (function,) = served.functions
    assert {f'href="#{entry.anchor}"' for entry in function.entries} == set(re.findall(r'href="[^"]+"', card))


def test_a_certificate_that_was_not_given_says_where_and_why(tmp_path):
    def calls():
        made = tracer.compile(lambda x: x.flatten() + 1, shapes="x: B, S; B in 1..8; S in 1..8", name="gap")
        tracer.coverage(made, example=torch.ones(3, 5))
        made.seal("eager")
        tracer.unseal(made)
        made(torch.ones(3, 5))

    text = " ".join(text_of(page(found(tmp_path, calls))).split())
    assert "Uncovered at" in text and "; unsealed at" in text and re.search(r"uncovered B = \d, S = \d", text)


def test_each_cause_of_misses_is_a_row_with_the_guard_its_line_and_what_was_done(served):
    made = page(served)
    rows = made[made.index('<table class="misses">') :].split("<tr>")[2:5]
    dtype, guard, undeclared = sorted(map(text_of, rows), key=lambda row: ("65" in row, "bias" in row))
    assert " 2 " in dtype and "expected torch.float32, actual torch.float64" in dtype and "refused" in dtype
    assert "x = self.linear(ids[:, :, None])" in dtype and "B = 3, S = 5" in dtype and "float64" in dtype
    assert "ids.size(0) is 65, but it was declared as 1 <= B <= 64" in undeclared and "B = 65, S = 3" in undeclared
    assert "bias" in guard and "refused" in guard and "B = 5, S = 5" in guard


def test_misses_that_were_traced_say_so(tmp_path):
    def calls():
        made = tracer.compile(lambda x: x + 1, name="plus")
        made(torch.ones(3))
        made(torch.ones(3, dtype=torch.float64))

    made = page(found(tmp_path, calls))
    text = " ".join(text_of(made[made.index('<table class="misses">') :]).split())
    assert "there was no entry traced" in text and "dtype mismatch. expected torch.float32, actual torch.float64 traced" in text


def test_latencies_of_each_entry_are_shown(served):
    (function,) = served.functions
    timed = [entry for entry in function.entries if entry.served]
    for entry in timed:
        assert entry.latency.count == entry.served.total() and 0 < entry.latency.percentile(0.5) <= entry.latency.percentile(0.99)
    made = page(served)
    table = made[made.index('<table class="latency">') : made.index("</table>", made.index('<table class="latency">'))]
    assert table.count("<tr>") == 1 + len(timed) and re.search(r"[\d.]+ (ms|s)", table)


def test_percentiles_of_latencies():
    latency = Latency()
    latency.add({"seconds": 1.0, "ranges": [[0.001, 98], [0.01, 1]]})
    latency.add({"seconds": 1.0, "ranges": [[1.0, 1]]})
    assert (latency.count, latency.mean) == (100, 0.02)
    assert [latency.percentile(share) for share in (0.5, 0.98, 0.99, 1.0)] == [0.001, 0.001, 0.01, 1.0]
    assert Latency().percentile(0.5) == 0.0


def test_what_was_declared_of_a_size_stands_for_it():
    axes = Axes({"L['x'].size()[0]": "B", "L['x'].size()[1]": "S", "L['m'].size()[1]": "S + 1", "L['y'].size()[0]": "3"})
    sizes = {"L['x'].size()[0]": 2, "L['x'].size()[1]": 5, "L['m'].size()[1]": 6, "L['y'].size()[0]": 3, "L['n']": 7}
    assert dict(axes.sizes(sizes.items())) == {"B": 2, "S": 5, "L['n']": 7}
    assert axes.tree(["v", "L['m'].size()[1]"]) == ["+", ["v", "S"], 1]
    assert [axes.text(label) for label in sizes] == ["B", "S", "(S + 1)", "3", "n"]
    assert Axes({"L['m'].size()[1]": "S + 1"}).text("L['m'].size()[1]") == "m.size(1)"  # S is nowhere


def test_a_miss_that_is_not_traced_is_explained_once_for_each_cause_and_without_values(tmp_path):
    def secret(x, word):
        return x + len(word)

    def calls():
        made = tracer.compile(secret)
        made(torch.ones(3), "apple")
        made.seal("eager")
        with pytest.warns(UserWarning, match="sealed"):
            for _ in range(3):
                made(torch.ones(3), "pineapple")

    (records,) = recorded(tmp_path, calls).processes.values()
    misses = [record for record in records if record["kind"] == "miss" and record["policy"] == "eager"]
    assert ["failures" in record for record in misses] == [True, False, False]
    assert "word" in str(misses[0]["failures"]) and "pineapple" not in str(misses)
