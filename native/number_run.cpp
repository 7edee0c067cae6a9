#include "number_run.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "decimal.h"

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_AVX2 1
#include <immintrin.h>
#endif

namespace headrace {
#ifdef HEADRACE_AVX2
namespace {

#define HEADRACE_TARGET [[gnu::target("avx2,bmi,bmi2")]]

// How to move the digits of the whole numbers at the beginning of a window of text to where they can be added up: up to
// four numbers of up to four digits, each right-justified in four bytes. A window is told by its blanks, one bit each.
constexpr unsigned kWindow = 10;

struct Shuffles {
  alignas(16) std::array<std::array<std::uint8_t, 16>, 1 << kWindow> bytes;  // 0x80: a zero
  std::array<std::uint8_t, 1 << kWindow> count;                              // numbers
  std::array<std::uint8_t, 1 << kWindow> consumed;                           // bytes of them and the blanks behind
};

constexpr Shuffles make_shuffles() {
  Shuffles table{};
  for (unsigned blanks = 0; blanks < 1u << kWindow; ++blanks) {
    auto& bytes = table.bytes[blanks];
    for (auto& byte : bytes) byte = 0x80;
    unsigned count = 0, consumed = 0, digits = 0;
    for (unsigned at = 0; at < kWindow; ++at) {
      if ((blanks >> at & 1) == 0) {
        ++digits;
        continue;
      }
      if (digits > 4 || (digits > 0 && count == 4)) break;
      for (unsigned i = 0; i < digits; ++i)
        bytes[4 * count + 4 - digits + i] = static_cast<std::uint8_t>(at - digits + i);
      count += digits > 0 ? 1 : 0;
      digits = 0;
      consumed = at + 1;
    }
    table.count[blanks] = static_cast<std::uint8_t>(count);
    table.consumed[blanks] = static_cast<std::uint8_t>(consumed);
  }
  return table;
}

constinit const Shuffles kShuffles = make_shuffles();

// Which of 64 bytes are what.
struct Block {
  std::uint64_t blanks, digits, dots, minuses;
};

HEADRACE_TARGET inline std::uint64_t bits(__m256i low, __m256i high) {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(low)) |
         std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(high))} << 32;
}

HEADRACE_TARGET inline std::uint64_t equal(__m256i low, __m256i high, char wanted) {
  const __m256i all = _mm256_set1_epi8(wanted);
  return bits(_mm256_cmpeq_epi8(low, all), _mm256_cmpeq_epi8(high, all));
}

// Less '0', digits are at most 9 as unsigned numbers.
HEADRACE_TARGET inline __m256i digits_of(__m256i bytes) {
  const __m256i less = _mm256_sub_epi8(bytes, _mm256_set1_epi8('0'));
  return _mm256_cmpeq_epi8(_mm256_min_epu8(less, _mm256_set1_epi8(9)), less);
}

HEADRACE_TARGET inline Block look_at(const std::uint8_t* p) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
  return {equal(low, high, ' ') | equal(low, high, '\t'), bits(digits_of(low), digits_of(high)), equal(low, high, '.'),
          equal(low, high, '-')};
}

// Four whole numbers as `shuffle` says.
HEADRACE_TARGET inline __m128i whole_numbers(const std::uint8_t* p, const std::uint8_t* shuffle) {
  const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(shuffle));
  const __m128i digits = _mm_shuffle_epi8(_mm_sub_epi8(text, _mm_set1_epi8('0')), order);
  const __m128i pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(10 | 1 << 8));
  return _mm_madd_epi16(pairs, _mm_set1_epi32(100 | 1 << 16));
}

HEADRACE_TARGET inline void store(__m128i numbers, float* to) { _mm_storeu_ps(to, _mm_cvtepi32_ps(numbers)); }
HEADRACE_TARGET inline void store(__m128i numbers, double* to) { _mm256_storeu_pd(to, _mm256_cvtepi32_pd(numbers)); }

