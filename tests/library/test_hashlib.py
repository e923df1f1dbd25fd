"""Hashes of bytes that are known while tracing, and what is compressed of them; functions of texts and of complex numbers."""

from __future__ import annotations

import cmath
import hashlib
import hmac
import unicodedata
import zlib
from typing import Any

import torch

from tests.support import breaks, captured, check

X = torch.ones(3)


def test_a_bucket_by_the_hash_of_a_name() -> None:
    def f(x: torch.Tensor, name: str) -> Any:
        bucket = int(hashlib.md5(name.encode()).hexdigest(), 16) % 3
        return x[bucket] * 2, bucket

    captured(f, X, "feature")


def test_a_hash_that_grows() -> None:
    def f(x: torch.Tensor) -> Any:
        one = hashlib.sha256()
        other = one
        other.update(b"a")
        copied = one.copy()
        one.update(b"b")
        add = copied.update
        add(b"c")
        return x + 1, one.hexdigest(), copied.digest(), one is other, one.name, one.digest_size, one.block_size, bool(one)

    captured(f, X)


def test_a_hash_that_leaves_the_frame_and_goes_on() -> None:
    def f(x: torch.Tensor) -> Any:
        one = hashlib.sha1(b"a")
        one.update(b"b")
        y = x + 1
        print(end="")
        one.update(b"c")
        return y * 2, one.hexdigest(), type(one).__name__

    breaks(f, X)


def test_what_cannot_be_hashed() -> None:
    def f(x: torch.Tensor, given: Any) -> Any:
        try:
            hashlib.md5().update(given)
        except TypeError as error:
            return x + 1, str(error)
        return x + 2

    for given in ("text", 5, None, bytearray(b"a")):
        check(f, X, given)


def test_functions_of_complex_numbers_and_texts() -> None:
    def f(x: torch.Tensor) -> Any:
        numbers = cmath.exp(1j), cmath.phase(-1), cmath.polar(1 + 1j), cmath.sqrt(-1), cmath.isnan(1j)
        texts = unicodedata.normalize("NFKD", "\u00e9"), unicodedata.category("a"), unicodedata.name("a")
        found = []
        for call in (lambda: cmath.log(0), lambda: cmath.exp("a"), lambda: unicodedata.name("\x00")):
            try:
                call()
            except (ValueError, TypeError) as error:
                found.append(str(error))
        return x * numbers[0].real, numbers, texts, found

    captured(f, X)


def test_hashes_by_name_with_options_and_keys() -> None:
    def f(x: torch.Tensor) -> Any:
        keyed = hmac.new(b"key", digestmod=hashlib.sha256)
        keyed.update(b"a")
        copied = keyed.copy()
        keyed.update(b"b")
        named = hashlib.new("sha1", b"a", usedforsecurity=False)
        others = hashlib.shake_128(b"a").hexdigest(5), hashlib.blake2b(b"a", digest_size=9, person=b"p").hexdigest()
        derived = hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 3), hmac.digest(b"key", b"a", "sha512")
        same = hmac.compare_digest(keyed.hexdigest(), copied.hexdigest())
        return x + same, keyed.digest(), copied.hexdigest(), keyed.name, named.hexdigest(), others, derived

    captured(f, X)


def test_hashes_and_compressors_that_leave_the_frame_go_on() -> None:
    def f(x: torch.Tensor) -> Any:
        keyed, packer, unpacker = hmac.new(b"key", b"a", "md5"), zlib.compressobj(level=9), zlib.decompressobj()
        keyed.update(b"b")
        first = packer.compress(b"abc" * 50)
        text = unpacker.decompress(zlib.compress(b"xyz") + b"rest", 2)
        print(end="")
        keyed.update(b"c")
        return x + 1, keyed.hexdigest(), first + packer.copy().flush(), text, unpacker.flush(), unpacker.unused_data

    breaks(f, X)


def test_bytes_are_compressed_and_decompressed_piece_by_piece() -> None:
    def f(x: torch.Tensor) -> Any:
        packer = zlib.compressobj(1)
        packed = b"".join(map(packer.compress, (b"a" * 40, b"b"))) + packer.flush()
        unpacker = zlib.decompressobj()
        return x + len(packed), unpacker.decompress(packed, max_length=30), unpacker.unconsumed_tail, unpacker.eof

    captured(f, X)


def test_what_cannot_be_decompressed_is_left_to_cpython() -> None:
    def f(x: torch.Tensor) -> Any:
        unpacker = zlib.decompressobj()
        try:
            unpacker.decompress(b"no such bytes")
        except zlib.error as error:
            return x + 1, str(error)
        return x

    breaks(f, X)
