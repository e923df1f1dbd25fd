"""Shape programs of models: transformers, padding, convolutions and pooling."""

from tests.shapes.equivalence.families import program
from tests.shapes.equivalence.operators import (
    adaptive_pool,
    broadcast,
    cat,
    contiguous,
    conv,
    conv_transpose,
    expand,
    index_32bit,
    matmul,
    narrow,
    numel,
    pad_to_multiple,
    pool,
    select,
    slice_length,
    view,
)

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
