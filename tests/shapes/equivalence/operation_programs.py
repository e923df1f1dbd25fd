"""Shape programs of operations: views, splits, padding and resizing, and arithmetic on sizes."""

from tests.shapes.equivalence.families import program
from tests.shapes.equivalence.operators import (
    cat,
    chunk,
    contiguous,
    conv,
    index_32bit,
    interpolate,
    narrow,
    pad_to_multiple,
    pixel_shuffle,
    select,
    slice_length,
    split,
    topk,
    unfold,
    view,
)

# --------------------------------------------------------------------------------- reshape, view, split, cat


@program("reshape", (4, 6), (8, 32), (3, 12))
def flatten_and_back(t, a, b):
    flat = view(t, [a, b], [-1])[0]
    back = view(t, [flat], [a, -1])
    t.check(back[1] == b)
    view(t, back, [b, a])
    t.decide(a < b)


@program("reshape", (4, 6, 8), (2, 9, 3), (16, 2, 2))
def merge_dims(t, a, b, c):
    merged = view(t, [a, b, c], [a * b, c])
    view(t, merged, [a, b * c])
    contiguous(t, [a, b, c], [b * c, c, 1])
    contiguous(t, [b, a, c], [c, b * c, 1])
    t.check(a * b * c >= 8)


@program("reshape", (24, 4), (36, 6), (64, 8))
def divide_dim(t, n, parts):
    t.check(n % parts == 0)
    each = n // parts
    t.check(each * parts == n)
    t.decide(each >= parts)
    t.check(each <= n)


