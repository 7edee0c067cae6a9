"""FarmHash Fingerprint64 of bytes: which bucket TensorFlow gives a word that its table doesn't hold."""

from __future__ import annotations

__all__ = ["fingerprint64"]

_MASK = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _rotate(x: int, by: int) -> int:
    x &= _MASK
    return (x >> by) | (x << (64 - by) & _MASK)


def _mix(x: int) -> int:
    x &= _MASK
    return x ^ (x >> 47)


def _two(u: int, v: int, mul: int) -> int:
    a = _mix((u ^ v) * mul)
    return _mix((v ^ a) * mul) * mul & _MASK


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _short(data: bytes) -> int:
    n = len(data)
    mul = _K2 + 2 * n
    if n >= 8:
        a, b = (_u64(data, 0) + _K2) & _MASK, _u64(data, n - 8)
        return _two((_rotate(b, 37) * mul + a) & _MASK, (_rotate(a, 25) + b) * mul & _MASK, mul)
    if n >= 4:
        return _two(n + (_u32(data, 0) << 3), _u32(data, n - 4), mul)
    if n:
        y, z = data[0] + (data[n >> 1] << 8), n + (data[n - 1] << 2)
        return _mix(y * _K2 ^ z * _K0) * _K2 & _MASK
    return _K2


def _middle(data: bytes) -> int:
    n = len(data)
    mul = _K2 + 2 * n
    if n <= 32:
        a, b = _u64(data, 0) * _K1, _u64(data, 8)
        c, d = _u64(data, n - 8) * mul, _u64(data, n - 16) * _K2
        return _two((_rotate(a + b, 43) + _rotate(c, 30) + d) & _MASK, (a + _rotate(b + _K2, 18) + c) & _MASK, mul)
    a, b = _u64(data, 0) * _K2, _u64(data, 8)
    c, d = _u64(data, n - 8) * mul, _u64(data, n - 16) * _K2
    y = (_rotate(a + b, 43) + _rotate(c, 30) + d) & _MASK
    z = _two(y, (a + _rotate(b + _K2, 18) + c) & _MASK, mul)
    e, f = _u64(data, 16) * mul, _u64(data, 24)
    g, h = (y + _u64(data, n - 32)) * mul, (z + _u64(data, n - 24)) * mul
    return _two((_rotate(e + f, 43) + _rotate(g, 30) + h) & _MASK, (e + _rotate(f + a, 18) + g) & _MASK, mul)


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_u64(data, at + 8 * i) for i in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    return (a + z) & _MASK, (b + _rotate(a, 44) + c) & _MASK


def fingerprint64(data: bytes) -> int:
    """The fingerprint, a number of 64 bits.

    >>> fingerprint64(b"")
    11160318154034397263
    """
    n = len(data)
    if n <= 16:
        return _short(data)
    if n <= 64:
        return _middle(data)
    x, y = 81, (81 * _K1 + 113) & _MASK
    z = _mix(y * _K2 + 113) * _K2 & _MASK
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _u64(data, 0)) & _MASK
    last = (n - 1) // 64 * 64
    for at in range(0, last, 64):
        x, y, z, v, w = _round(data, at, x, y, z, v, w, _K1, 1)
    at = n - 64
    mul = _K1 + ((z & 0xFF) << 1)
    w0 = w[0] + ((n - 1) & 63)
    v0 = v[0] + w0
    w0 += v0
    x, y, z, v, w = _round(data, at, x, y, z, (v0 & _MASK, v[1]), (w0 & _MASK, w[1]), mul, 9)
    return _two(
        (_two(v[0], w[0], mul) + _mix(y) * _K0 + z) & _MASK,
        (_two(v[1], w[1], mul) + x) & _MASK,
        mul,
    )


def _round(
    data: bytes, at: int, x: int, y: int, z: int, v: tuple[int, int], w: tuple[int, int], mul: int, by: int
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    x = _rotate(x + y + v[0] + _u64(data, at + 8), 37) * mul & _MASK
    y = _rotate(y + v[1] + _u64(data, at + 48), 42) * mul & _MASK
    x ^= w[1] * by & _MASK
    y = (y + v[0] * by + _u64(data, at + 40)) & _MASK
    z = _rotate(z + w[0], 33) * mul & _MASK
    v = _weak(data, at, v[1] * mul, x + w[0])
    w = _weak(data, at + 32, z + w[1], y + _u64(data, at + 16))
    return z, y, x, v, w