template <class T>
inline constexpr T kTenths[] = {T(1e0), T(1e1), T(1e2), T(1e3), T(1e4), T(1e5), T(1e6), T(1e7), T(1e8)};

// The number in the text [p, p + length), of digits, dots and minus signs as told by bits from p on. Without jumps that
// depend on where the dot or sign is, for these are hard to foresee.
template <class T>
HEADRACE_TARGET inline bool one_number(const std::uint8_t* p, unsigned length, std::uint64_t dots, std::uint64_t minus,
                                       T& value) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto sign = static_cast<unsigned>(minus & 1);
  const unsigned size = length - sign;
  dots = _bzhi_u64(dots >> sign, size);
  minus = _bzhi_u64(minus >> sign, size);
  if (size > 8 || size == 0 || minus != 0 || (dots & 1) != 0 || (dots & (dots - 1)) != 0 || (size == 8 && dots == 0)) {
    const std::uint8_t* behind = parse_short_decimal(p, value);
    return behind == p + length;
  }
  const unsigned whole = dots == 0 ? size : static_cast<unsigned>(std::countr_zero(dots));
  const std::uint64_t text = load64(p + sign) << (64 - 8 * size);
  // Where the dot is, or a byte before the number; what stands before moves up over it.
  const unsigned shift = dots == 0 ? 64 - 8 * size - 8 : 64 - 8 * size + 8 * whole;
  const std::uint64_t below = _bzhi_u64(text, shift);
  const std::uint64_t above = text >> shift >> 8 << 8 << shift;
  const std::uint32_t mantissa = swar::eight_digits(below << 8 | above);
  const unsigned fraction = dots == 0 ? 0 : size - whole - 1;
  // At most seven digits where there is a division: both operands are exact, and it rounds once.
  const T absolute = static_cast<T>(static_cast<std::int32_t>(mantissa)) / kTenths<T>[fraction];
  value = std::bit_cast<T>(std::bit_cast<Bits>(absolute) | static_cast<Bits>(sign) << (8 * sizeof(T) - 1));
  return true;
}

template <class T>
HEADRACE_TARGET NumberRun read_avx2(const std::uint8_t* p, const std::uint8_t* limit, T* values, std::size_t most) {
  T* out = values;
  T* const end = values + most;
  while (p < limit) {
    const Block block = look_at(p);
    const std::uint64_t other = ~(block.blanks | block.digits | block.dots | block.minuses);
    const auto regular = static_cast<unsigned>(std::countr_zero(other));
    std::uint64_t blanks = _bzhi_u64(block.blanks, regular);
    unsigned at = 0;
    if (_bzhi_u64(block.dots | block.minuses, regular) == 0) {
      while (end - out >= 4) {
        const std::uint64_t window = blanks >> at & ((1u << kWindow) - 1);
        const unsigned consumed = kShuffles.consumed[window];
        if (consumed == 0) break;
        store(whole_numbers(p + at, kShuffles.bytes[window].data()), out);
        out += kShuffles.count[window];
        at += consumed;
        if (at >= 64) break;
      }
      blanks = at < 64 ? blanks >> at << at : 0;
    }
    for (; blanks != 0 && out < end; blanks &= blanks - 1) {
      const auto blank = static_cast<unsigned>(std::countr_zero(blanks));
      const unsigned length = blank - at;
      if (length != 0) {
        if (!one_number(p + at, length, block.dots >> at, block.minuses >> at, *out)) {
          return {p + at, static_cast<std::size_t>(out - values)};
        }
        ++out;
      }
      at = blank + 1;
    }
    p += at;
    if (at == 0 || out == end || regular < 64) break;
  }
  return {p, static_cast<std::size_t>(out - values)};
}

}  // namespace
#endif

template <class T>
ReadNumberRun<T> number_run_reader() {
#ifdef HEADRACE_AVX2
  static const bool able =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (able) return read_avx2<T>;
#endif
  return nullptr;
}

template ReadNumberRun<float> number_run_reader<float>();
template ReadNumberRun<double> number_run_reader<double>();

}  // namespace headrace
