"""The specification (docs/specs/permutation.md) once more, in slow Python written from its text alone."""

from __future__ import annotations

M64 = (1 << 64) - 1
M32 = (1 << 32) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & M64
    return z ^ (z >> 31)


def absorb(h: int, word: int) -> int:
    return mix64(((h ^ word) + GOLDEN) & M64)


class Generator:
    def __init__(self, state: int) -> None:
        self.state = state

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & M64
        return mix64(self.state)


def seed_key(seed: int) -> int:
    if 0 <= seed <= M64:
        return seed
    key = absorb(0, 1 if seed < 0 else 0)
    value = abs(seed)
    while value:
        key = absorb(key, value & M64)
        value >>= 64
    return key


class Permutation:
    def __init__(self, seed: int, epoch: int, stream: int, n: int) -> None:
        self.n = n
        self.bits = 8
        while 1 << self.bits < n:
            self.bits += 1
        self.low_bits = self.bits // 2
        self.high_bits = self.bits - self.low_bits
        state = int.from_bytes(b"hdrcep01", "big")
        for word in (seed_key(seed), epoch, stream, n):
            state = absorb(state, word)
        generator = Generator(state)
        self.offset = generator.next()
        words = [generator.next() for _ in range(8)]
        self.keys = [(w >> 32, (w & M32) | 1) for w in words]

    def _f(self, r: int, half: int, width: int) -> int:
        add, multiply = self.keys[r]
        t = (half + add) * multiply & M32
        t = (t ^ (t >> 15)) * 0x9E3779B1 & M32
        return t >> (32 - width)

    def _step(self, x: int) -> int:
        x = (x + self.offset) % (1 << self.bits)
        high, low = x >> self.low_bits, x % (1 << self.low_bits)
        for r in range(8):
            if r % 2 == 0:
                high ^= self._f(r, low, self.high_bits)
            else:
                low ^= self._f(r, high, self.low_bits)
        return high << self.low_bits | low

    def __getitem__(self, position: int) -> int:
        x = self._step(position)
        while x >= self.n:
            x = self._step(x)
        return x


def windows(seed: int, epoch: int, window: int, n: int) -> list[int]:
    values = []
    for number, start in enumerate(range(0, n, window)):
        size = min(window, n - start)
        permutation = Permutation(seed, epoch, number, size)
        values += [start + permutation[i] for i in range(size)]
    return values


def mix_choices(counts: list[int], seed: int | None, epoch: int, n: int) -> list[int]:
    """The plan of each of the first n positions."""
    places = [((2 * r + 1) / c, plan) for plan, c in enumerate(counts) for r in range(c)]
    pattern = [plan for _, plan in sorted(places)]
    base = [pattern[i % len(pattern)] for i in range(n)]
    if seed is None:
        return base
    cell = min(len(pattern), 64)
    chosen = []
    for number, start in enumerate(range(0, n, cell)):
        part = base[start : start + cell]
        generator = Generator(absorb(absorb(absorb(seed_key(seed), 0x6D6978), epoch), number))
        place = list(range(len(part)))
        for i in range(len(part) - 1, 0, -1):
            j = ((generator.next() >> 32) * (i + 1)) >> 32
            place[i], place[j] = place[j], place[i]
        chosen += [part[p] for p in place]
    return chosen
