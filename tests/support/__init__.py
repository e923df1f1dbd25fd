"""What tests share. `checking` runs a program in CPython and traced, and `comparing` compares what the two leave behind.

`outcomes`: what a call gives, whether it returns or raises. `graphs`: a backend that keeps what it is given. `regions`: what is
cached. `processes`: programs in a process of their own. The others hold values and programs that several tests use.
"""

from tests.support.checking import Checked as Checked
from tests.support.checking import breaks as breaks
from tests.support.checking import captured as captured
from tests.support.checking import captured_made as captured_made
from tests.support.checking import check as check
from tests.support.checking import check_made as check_made
from tests.support.checking import collect_garbage as collect_garbage
