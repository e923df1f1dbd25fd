"""Shape programs by topic, each with the sizes of some traced calls; a pair of them is one set of guards."""

from tests.shapes.equivalence.operators import (
    adaptive_pool,
    broadcast,
    cat,
    chunk,
    contiguous,
    conv,
    conv_transpose,
    expand,
    index_32bit,
    interpolate,
    matmul,
    narrow,
    numel,
    pad_to_multiple,
    pixel_shuffle,
    pool,
    select,
    slice_length,
    split,
    topk,
    unfold,
    view,
)

FAMILIES: dict[str, list] = {}


def program(family, *calls):
    """Adds a program; each call is the tuple of its sizes."""

    def register(function):
        FAMILIES.setdefault(family, []).append((function, calls))
        return function

    return register


# ---------------------------------------------------------------------------------------------- transformers


def attention(t, b, q, k, heads, width):
    matmul(t, width, width)
    view(t, [b, q, heads * width], [b, q, heads, width])
    view(t, [b, k, heads * width], [b, k, heads, width])
    contiguous(t, [b, heads, q, width], [q * heads * width, width, heads * width, 1])
    index_32bit(t, b, heads, q, k)
    return view(t, [b, q, heads, width], [b, q, heads * width])


@program("transformer", (2, 16), (3, 64), (8, 512), (2, 2))
def bert(t, b, s):
    t.check(s <= 512)
    broadcast(t, s, s)
    for _ in range(3):
        attention(t, b, s, s, 12, 64)
        view(t, [b, s, 768], [b * s, 768])
    t.decide(b * s != 1)
    select(t, s, 0)


@program("transformer", (2, 16), (4, 1024), (16, 33))
def gpt2(t, b, s):
    t.check(s <= 1024)
    slice_length(t, 1024, 0, s)
    expand(t, 1, b)
    attention(t, b, s, s, 12, 64)
    view(t, [b, s, 768], [-1, 768])
    view(t, [b * s, 2304], [b, s, 2304])
    slice_length(t, s, -1, s)


@program("transformer", (2, 1, 16), (4, 1, 127), (2, 7, 100), (3, 5, 5))
def llama_with_cache(t, b, s, past):
    total = cat(t, [past, s])
    t.check(total <= 2048)
    attention(t, b, s, total, 8, 128)
    if t.decide(s > 1):
        broadcast(t, s, s)
    expand(t, 1, total)
    narrow(t, 2048, past, s)


@program("transformer", (2, 12, 20), (4, 64, 64), (3, 9, 2))
def encoder_decoder(t, b, source, target):
    t.check(source <= 512)
    t.check(target <= 128)
    attention(t, b, source, source, 8, 64)
    attention(t, b, target, target, 8, 64)
    attention(t, b, target, source, 8, 64)
    broadcast(t, b, b)


@program("transformer", (2, 224, 224), (3, 256, 224), (8, 384, 384))
def vision_transformer(t, b, h, w):
    t.check(h % 16 == 0)
    t.check(w % 16 == 0)
    rows, columns = conv(t, h, 16, 16), conv(t, w, 16, 16)
    tokens = rows * columns + 1
    if t.decide(tokens != 197):
        t.check(rows * columns > 0)
    view(t, [b, 768, rows, columns], [b, 768, rows * columns])
    attention(t, b, tokens, tokens, 12, 64)


