"""Pages that list what there is, and links between pages."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import tracer
from tracer import exc

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
API = (ROOT / "docs" / "api.md").read_text()


def test_the_api_page_has_every_public_name_once():
    told = Counter([*re.findall(r"^::: tracer\.(\w+)", API, re.MULTILINE), *re.findall(r"`tracer\.(\w+)` is", API)])
    told["exc"] = told.pop("errors")
    assert told == Counter(tracer.__all__)


def test_the_api_page_has_every_error():
    listed = re.search(r"members: \[(TracerError[^]]*)\]", API)
    assert listed is not None and set(re.findall(r"\w+", listed[1])) == set(exc.__all__)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


def test_every_page_of_docs_is_in_the_site():
    nav = (ROOT / "mkdocs.yml").read_text()
    assert not [page.name for page in ROOT.glob("docs/**/*.md") if f" {page.relative_to(ROOT / 'docs')}\n" not in nav]


def test_the_changelog_tells_of_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## \[(.*?)\]", changelog, re.MULTILINE)[:2] == ["Unreleased", tracer.__version__]
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == tracer.__version__


def test_words_of_the_glossary_are_in_order_and_told_once():
    words = re.findall(r"^\*\*(.+?)\.\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert words == sorted(set(words), key=str.lower) and len(words) >= 20
