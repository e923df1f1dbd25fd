"""The page: what it says of functions, breaks and shapes, and that it loads nothing."""

from __future__ import annotations

import html
import re

import pytest
import torch

import tracer
from tests.report.programs import branching, breaking, eight_regions, found, recorded, run
from tests.report.test_recorder import FORKING
from tracer.__main__ import main
from tracer.report import records
from tracer.report.axes import short
from tracer.report.expressions import Unknown, expression
from tracer.report.findings import gather
from tracer.report.page import page
from tracer.report.shape_space import picture
from tracer.report.timeline import Axis, duration


def text_of(made: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script).*?</\1>", "", made, flags=re.DOTALL)))


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    def calls():
        eight_regions()
        made = tracer.compile(breaking)
        for n in (3, 4):
            made(torch.randn(n))

    return found(tmp_path_factory.mktemp("several"), calls)


def test_it_has_contents_timeline_breaks_and_a_section_for_each_function(several):
    made = page(several)
    assert [function.name for function in several.functions] == ["branching", "breaking", "shouting"]
    for function in several.functions:
        assert f'<a href="#{function.anchor}">{function.name}' in made and f'<section id="{function.anchor}">' in made
    assert made.count('class="compile') >= 8 and 'class="mark break"' in made
    assert set(re.findall(r'href="#([^"]+)"', made)) <= set(re.findall(r'id="([^"]+)"', made))


def test_an_entry_that_was_taken_over_is_shown_as_such(tmp_path):
    def calls():
        for _ in range(2):
            tracer.compile(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), dynamic=True)(torch.ones(2, 3))

    assert text_of(page(found(tmp_path, calls))).count("taken over from an equal module") == 1


def test_it_shows_graphs_with_the_users_lines_guards_with_their_cause_and_breaks_with_hints(several):
    text = text_of(page(several))
    assert "y = x * 2" in text and "mul = l_x_ * 2" in text
    assert "L['x'].size()[1] % 16" in text and "if x.shape[1] % 16 == 0:" in text
    assert "side-effect-call" in text and "Hint" in text and "called from" in text and "return shouting(x * 2) * 3" in text
    assert "size mismatch at index 0. expected 3, actual 4" in text and "Why no older entry served the call" in text


def test_it_loads_nothing_and_what_the_program_says_is_no_markup(several):
    made = page(several)
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", made)
    assert "default-src 'none'" in made and "<script>mean" not in made and "&lt;script&gt;mean" in made


def test_resumed_frames_stand_with_their_function(several):
    shouting = several.functions[2]
    assert [part.title for part in shouting.parts.values()] == [f"from line {shouting.line + 2} on"]
    assert len(several.functions[1].breaks) == 2 and several.functions[1].recompiles == 2


def test_the_picture_has_a_region_for_each_entry_and_a_point_for_each_call(several):
    (space,) = picture(several.functions[0])["spaces"]
    assert [dim["name"] for dim in space["dims"]] == ["B", "S"] and space["first"] == [0, 1]
    assert len(space["entries"]) == 8 and sum(call["count"] for call in space["calls"]) == 40
    assert not any(entry["unknown"] for entry in space["entries"])
    for call in space["calls"]:  # what is drawn of the entry that served a call is where the call is
        (entry,) = [each for each in space["entries"] if each["number"] == call["entry"]]
        assert all(value_of(tree, call["at"]) for tree in entry["conditions"])
        others = [each for each in space["entries"] if all(value_of(tree, call["at"]) for tree in each["conditions"])]
        assert others == [entry]


def value_of(tree, at):
    """As the page's script does."""
    if not isinstance(tree, list):
        return tree
    word, *rest = tree
    if word == "v":
        return at[rest[0]]
    if word == "cmp":
        parts = [value_of(part, at) for part in rest[1]]
        return all(eval(f"a {name} b", {"a": a, "b": b}) for name, a, b in zip(rest[0], parts, parts[1:]))
    a, b = (value_of(part, at) for part in rest)
    return eval(f"a {word} b", {"a": a, "b": b})


def test_dims_that_are_always_equal_are_one(tmp_path):
    def pair(x, y):
        return x + y if x.shape[0] > 3 else x - y

    def calls():
        made = tracer.compile(pair, dynamic=True)
        for n, m in ((5, 2), (2, 3), (9, 9), (4, 7)):
            made(torch.randn(n, m), torch.randn(n, m))

    (space,) = picture(found(tmp_path, calls).functions[0])["spaces"]
    assert [dim["name"] for dim in space["dims"]] == ["x.size(0) = y.size(0)", "x.size(1) = y.size(1)"]


def test_expressions_of_guards_as_the_script_reads_them():
    label = ["v", "L['x'].size()[0]"]
    assert expression("{0} % 8 == 0", [label[1]]) == ["cmp", ["=="], [["%", label, 8], 0]]
    assert expression("2 <= 2*{0} + 1 < {1}", [label[1], "n"])[1] == ["<=", "<"]
    assert expression("not ({0} < 3 or -{0} // 2 != max({0}, 4))", [label[1]])[0] == "not"
    assert expression("{0} if {0} > 2 else 5", [label[1]]) == ["if", ["cmp", [">"], [label, 2]], label, 5]
    for text in ("math.sqrt({0}) < 3", "open('x')", "{0}.size", "[{0}]", "{0} < 2.5", "__import__('os')", "{0} +"):
        with pytest.raises(Unknown):
            expression(text, [label[1]])


def test_names_are_short():
    assert short("2*L['x'].size()[1] <= L['kwargs']['mask'].size()[0]") == "2*x.size(1) <= mask.size(0)"


def test_idle_time_is_cut_out():
    axis = Axis([(0.0, 2.0), (1.0, 3.0), (86400.0, 86401.0)])
    assert [round(seconds) for _, seconds in axis.cuts()] == [86397]
    places = [axis.place(at) for at in (0.0, 1.0, 3.0, 86400.0, 86401.0)]
    assert places == sorted(places) and places[1] - places[0] == pytest.approx(places[4] - places[3]) and places[4] <= 1000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0002, "0.2 ms"),
        (0.0123, "12 ms"),
        (1.25, "1.2 s"),
        (99.949, "99.9 s"),
        (130, "2 min 10 s"),
        (7500, "2 h 5 min"),
        (1e6, "11 d 13 h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_a_child_process_is_shown_to_serve_from_its_parents_entries(tmp_path):
    run(FORKING, tmp_path)
    findings = gather(records.read(tmp_path))
    (function,) = findings.functions
    assert len(findings.processes) == 2 and function.served == 3 and len(function.entries) == 2
    assert "2 processes" in " ".join(text_of(page(findings)).split())


def test_from_the_command_line(tmp_path, capsys):
    recorded(tmp_path, lambda: tracer.compile(branching)(torch.randn(4, 32)))
    assert main(["report", str(tmp_path)]) == 0 and capsys.readouterr().out.strip() == str(tmp_path / "report.html")
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").read_text() == (tmp_path / "report.html").read_text()
    assert main(["report", str(tmp_path / "none")]) == 3 and "TRACER_REPORT" in capsys.readouterr().err


def test_what_many_entries_have_in_common_is_shown_once(tmp_path):
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(8)])

    def calls():
        made = tracer.compile(model)
        for n in (2, 3, 1):
            made(torch.randn(n, 4))

    made = page(found(tmp_path, calls))
    assert made.count("The same ones as") == 2
    assert html.unescape(made).count("3]._parameters['weight'], torch.nn.Parameter") <= 1
