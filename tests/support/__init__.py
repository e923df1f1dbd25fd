"""What tests share: a program run by CPython and traced, and what they have to compare and to count."""

from tests.support.checking import Checked as Checked
from tests.support.checking import breaks as breaks
from tests.support.checking import captured as captured
from tests.support.checking import captured_made as captured_made
from tests.support.checking import check as check
from tests.support.checking import check_made as check_made
from tests.support.checking import collect_garbage as collect_garbage
