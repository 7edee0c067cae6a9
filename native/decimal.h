// Decimal text to the nearest float or double.
//
//   number := ["+" | "-"] digits ["." digits*] [("e" | "E") ["+" | "-"] digits]
//
// with no exponent directly after a dot. Results are correctly rounded (to even when half way between two), however
// many digits there are; too large numbers are infinite, too small ones zero, and -0 keeps its sign.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hash.h"

namespace headrace {

enum class DecimalState : std::uint8_t {
  kGood,        // `end` is behind the number
  kNoDigits,    // no digit at `end`, where the number should begin
  kNoExponent,  // no digit at `end`, where the exponent should begin
};

struct DecimalEnd {
  const std::uint8_t* end;
  DecimalState state;
};

// Reads the number at the start of [begin, end). What follows it is the caller's business. T is float or double.
template <class T>
DecimalEnd parse_decimal(const std::uint8_t* begin, const std::uint8_t* end, T& value);

// The number nearest to mantissa * 10^exponent, for any of them.
template <class T>
T scale_decimal(std::uint64_t mantissa, std::int64_t exponent);

inline bool is_digit(std::uint8_t byte) { return static_cast<std::uint8_t>(byte - '0') < 10; }

// The pieces that make short numbers cheap. Bytes are those of a little-endian word.
namespace swar {

inline constexpr std::uint64_t kOnes = 0x0101010101010101;
inline constexpr std::uint32_t kTens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// 0x80 in each byte of x that is no digit, 0 elsewhere.
inline std::uint64_t non_digits(std::uint64_t x) {
  const std::uint64_t t = x ^ (0x30 * kOnes);  // digits are now 0 to 9
  return (((t & (0x7f * kOnes)) + 0x76 * kOnes) | t) & (0x80 * kOnes);
}

// The number of bytes below the lowest 0x80; 8 when there is none.
inline unsigned bytes_before(std::uint64_t flags) { return static_cast<unsigned>(std::countr_zero(flags)) >> 3; }

// Eight digits, the first in the lowest byte; a zero byte counts as a digit 0. Three steps join neighbours.
inline std::uint32_t eight_digits(std::uint64_t x) {
  x &= 0x0f * kOnes;
  x = (x * 10 + (x >> 8)) & 0x00ff00ff00ff00ff;
  x = (x * 100 + (x >> 16)) & 0x0000ffff0000ffff;
  return static_cast<std::uint32_t>(x * 10000 + (x >> 32));
}

// The first n bytes of x, 1 to 8 of them, moved to its end: what eight_digits takes.
inline std::uint64_t last_bytes(std::uint64_t x, unsigned n) { return x << (64 - 8 * n); }

}  // namespace swar

// A number of a few characters, the common case: nullptr where it is not as simple as that (then parse_decimal
// decides), else the byte behind it, which is no digit. Reads 24 bytes from p, whatever they are.
template <class T>
inline const std::uint8_t* parse_short_decimal(const std::uint8_t* p, T& value) {
  const bool minus = *p == '-';
  p += minus ? 1 : 0;
  const std::uint64_t x = load64(p);
  const std::uint64_t flags = swar::non_digits(x);
  const unsigned whole = swar::bytes_before(flags);
  if (whole == 0 || whole == 8) return nullptr;
  std::uint64_t mantissa = 0;
  unsigned fraction = 0;
  if (p[whole] == '.') {
    const unsigned all = swar::bytes_before(flags & (flags - 1));  // digits, the dot, digits
    if (all < 8) {
      // The digits before the dot move up by a byte, over it.
      const std::uint64_t y = swar::last_bytes(x, all);
      const std::uint64_t before = (std::uint64_t{1} << (8 * (8 - all + whole))) - 1;
      mantissa = swar::eight_digits(((y & before) << 8) | (y & ~(before << 8 | 0xff)));
      fraction = all - whole - 1;
      p += all;
    } else {
      const std::uint64_t tail = load64(p + whole + 1);
      fraction = swar::bytes_before(swar::non_digits(tail));
      if (fraction == 0) return nullptr;
      mantissa = std::uint64_t{swar::eight_digits(swar::last_bytes(x, whole))} * swar::kTens[fraction] +
                 swar::eight_digits(swar::last_bytes(tail, fraction));
      p += whole + 1 + fraction;
    }
  } else {
    mantissa = swar::eight_digits(swar::last_bytes(x, whole));
    p += whole;
  }
  if ((*p | 0x20) == 'e' || is_digit(*p)) return nullptr;
  // Both operands are exact, so that the one division rounds once, correctly.
  constexpr std::uint64_t kExact = std::uint64_t{1} << (std::is_same_v<T, float> ? 24 : 53);
  if (mantissa <= kExact || fraction == 0) {
    static constexpr T kPowers[] = {T(1e0), T(1e1), T(1e2), T(1e3), T(1e4), T(1e5), T(1e6), T(1e7), T(1e8)};
    value = static_cast<T>(static_cast<std::int64_t>(mantissa)) / kPowers[fraction];
  } else {
    value = scale_decimal<T>(mantissa, -static_cast<std::int64_t>(fraction));
  }
  value = minus ? -value : value;
  return p;
}

extern template DecimalEnd parse_decimal<float>(const std::uint8_t*, const std::uint8_t*, float&);
extern template DecimalEnd parse_decimal<double>(const std::uint8_t*, const std::uint8_t*, double&);
extern template float scale_decimal<float>(std::uint64_t, std::int64_t);
extern template double scale_decimal<double>(std::uint64_t, std::int64_t);

}  // namespace headrace
