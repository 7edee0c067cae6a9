#include "number_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "decimal.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_AVX2 1
#include <immintrin.h>
#endif

namespace headrace {
#ifdef HEADRACE_AVX2
namespace {

#define HEADRACE_TARGET [[gnu::target("avx2,bmi,bmi2,popcnt")]]

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

// How to read a number with a dot or sign: where its digits go, right-justified in eight bytes, and what the whole
// number that they write is to be divided by. Told by its length, the place of the dot (the length: none) and the sign.
struct alignas(16) Form {
  std::array<std::uint8_t, 8> digits;
  float divisor;        // a power of ten, exactly, and negative for a negative number
  std::uint32_t unfit;  // its first bit counts
};

constexpr unsigned kLongest = 15;
constexpr std::size_t kFormCount = (kLongest + 1) * (kLongest + 1) * 2;

constexpr std::array<Form, kFormCount> make_forms() {
  std::array<Form, kFormCount> forms{};
  for (unsigned i = 0; i < kFormCount; ++i) {
    const unsigned length = i / 32, dot = i / 2 % 16, sign = i % 2;
    Form& form = forms[i];
    form.divisor = sign == 1 ? -1.0f : 1.0f;
    for (auto& byte : form.digits) byte = 0x80;
    unsigned place = 8;
    for (unsigned at = length; at-- > sign && place > 0;) {
      if (at == dot) continue;
      form.digits[--place] = static_cast<std::uint8_t>(at);
      if (at > dot) form.divisor *= 10;
    }
    const bool fits = dot <= length && length >= sign && length - sign - (dot < length ? 1 : 0) <= 8;
    form.unfit = fits ? 0 : 0x80000000u;
  }
  return forms;
}

constinit const std::array<Form, kFormCount> kFormTable = make_forms();

// The numbers that eight digits each write.
HEADRACE_TARGET inline __m128i eight_digit_numbers(__m128i first_two, __m128i last_two) {
  const __m256i text = _mm256_inserti128_si256(_mm256_castsi128_si256(first_two), last_two, 1);
  const __m256i digits = _mm256_subs_epu8(text, _mm256_set1_epi8('0'));  // no byte is a zero as well
  const __m256i pairs = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(10 | 1 << 8));
  const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(100 | 1 << 16));
  const __m256i packed = _mm256_packus_epi32(fours, fours);
  const __m256i eights = _mm256_madd_epi16(packed, _mm256_set1_epi32(10000 | 1 << 16));
  return _mm_unpacklo_epi64(_mm256_castsi256_si128(eights), _mm256_extracti128_si256(eights, 1));
}

// Which of four whole numbers floats cannot tell from all others: dividing these would round twice.
HEADRACE_TARGET inline __m128i inexact(__m128i numbers, const float*) {
  return _mm_cmpgt_epi32(numbers, _mm_set1_epi32(1 << 24));
}
HEADRACE_TARGET inline __m128i inexact(__m128i, const double*) { return _mm_setzero_si128(); }

HEADRACE_TARGET inline void store_quotients(__m128i numbers, __m128 divisors, float* to) {
  _mm_storeu_ps(to, _mm_div_ps(_mm_cvtepi32_ps(numbers), divisors));
}
HEADRACE_TARGET inline void store_quotients(__m128i numbers, __m128 divisors, double* to) {
  _mm256_storeu_pd(to, _mm256_div_pd(_mm256_cvtepi32_pd(numbers), _mm256_cvtps_pd(divisors)));
}

// The numbers of a block: one bit each where they begin, and for the blank behind each that is complete.
struct Tokens {
  std::uint64_t starts, ends;
};

// Whether bytes before `last`, of digits, dots, minus signs and blanks, are not all of a kind that four_numbers knows.
HEADRACE_TARGET inline bool are_odd(const Block& block, std::uint64_t blanks, std::uint64_t starts, unsigned last) {
  // Signs stand in front, dots neither there nor behind a sign, and no sign stands alone.
  std::uint64_t odd = (block.minuses & ~starts) | (block.minuses << 1 & (blanks | block.dots)) | (block.dots & starts);
  // Added to the bytes that are no blanks, a number's first dot carries up to its end, and a second one is left over.
  const std::uint64_t text = _bzhi_u64(~blanks, last), dots = _bzhi_u64(block.dots, last);
  odd |= (text + dots) & dots;
  // Sixteen bytes in a row are more than kLongest.
  std::uint64_t row = text & text >> 1;
  row &= row >> 2;
  row &= row >> 4;
  row &= row >> 8;
  return (_bzhi_u64(odd, last) | row) != 0;
}

