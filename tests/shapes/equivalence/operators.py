"""How PyTorch's operators compute sizes, and what they decide on the way; `t` is a run of `recording`."""

import math


def broadcast(t, a, b):
    """The size of a + b in one dim."""
    if t.decide(a == b):
        return a
    if t.decide(a == 1):
        return b
    t.check(b == 1)
    return a


def expand(t, size, to):
    if t.decide(size == to):
        return to
    t.check(size == 1)
    return to


def matmul(t, inner, other):
    t.check(inner == other)


def numel(sizes):
    return math.prod(sizes)


def view(t, old, new):
    """The sizes of x.view(new), one of which may be -1."""
    if -1 not in [size for size in new if isinstance(size, int)]:
        t.check(numel(old) == numel(new))
        return list(new)
    known = numel([size for size in new if not (isinstance(size, int) and size == -1)])
    t.check(known != 0)
    t.check(numel(old) % known == 0)
    return [numel(old) // known if isinstance(size, int) and size == -1 else size for size in new]


def contiguous(t, sizes, strides):
    """Is a tensor of these strides contiguous?"""
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if t.decide(size == 1):
            continue
        if not t.decide(stride == expected):
            return False
        expected = expected * size
    return True


def conv(t, n, kernel, stride=1, padding=0, dilation=1):
    t.check(n + 2 * padding >= dilation * (kernel - 1) + 1)
    out = (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    t.check(out > 0)
    return out


def conv_transpose(t, n, kernel, stride=1, padding=0, output_padding=0, dilation=1):
    out = (n - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1
    t.check(out > 0)
    return out


def pool(t, n, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    stride = stride or kernel
    t.check(n != 0)
    out = (n + 2 * padding - dilation * (kernel - 1) - 1 + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and t.decide((out - 1) * stride >= n + padding):
        out = out - 1
    t.check(out >= 1)
    return out


def adaptive_pool(t, n, out):
    t.check(n != 0)
    if t.decide(n % out == 0):
        return n // out
    return n


def unfold(t, n, size, step):
    t.check(n >= size)
    return (n - size) // step + 1


def pad_to_multiple(t, n, multiple):
    rest = n % multiple
    if t.decide(rest != 0):
        return n + multiple - rest
    return n


def slice_length(t, n, start, end, step=1):
    """len(range(n)[start:end:step]) with the decisions that clamping takes."""
    if isinstance(start, int) and start < 0:
        start = start + n
        if t.decide(start < 0):
            start = 0
    if isinstance(end, int) and end < 0:
        end = end + n
    if t.decide(start > n):
        start = n
    if t.decide(end > n):
        end = n
    if t.decide(end < start):
        end = start
    return (end - start + step - 1) // step


def narrow(t, n, start, length):
    t.check(length >= 0)
    t.check(start + length <= n)
    return length


def select(t, n, index):
    t.check(-n <= index)
    t.check(index < n)


def split(t, n, size):
    """The sizes of the pieces; how many there are is decided."""
    pieces, rest = [], n
    while t.decide(rest > size):
        pieces.append(size)
        rest = rest - size
    return [*pieces, rest]


def chunk(t, n, chunks):
    return split(t, n, (n + chunks - 1) // chunks)


def cat(t, sizes):
    total = sizes[0]
    for size in sizes[1:]:
        if not t.decide(size == 0):
            total = total + size
    return total


def pixel_shuffle(t, channels, h, w, factor):
    t.check(channels % (factor * factor) == 0)
    return channels // (factor * factor), h * factor, w * factor


def interpolate(t, n, scale):
    out = t.floor(n * scale) if isinstance(scale, float) else n * scale
    t.check(out > 0)
    return out


def topk(t, n, k):
    t.check(k >= 0)
    t.check(k <= n)
    return k


def index_32bit(t, *sizes):
    """Kernels choose their index type by the number of elements."""
    return t.decide(numel(sizes) < 2**31)
