#include "byte_masks.h"

#include <stdexcept>

#include "hash.h"

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_AVX2 1
#include <immintrin.h>
#endif

namespace headrace {
namespace {

using Masks = void (*)(const std::uint8_t*, std::size_t, const Separators&, std::uint64_t*, std::uint64_t*);
using EqualMasks = void (*)(const std::uint8_t*, std::size_t, std::uint8_t, std::uint64_t*);

// Sixty-four bytes of 0 or 1 become sixty-four bits: the multiplication moves bit 0 of byte i to bit 56 + i.
std::uint64_t pack(const std::uint8_t* flags) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    bits |= ((load64(flags + 8 * i) * 0x0102040810204080u) >> 56) << (8 * i);
  }
  return bits;
}

#ifdef HEADRACE_AVX2
// A byte is a separator when the sets of its two halves meet: two table look-ups, whatever the set. A byte
// from 128 up finds an empty set, because the shuffle gives 0 where the top bit is set.
[[gnu::target("avx2")]] void byte_masks_avx2(const std::uint8_t* data, std::size_t blocks, const Separators& separators,
                                             std::uint64_t* newline, std::uint64_t* separator) {
  const __m128i low128 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(separators.low().data()));
  const __m256i low = _mm256_broadcastsi128_si256(low128);
  const __m256i high = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, static_cast<char>(128), 0, 0, 0, 0, 0, 0, 0, 0));
  const __m256i line_feed = _mm256_set1_epi8('\n');
  const __m256i half = _mm256_set1_epi8(15);
  const __m256i zero = _mm256_setzero_si256();
  for (std::size_t b = 0; b < blocks; ++b, data += kBlock) {
    std::uint64_t ends = 0, words = 0;
    for (int side = 0; side < 2; ++side) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 32 * side));
      const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(v, 4), half);
      const __m256i met = _mm256_and_si256(_mm256_shuffle_epi8(low, v), _mm256_shuffle_epi8(high, upper));
      const auto is_end = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, line_feed)));
      const auto is_word = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(met, zero)));
      ends |= std::uint64_t{is_end} << (32 * side);
      words |= std::uint64_t{is_word} << (32 * side);
    }
    newline[b] = ends;
    separator[b] = ~words;
  }
}

[[gnu::target("avx2")]] void equal_masks_avx2(const std::uint8_t* data, std::size_t blocks, std::uint8_t byte,
                                              std::uint64_t* mask) {
  const __m256i wanted = _mm256_set1_epi8(static_cast<char>(byte));
  for (std::size_t b = 0; b < blocks; ++b, data += kBlock) {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data));
    const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 32));
    const auto low = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(first, wanted)));
    const auto high = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(second, wanted)));
    mask[b] = low | std::uint64_t{high} << 32;
  }
}
#endif

EqualMasks best_equal() {
#ifdef HEADRACE_AVX2
  if (__builtin_cpu_supports("avx2")) return equal_masks_avx2;
#endif
  return equal_masks_portable;
}

Masks best() {
#ifdef HEADRACE_AVX2
  if (__builtin_cpu_supports("avx2")) return byte_masks_avx2;
#endif
  return byte_masks_portable;
}

}  // namespace

Separators::Separators(std::string_view bytes) {
  if (bytes.empty()) throw std::invalid_argument("separators is empty: give at least one ASCII character");
  const auto add = [this](unsigned byte) {
    low_[byte & 15] = static_cast<std::uint8_t>(low_[byte & 15] | (1u << (byte >> 4)));
  };
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128) {
      throw std::invalid_argument("separators has a character outside ASCII: only ASCII can separate tokens");
    }
    add(byte);
  }
  add('\n');
}

void byte_masks_portable(const std::uint8_t* data, std::size_t blocks, const Separators& separators,
                         std::uint64_t* newline, std::uint64_t* separator) {
  std::uint8_t members[128];
  std::size_t count = 0;
  for (unsigned byte = 0; byte < 128; ++byte) {
    if (separators.contains(static_cast<std::uint8_t>(byte))) members[count++] = static_cast<std::uint8_t>(byte);
  }
  // Plain loops over 64 bytes: compilers turn them into the vector instructions of the machine they build for.
  for (std::size_t b = 0; b < blocks; ++b, data += kBlock) {
    std::uint8_t ends[kBlock], marks[kBlock] = {};
    for (std::size_t i = 0; i < kBlock; ++i) ends[i] = data[i] == '\n';
    for (std::size_t m = 0; m < count; ++m) {
      const std::uint8_t member = members[m];
      for (std::size_t i = 0; i < kBlock; ++i) {
        marks[i] = static_cast<std::uint8_t>(marks[i] | static_cast<std::uint8_t>(data[i] == member));
      }
    }
    newline[b] = pack(ends);
    separator[b] = pack(marks);
  }
}

void byte_masks(const std::uint8_t* data, std::size_t blocks, const Separators& separators, std::uint64_t* newline,
                std::uint64_t* separator) {
  static const Masks masks = best();
  masks(data, blocks, separators, newline, separator);
}

void equal_masks_portable(const std::uint8_t* data, std::size_t blocks, std::uint8_t byte, std::uint64_t* mask) {
  for (std::size_t b = 0; b < blocks; ++b, data += kBlock) {
    std::uint8_t equal[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) equal[i] = data[i] == byte;
    mask[b] = pack(equal);
  }
}

void equal_masks(const std::uint8_t* data, std::size_t blocks, std::uint8_t byte, std::uint64_t* mask) {
  static const EqualMasks masks = best_equal();
  masks(data, blocks, byte, mask);
}

}  // namespace headrace
