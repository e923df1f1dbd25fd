"""csv over lines and files that the trace knows."""

from __future__ import annotations

import csv
import io
from typing import Any

import torch

from tests.support import breaks, captured

X = torch.ones(3)


def test_rows_become_lists_and_dicts() -> None:
    def f(x: torch.Tensor) -> Any:
        table = csv.DictReader(io.StringIO('name,size\r\n"a, b",1\r\n\r\nc,"2\n3"\r\n'))
        rows = [row["size"] for row in table]
        numbers = list(csv.reader(["1 2.5"], delimiter=" ", quoting=csv.QUOTE_NONNUMERIC))
        return x * len(rows), rows, table.fieldnames, table.line_num, numbers, list(csv.reader(["a\tb"], csv.excel_tab))

    captured(f, X)


def test_lines_are_asked_for_one_by_one() -> None:
    def f(x: torch.Tensor) -> Any:
        asked: list[Any] = []

        def lines() -> Any:
            for line in ("a,b", '"c', 'd",e'):
                asked.append(line)
                yield line

        reader = csv.reader(lines())
        first = next(reader), list(asked), reader.line_num
        return x + 1, first, list(reader), asked, reader.line_num

    captured(f, X)


def test_rows_are_written_to_a_buffer_or_an_object_of_the_program() -> None:
    class Lines:
        def __init__(self) -> None:
            self.written: list[str] = []

        def write(self, text: str) -> int:
            self.written.append(text)
            return len(text)

    def f(x: torch.Tensor) -> Any:
        file, lines = io.StringIO(), Lines()
        table = csv.DictWriter(file, ["a", "b"], restval="-")
        table.writeheader()
        table.writerows([{"a": 1, "b": "x,y"}, {"a": None}])
        writer = csv.writer(lines, delimiter=";", lineterminator="|")
        counts = [writer.writerow((1.5, 'q"', True)), writer.writerows([[], ["a"]])]
        return x + 1, file.getvalue(), lines.written, counts

    captured(f, X)


def test_an_error_of_csv_is_raised() -> None:
    def f(x: torch.Tensor) -> Any:
        told = []
        for use in (
            lambda: list(csv.reader([b"a"])),
            lambda: csv.reader([], delimiter="ab"),
            lambda: list(csv.reader(['"'], strict=True)),
        ):
            try:
                use()
            except (csv.Error, TypeError) as error:
                told.append((type(error), str(error)))
        return x + 1, told

    captured(f, X)


def test_readers_and_writers_leave_the_graph() -> None:
    def f(x: torch.Tensor) -> Any:
        file = io.StringIO()
        writer, reader = csv.writer(file, delimiter=";"), csv.reader(iter(["a;b", "c"]), delimiter=";")
        writer.writerow([1, 2])
        print(end="")
        writer.writerow([3])
        return x + 1, file.getvalue(), next(reader), list(reader)

    breaks(f, X)


def test_a_reader_in_the_middle_is_left_to_cpython() -> None:
    def f(x: torch.Tensor) -> Any:
        seen = []
        for row in csv.reader(["a,b", "c,d"]):
            print(end="")
            seen.append(row)
        return x + 1, seen

    breaks(f, X)