@program("reshape", (12,), (48,), (64,), (100,))
def view_as_heads(t, n):
    t.check(n % 4 == 0)
    view(t, [n], [-1, 4])
    t.decide(n % 8 == 0)
    t.decide(n % 16 == 0)
    t.check((n // 4) * 4 == n)


@program("reshape", (3, 4, 5), (2, 2, 2), (7, 3, 9))
def permuted(t, a, b, c):
    contiguous(t, [c, a, b], [1, b * c, c])
    t.decide(a == c)
    index_32bit(t, a, b, c)


@program("split", (10,), (16,), (3,), (17,))
def split_by_four(t, n):
    pieces = split(t, n, 4)
    last = pieces[-1]
    t.decide(last == 4)
    t.check(last > 0)


@program("split", (10, 3), (16, 5), (6, 6))
def split_by_symbol(t, n, size):
    pieces = split(t, n, size)
    t.check(cat(t, pieces) == n)
    t.decide(pieces[-1] == size)


@program("split", (10,), (9,), (20,), (6,))
def three_chunks(t, n):
    pieces = chunk(t, n, 3)
    t.check(pieces[0] * 3 >= n)
    t.decide(pieces[0] == pieces[-1])


@program("split", (12, 4, 3), (40, 10, 20), (9, 2, 7))
def narrowed(t, n, start, length):
    narrow(t, n, start, length)
    rest = n - start - length
    t.check(rest >= 0)
    t.decide(rest == 0)
    t.decide(start == 0)


@program("cat", (4, 6), (6, 4), (5, 5))
def cat_two(t, a, b):
    total = cat(t, [a, b])
    t.check(total >= 4)
    t.check(total > a)
    t.decide(total % 2 == 0)
    t.decide(total == 10)


@program("cat", (3, 4, 5), (8, 8, 8), (2, 9, 2))
def cat_three_and_slice(t, a, b, c):
    total = cat(t, [a, b, c])
    slice_length(t, total, 0, a)
    narrow(t, total, a, b)
    narrow(t, total, a + b, c)
    t.decide(total <= 16)
    t.check(total - c == a + b)


@program("cat", (3, 9), (4, 8), (6, 6))
def stack_or_cat(t, a, b):
    if t.decide(a == b):
        view(t, [a, b], [a * b])
    else:
        t.check(cat(t, [a, b]) != 2 * a)


# ------------------------------------------------------------------------- pad, slice, unfold, interpolate


@program("pad", (13,), (16,), (31,), (64,))
def to_sixteen(t, n):
    padded = pad_to_multiple(t, n, 16)
    t.check(padded % 16 == 0)
    t.check(padded - n <= 15)
    t.decide(padded == 32)


@program("pad", (10, 3), (20, 20), (5, 9))
def reflect(t, n, width):
    t.check(width > 0)
    if t.decide(width < n):
        t.check(n + 2 * width <= 3 * n)
    t.check(n + 2 * width > n)


@program("pad", (7, 5), (6, 6), (3, 11))
def square(t, h, w):
    side = t.max(h, w)
    for n in (h, w):
        before = (side - n) // 2
        after = side - n - before
        t.check(before >= 0)
        t.check(after >= before)
        t.check(after - before <= 1)
        t.decide(after + before == 0)


@program("slice", (10, 3, 8), (6, 2, 9), (12, 12, 12), (8, 6, 4))
def between(t, n, start, end):
    length = slice_length(t, n, start, end)
    t.decide(length == 0)
    t.check(length >= 0)


@program("slice", (10,), (11,), (2,), (5,))
def last_four_by_two(t, n):
    t.decide(slice_length(t, n, -4, n, 2) == 2)
    slice_length(t, n, 1, -1)
    select(t, n, -1)


@program("slice", (12, 5), (9, 9), (30, 2))
def strided(t, n, step):
    count = (n + step - 1) // step
    t.check(count >= 1)
    t.check((count - 1) * step < n)
    t.decide(count * step == n)


@program("unfold", (100,), (10,), (37,), (64,))
def frames(t, n):
    count = unfold(t, n, 10, 5)
    t.check((count - 1) * 5 + 10 <= n)
    t.decide((count - 1) * 5 + 10 == n)
    t.decide(count == 1)


@program("unfold", (100, 10, 5), (40, 8, 8), (33, 4, 3))
def frames_by_symbol(t, n, size, step):
    count = unfold(t, n, size, step)
    t.check(count >= 1)
    t.check((count - 1) * step + size <= n)


@program("unfold", (2, 9, 12), (3, 8, 8), (2, 5, 30))
def patches(t, b, h, w):
    rows, columns = ((n + 2 - 3) // 2 + 1 for n in (h, w))
    t.check(rows > 0)
    t.check(columns > 0)
    t.check(rows * columns > 0)
    view(t, [b, 9, rows, columns], [b, 9, rows * columns])
    t.decide(rows == columns)


@program("interpolate", (16, 16), (5, 9), (30, 2))
def twice(t, h, w):
    h, w = interpolate(t, h, 2), interpolate(t, w, 2)
    t.check(h % 2 == 0)
    t.check(h * w >= 16)
    t.decide(h == w)
    conv(t, h, 3, 2, 1)


@program("interpolate", (16, 10), (7, 9), (30, 31))
def by_half(t, h, w):
    for n in (h, w):
        out = n // 2
        t.check(out > 0)
        t.decide(out * 2 == n)
    t.decide(h // 2 == w // 2)


@program("interpolate", (8, 3, 4), (4, 5, 9), (16, 2, 2))
def upscaled_pixels(t, channels, h, w):
    depth, height, width = pixel_shuffle(t, channels, h, w, 2)
    t.check(depth * height * width == channels * h * w)
    t.check(depth >= 1)
    t.decide(depth == 1)


# --------------------------------------------------------------------------------------- integers of all kinds


@program("arithmetic", (5, 9, 30, 100), (2, 3, 4, 5), (7, 8, 900, 2000))
def chain_of_bounds(t, a, b, c, d):
    t.check(a < 2**31)
    t.check(100 * a < 2**31)
    t.check(a < b)
    t.check(b < c)
    t.check(c < d)
    t.check(a < d)
    t.check(d < 2**40)


@program("arithmetic", (8, 8), (6, 12), (16, 3))
def ratios(t, a, b):
    t.decide(a // b == 1)
    t.decide(a % b == 0)
    t.decide(b % a == 0)
    t.check((a // b) * b + a % b == a)


@program("arithmetic", (64, 6), (16, 4), (33, 3), (12, 10))
def bits(t, n, mask):
    t.decide(n & (n - 1) == 0)
    t.decide(n & 7 == 0)
    t.decide(n % 8 == 0)
    t.check(n | 1 >= n)
    t.decide((n ^ 5) % 2 == 1)
    t.check(mask & 3 <= mask)


@program("arithmetic", (40, 3), (7, 1), (129, 5))
def shifts(t, n, by):
    t.check(by < 8)
    t.check((n >> 2) * 4 <= n)
    t.decide(n >> by == 0)
    t.check(1 << by >= 2)
    t.decide((1 << by) > n)


@program("arithmetic", (7, 3), (3, 7), (5, 5))
def distances(t, a, b):
    t.check(abs(a - b) >= 0)
    t.check(abs(a - b) == t.max(a, b) - t.min(a, b))
    t.decide(abs(a - b) > 2)
    t.decide(a - b > 2)
    t.decide(b - a > 2)


@program("arithmetic", (3, 5), (10, 2), (6, 6))
def powers(t, a, b):
    t.check(a**2 >= a)
    t.decide(a**2 + b**2 > 50)
    t.decide(a**2 >= b**2)
    t.decide(a >= b)


@program("arithmetic", (-7, 2), (7, -2), (-8, -3), (0, 5), (9, 3))
def signs(t, a, b):
    """Plain ints of the program, which may be negative or zero."""
    t.decide(a < 0)
    t.check(b != 0)
    t.decide(a // b < 0)
    t.decide(a % b == 0)
    t.check(a % b + (a // b) * b == a)
    t.decide(b > 0)


@program("arithmetic", (4, 10), (5, 5), (10, 4))
def either_and_both(t, a, b):
    t.decide(t.either(a == b, a < 5))
    t.decide(t.both(a < b, b > 6))
    t.check(t.either(a <= b, b <= a))
    t.decide(a < b)


@program("arithmetic", (20, 7, 3), (9, 9, 9), (100, 2, 50))
def top(t, n, k, batch):
    topk(t, n, k)
    t.check(batch * k <= batch * n)
    t.decide(n - k >= k)


# ---------------------------------------------------------------------------------------------------- floats


@program("float", (16, 10), (7, 9), (31, 30))
def scaled(t, h, w):
    for n in (h, w):
        out = interpolate(t, n, 1.5)
        t.decide(out == 24)
        t.check(n >= 2)
        t.check(n >= 1)


@program("float", (16, 4), (49, 7), (10, 3))
def average(t, n, k):
    t.decide(t.ratio(n, k) > 3.5)
    t.decide(t.ratio(1, n) * n == 1.0)
    t.check(n >= k)
    t.check(n + 1 > k)


@program("float", (12,), (100,), (7,))
def kept_by_dropout(t, n):
    kept = t.integer(n * 0.9)
    t.check(kept <= n)
    t.decide(kept == n)
    t.decide(t.ceil(n * 0.1) >= 2)
    t.check(n > 0)
