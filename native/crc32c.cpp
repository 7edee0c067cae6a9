#include "crc32c.h"

#include <array>

#include "hash.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_SSE42 1
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reflected

using Table = std::array<std::uint32_t, 256>;

// Table k: what a byte contributes when k more bytes come after it.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr std::array<Table, 8> kTables = make_tables();

#ifdef HEADRACE_SSE42
// The instruction takes three cycles and one can start each cycle, so three stretches are summed side by side. A
// stretch's sum is then carried over the bytes that follow it by a table for each of its four bytes.
constexpr std::size_t kStretch = 256;

constexpr std::array<Table, 4> make_carry() {
  std::array<Table, 4> carry{};
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte << (8 * k);
      for (std::size_t i = 0; i < kStretch; ++i) crc = (crc >> 8) ^ kTables[0][crc & 255];
      carry[k][byte] = crc;
    }
  }
  return carry;
}

// Not constexpr: this many steps are more than compilers evaluate.
const std::array<Table, 4> kCarry = make_carry();

std::uint64_t carry_over(std::uint64_t crc) {
  return kCarry[0][crc & 255] ^ kCarry[1][(crc >> 8) & 255] ^ kCarry[2][(crc >> 16) & 255] ^ kCarry[3][crc >> 24];
}

[[gnu::target("sse4.2")]] std::uint32_t crc32c_sse42(const std::uint8_t* data, std::size_t size, std::uint32_t start) {
  std::uint64_t crc = ~start;
  for (; size >= 3 * kStretch; data += 3 * kStretch, size -= 3 * kStretch) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kStretch; i += 8) {
      crc = _mm_crc32_u64(crc, load64(data + i));
      second = _mm_crc32_u64(second, load64(data + kStretch + i));
      third = _mm_crc32_u64(third, load64(data + 2 * kStretch + i));
    }
    crc = carry_over(carry_over(crc) ^ second) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) crc = _mm_crc32_u64(crc, load64(data));
  auto last = static_cast<std::uint32_t>(crc);
  for (; size > 0; ++data, --size) last = _mm_crc32_u8(last, *data);
  return ~last;
}
#endif

using Crc = std::uint32_t (*)(const std::uint8_t*, std::size_t, std::uint32_t);

Crc best() {
#ifdef HEADRACE_SSE42
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42;
#endif
  return crc32c_portable;
}

}  // namespace

std::uint32_t crc32c_portable(const std::uint8_t* data, std::size_t size, std::uint32_t start) {
  std::uint32_t crc = ~start;
  for (; size >= 8; data += 8, size -= 8) {
    const std::uint64_t word = load64(data) ^ crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *data) & 255];
  return ~crc;
}

std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t start) {
  static const Crc function = best();
  return function(data, size, start);
}

}  // namespace headrace