// Reads the first four tokens of a block that is not odd, or as many as there are (further values are anything).
// `marks` are the dots and blanks. False where one of the numbers has too many digits.
template <class T>
HEADRACE_TARGET inline bool four_numbers(const std::uint8_t* p, std::uint64_t marks, std::uint64_t minuses,
                                         Tokens& tokens, unsigned count, T* values) {
  __m128i text[4], form[4];
  for (int i = 0; i < 4; ++i) {
    // Where no token is left, both are 64: a text of no length, at bytes that may be looked at.
    const std::uint64_t start = _tzcnt_u64(tokens.starts);
    const std::uint64_t length = _tzcnt_u64(tokens.ends) - start;
    tokens.starts &= tokens.starts - 1;
    tokens.ends &= tokens.ends - 1;
    const std::uint64_t dot = _tzcnt_u64(marks >> (start & 63));  // or the end
    const std::uint64_t sign = minuses >> (start & 63) & 1;
    form[i] = _mm_load_si128(reinterpret_cast<const __m128i*>(kFormTable.data() + (length * 32 + dot * 2 + sign)));
    text[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + start)), form[i]);
  }
  const __m128i upper = _mm_unpackhi_epi32(form[0], form[1]), lower = _mm_unpackhi_epi32(form[2], form[3]);
  const __m128 divisors = _mm_castsi128_ps(_mm_unpacklo_epi64(upper, lower));
  const __m128i numbers =
      eight_digit_numbers(_mm_unpacklo_epi64(text[0], text[1]), _mm_unpacklo_epi64(text[2], text[3]));
  store_quotients(numbers, divisors, values);
  const __m128i unfit = _mm_or_si128(_mm_unpackhi_epi64(upper, lower), inexact(numbers, values));
  return _bzhi_u32(static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(unfit))), count) == 0;
}

// Whether a block has nothing but digits and blanks.
inline bool is_plain(const Block& block) { return (block.blanks | block.digits) == ~std::uint64_t{0}; }

// Whole numbers, as long as there are blocks of nothing else. Blocks are looked at where they stand and not from where
// the last number ended, so that the processor can do so ahead. Returns where it stopped.
template <class T>
HEADRACE_TARGET inline const std::uint8_t* read_plain_blocks(const std::uint8_t* p, const std::uint8_t* limit,
                                                             std::uint64_t blanks, T*& out, const T* end) {
  unsigned at = 0;
  for (; p + 64 < limit; p += 64, at -= 64) {
    const Block next = look_at(p + 64);
    if (!is_plain(next)) break;
    while (at < 64) {
      const std::uint64_t window = (blanks >> at | next.blanks << 1 << (63 - at)) & ((1u << kWindow) - 1);
      const unsigned consumed = kShuffles.consumed[window];
      if (consumed == 0 || end - out < 4) return p + at;
      store(whole_numbers(p + at, kShuffles.bytes[window].data()), out);
      out += kShuffles.count[window];
      at += consumed;
    }
    blanks = next.blanks;
  }
  return p + at;
}

template <class T>
HEADRACE_TARGET NumberRun read_avx2(const std::uint8_t* p, const std::uint8_t* limit, T* values, std::size_t most) {
  T* out = values;
  T* const end = values + most;
  while (p < limit) {
    const Block block = look_at(p);
    if (is_plain(block)) {
      const std::uint8_t* const stopped = read_plain_blocks(p, limit, block.blanks, out, end);
      if (stopped != p) {
        p = stopped;
        continue;
      }
    }
    const std::uint64_t other = ~(block.blanks | block.digits | block.dots | block.minuses);
    const auto regular = static_cast<unsigned>(_tzcnt_u64(other));
    const std::uint64_t blanks = _bzhi_u64(block.blanks, regular);
    unsigned at = 0;
    if (_bzhi_u64(block.dots | block.minuses, regular) == 0) {
      while (end - out >= 4 && at < 64) {
        const std::uint64_t window = blanks >> at & ((1u << kWindow) - 1);
        const unsigned consumed = kShuffles.consumed[window];
        if (consumed == 0) break;
        store(whole_numbers(p + at, kShuffles.bytes[window].data()), out);
        out += kShuffles.count[window];
        at += consumed;
      }
    }
    Tokens tokens{0, blanks & ~(blanks << 1 | 1)};
    if (at >= 64) tokens.ends = 0;
    tokens.ends = tokens.ends >> (at & 63) << (at & 63);
    const auto last = static_cast<unsigned>(std::bit_width(tokens.ends));  // behind the blank behind the last number
    const std::uint64_t starts = ~blanks & (blanks << 1 | 1);
    tokens.starts = _bzhi_u64(starts, last) >> (at & 63) << (at & 63);
    if (tokens.ends != 0 && !are_odd(block, blanks, starts, last)) {
      const std::uint64_t marks = block.dots | blanks;
      auto left = static_cast<unsigned>(std::popcount(tokens.ends));
      while (left != 0 && end - out >= 4) {
        const Tokens before = tokens;
        const unsigned count = std::min(4u, left);
        if (!four_numbers(p, marks, block.minuses, tokens, count, out)) {
          tokens = before;
          break;
        }
        out += count;
        left -= count;
        at = left == 0 ? last : static_cast<unsigned>(_tzcnt_u64(tokens.starts));
      }
    }
    for (; tokens.ends != 0 && out < end; tokens.ends &= tokens.ends - 1, tokens.starts &= tokens.starts - 1) {
      const auto start = static_cast<unsigned>(_tzcnt_u64(tokens.starts));
      const unsigned length = static_cast<unsigned>(_tzcnt_u64(tokens.ends)) - start;
      if (!one_number(p + start, length, block.dots >> start, block.minuses >> start, *out)) {
        return {p + start, static_cast<std::size_t>(out - values)};
      }
      ++out;
      at = start + length + 1;
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
  static const bool able = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
  if (able) return read_avx2<T>;
#endif
  return nullptr;
}

template ReadNumberRun<float> number_run_reader<float>();
template ReadNumberRun<double> number_run_reader<double>();

}  // namespace headrace
