// A fast 64-bit hash of bytes, for hash tables and for checksums of sidecars (not against attackers).
//
// Sidecars store it, so its values may not change without a new sidecar version.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace headrace {

// Eight bytes as a little-endian number, whatever the machine.
inline std::uint64_t load64(const std::uint8_t* p) {
  std::uint64_t x;
  std::memcpy(&x, p, 8);
  if constexpr (std::endian::native == std::endian::big) {
    std::uint64_t y = 0;
    for (int i = 0; i < 8; ++i) y = (y << 8) | ((x >> (8 * i)) & 0xff);
    x = y;
  }
  return x;
}

// The first `n` (0 to 8) bytes as a little-endian number, reading no further.
inline std::uint64_t load_short(const std::uint8_t* p, std::size_t n) {
  std::uint64_t x = 0;
  for (std::size_t i = 0; i < n; ++i) x |= std::uint64_t{p[i]} << (8 * i);
  return x;
}

// The two halves of the 128-bit product, folded together: every input bit reaches every output bit.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
#if defined(__SIZEOF_INT128__)
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
#else
  const std::uint64_t al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
  const std::uint64_t ll = al * bl, lh = al * bh, hl = ah * bl, hh = ah * bh;
  const std::uint64_t middle = (ll >> 32) + (lh & 0xffffffff) + (hl & 0xffffffff);
  const std::uint64_t low = (ll & 0xffffffff) | (middle << 32);
  return low ^ (hh + (lh >> 32) + (hl >> 32) + (middle >> 32));
#endif
}

namespace hash_constants {
// Digits of the fractional parts of sqrt(2), sqrt(3), sqrt(5), made odd.
inline constexpr std::uint64_t kA = 0x6a09e667f3bcc909;
inline constexpr std::uint64_t kB = 0xbb67ae8584caa73b;
inline constexpr std::uint64_t kC = 0x3c6ef372fe94f82b;
}  // namespace hash_constants

// The hash of at most eight bytes, already loaded as a number.
inline std::uint64_t hash_short(std::uint64_t bytes, std::size_t n) {
  using namespace hash_constants;
  return mix(bytes ^ kA, kB ^ (std::uint64_t{n} << 1));
}

inline std::uint64_t hash_bytes(const std::uint8_t* p, std::size_t n) {
  using namespace hash_constants;
  std::uint64_t a = kA, b = kB;
  std::size_t left = n;
  // Two independent chains, so that one multiplication does not wait for the other.
  for (; left >= 32; p += 32, left -= 32) {
    a = mix(load64(p) ^ a, load64(p + 8) ^ kC);
    b = mix(load64(p + 16) ^ b, load64(p + 24) ^ kA);
  }
  if (left >= 16) {
    a = mix(load64(p) ^ a, load64(p + 8) ^ kC);
    p += 16;
    left -= 16;
  }
  if (left > 8) {
    b = mix(load64(p) ^ b, load_short(p + 8, left - 8) ^ kA);
  } else if (left > 0) {
    b = mix(load_short(p, left) ^ b, kC);
  }
  return mix(a ^ (std::uint64_t{n} * kC), b ^ kA);
}

}  // namespace headrace