@program("transformer", (2, 56, 56), (3, 60, 56), (2, 30, 50))
def window_attention(t, b, h, w):
    height, width = pad_to_multiple(t, h, 7), pad_to_multiple(t, w, 7)
    windows = view(t, [b, height, width, 96], [b, height // 7, 7, width // 7, 7, 96])
    view(t, windows, [-1, 49, 96])
    if t.decide(t.min(height, width) <= 7):
        return
    t.check(b * (height // 7) * (width // 7) > 1)


@program("transformer", (4, 100), (2, 512), (6, 64), (3, 65))
def blocked_attention(t, b, s):
    padded = pad_to_multiple(t, s, 64)
    blocks = padded // 64
    view(t, [b, padded, 512], [b, blocks, 64, 512])
    if t.decide(blocks > 1):
        t.check(padded >= 128)
    slice_length(t, padded, 0, s)


@program("transformer", (8, 128), (5, 100), (1, 256), (16, 64))
def branches_of_a_server(t, b, s):
    if t.decide(b == 1):
        return
    if t.decide(b <= 8):
        t.decide(s % 128 == 0)
    t.decide(b * s <= 4096)


# ------------------------------------------------------------------------------------ attention with padding


@program("padding", (2, 16, 16), (4, 7, 9), (3, 128, 100))
def masked(t, b, s, mask):
    if t.decide(mask < s):
        s = mask
    t.check(mask >= s)
    attention(t, b, s, s, 4, 32)


@program("padding", (2, 16), (3, 17), (2, 24), (4, 8))
def padded_to_eight(t, b, s):
    padded = pad_to_multiple(t, s, 8)
    t.check(padded % 8 == 0)
    t.check(padded >= s)
    t.check(padded - s < 8)
    attention(t, b, padded, padded, 4, 32)


@program("padding", (10, 12, 20), (7, 7, 7), (30, 4, 2))
def longest_of_three(t, a, b, c):
    longest = t.max(a, b, c)
    for size in (a, b, c):
        t.check(longest - size >= 0)
        t.decide(longest == size)
    t.check(longest <= 1024)
    t.decide(t.min(a, b, c) >= 4)


@program("padding", (2, 50), (4, 300), (8, 513))
def sliding_window(t, b, s):
    window = t.min(s, 256)
    t.check(window <= s)
    if t.decide(s > 256):
        narrow(t, s, s - 256, 256)
    slice_length(t, s, -256, s)
    index_32bit(t, b, s, window)


@program("padding", (4, 24, 8), (2, 40, 4), (6, 18, 6))
def packed_sequences(t, b, s, length):
    t.check(b * s >= length)
    t.check((b * s) % length == 0)
    rows = (b * s) // length
    t.check(rows * length == b * s)
    t.decide(rows == 1)


@program("padding", (3, 20), (2, 64), (5, 33))
def alibi(t, b, s):
    half = (s + 1) // 2
    t.check(half <= s)
    t.check(half >= 1)
    t.decide(half * 2 == s)
    t.decide(half * 2 == s + 1)


@program("padding", (2, 30, 5), (3, 12, 12), (2, 9, 1))
def prefix_mask(t, b, s, prefix):
    t.check(prefix <= s)
    t.check(s - prefix >= 0)
    if t.decide(prefix == s):
        return
    attention(t, b, s - prefix, s, 2, 16)
    t.check(s > prefix)


# --------------------------------------------------------------------------------------------- convolutions


@program("convolution", (2, 224, 224), (3, 225, 200), (4, 64, 96), (2, 33, 32))
def resnet(t, b, h, w):
    sizes = [pool(t, conv(t, n, 7, 2, 3), 3, 2, 1) for n in (h, w)]
    for _ in range(3):
        down = [conv(t, n, 3, 2, 1) for n in sizes]
        same = [conv(t, n, 3, 1, 1) for n in down]
        short = [conv(t, n, 1, 2) for n in sizes]
        sizes = [broadcast(t, a, s) for a, s in zip(same, short)]
    index_32bit(t, b, 2048, *sizes)
    t.decide(numel(sizes) == 1)


@program("convolution", (2, 64, 64), (3, 48, 80), (2, 32, 33))
def unet(t, b, h, w):
    for n in (h, w):
        down = pool(t, n, 2)
        deeper = pool(t, down, 2)
        up = conv_transpose(t, deeper, 2, 2)
        if not t.decide(up == down):
            t.check(down - up == 1)
        again = down * 2
        t.decide(again == n)
    t.check(b != 0)


@program("convolution", (2, 100), (4, 1600), (2, 4001))
def wave_encoder(t, b, n):
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (2, 2)):
        n = conv(t, n, kernel, stride)
    t.check(n >= 1)
    view(t, [b, 512, n], [b, 512 * n])


@program("convolution", (2, 20), (3, 64), (2, 7))
def dilated_stack(t, b, n):
    for dilation in (1, 2, 4):
        n = conv(t, n, 3, 1, dilation, dilation)
    t.check(n > 0)
    t.decide(b * n > 100)


@program("convolution", (2, 8, 8), (3, 7, 9), (1, 16, 5))
def generator(t, b, h, w):
    for _ in range(2):
        h, w = (conv_transpose(t, n, 4, 2, 1) for n in (h, w))
    t.check(h % 4 == 0)
    t.check(w % 4 == 0)
    t.decide(h == w)
    t.decide(b == 1)


@program("convolution", (2, 12, 10), (3, 16, 16), (2, 9, 31))
def causal(t, b, n, length):
    padded = n + 2 * 2
    out = conv(t, padded, 5)
    t.check(out == n)
    t.decide(out < length)


@program("convolution", (2, 30, 40), (4, 31, 41), (3, 64, 17))
def depth_pyramid(t, b, h, w):
    small = [conv(t, n, 3, 2, 1) for n in (h, w)]
    back = [n * 2 for n in small]
    for n, m in zip((h, w), back):
        if not t.decide(n == m):
            t.check(m >= n)
            narrow(t, m, 0, n)


@program("convolution", (4, 4, 32), (8, 3, 63), (2, 12, 96))
def grouped(t, b, groups, channels):
    t.check(channels % groups == 0)
    each = channels // groups
    t.check(each * groups == channels)
    view(t, [b, channels, 7], [b, groups, each, 7])
    t.decide(each == 1)


# ------------------------------------------------------------------------------------------------- pooling


@program("pooling", (2, 28, 28), (3, 27, 30), (2, 10, 100))
def lenet(t, b, h, w):
    h, w = (pool(t, conv(t, pool(t, conv(t, n, 3), 2), 3), 2) for n in (h, w))
    view(t, [b, 16, h, w], [b, -1])
    t.decide(h * w * 16 == 400)


@program("pooling", (2, 20), (3, 21), (5, 22), (2, 4))
def ceiling(t, b, n):
    out = pool(t, n, 3, 2, 1, ceil_mode=True)
    floor = pool(t, n, 3, 2, 1)
    t.check(out >= floor)
    t.decide(out == floor)


@program("pooling", (2, 14, 14), (3, 7, 21), (2, 10, 15))
def adaptive(t, b, h, w):
    for n in (h, w):
        adaptive_pool(t, n, 7)
    if t.decide(h % 7 == 0):
        t.decide(h // 7 == w // 7)


@program("pooling", (2, 32, 32), (3, 50, 20), (2, 19, 21))
def spatial_pyramid(t, b, h, w):
    for level in (1, 2, 4):
        for n in (h, w):
            kernel = (n + level - 1) // level
            padding = (kernel * level - n + 1) // 2
            t.check(2 * padding <= kernel)
            t.check((n + 2 * padding - kernel) // kernel + 1 >= level)


@program("pooling", (4, 16), (2, 17), (8, 40))
def average_of_pairs(t, b, n):
    t.check(n >= 2)
    pairs = n // 2
    if not t.decide(pairs * 2 == n):
        t.check(n - pairs * 2 == 1)
    t.check(pairs <= n)
    t.check(pairs > 0)


@program("pooling", (2, 64, 64), (3, 40, 48), (2, 33, 66))
def inception(t, b, h, w):
    for n in (h, w):
        branches = [conv(t, n, 3, 2), pool(t, n, 3, 2), conv(t, conv(t, n, 3, 1, 1), 3, 2)]
        t.check(branches[0] == branches[1])
        t.check(branches[1] == branches[2])
        t.check(branches[0] >= 2)


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
