#include "decimal.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

namespace headrace {
namespace {

// How T is laid out.
template <class T>
struct Layout {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr int kPrecision = std::numeric_limits<T>::digits;           // with the implied bit
  static constexpr int kSmallest = std::numeric_limits<T>::min_exponent - 1;  // exponent of the least normal number
  static constexpr int kLargest = std::numeric_limits<T>::max_exponent - 1;
};

constexpr int kMantissaDigits = 19;  // as many as always fit 64 bits

// Digits beyond these matter only by not being zero: 767 decide any case that is half way between two doubles.
constexpr int kMaxDigits = 800;

// Rounds q * 2^exponent, plus a little more where `more`, to T. q is not 0.
template <class T>
T round_binary(std::uint64_t q, std::int64_t exponent, bool more) {
  using L = Layout<T>;
  const int zeros = std::countl_zero(q);
  q <<= zeros;
  const std::int64_t top = exponent - zeros + 63;  // the exponent of q's first bit
  if (top > L::kLargest) return std::numeric_limits<T>::infinity();
  const bool normal = top >= L::kSmallest;
  const std::int64_t kept = normal ? L::kPrecision : L::kPrecision - (L::kSmallest - top);
  if (kept < 0) return T(0);
  const auto cut = static_cast<unsigned>(64 - kept);  // at most 64
  const std::uint64_t half = std::uint64_t{1} << (cut - 1);
  const std::uint64_t rest = q & (half - 1 + half);
  std::uint64_t m = cut == 64 ? 0 : q >> cut;
  if (rest > half || (rest == half && (more || (m & 1) != 0))) ++m;
  // A carry out of the mantissa goes into the exponent, where it belongs.
  if (normal) m += static_cast<std::uint64_t>(top - L::kSmallest) << (L::kPrecision - 1);
  return std::bit_cast<T>(static_cast<typename L::Bits>(m));
}

#ifdef __SIZEOF_INT128__
__extension__ using Wide = unsigned __int128;

constexpr auto kFives = [] {
  std::array<std::uint64_t, 28> powers{};  // all powers of five below 2^63
  powers[0] = 1;
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 5;
  return powers;
}();

// By whole numbers, exactly, where 5^|exponent| fits a word. The mantissa is not 0.
template <class T>
std::optional<T> scale_exactly(std::uint64_t mantissa, std::int64_t exponent) {
  constexpr auto kMost = static_cast<std::int64_t>(kFives.size()) - 1;
  if (exponent > kMost || exponent < -kMost) return std::nullopt;
  if (exponent >= 0) {
    const Wide product = Wide{mantissa} * kFives[static_cast<std::size_t>(exponent)];
    const auto high = static_cast<std::uint64_t>(product >> 64), low = static_cast<std::uint64_t>(product);
    if (high == 0) return round_binary<T>(low, exponent, false);
    const int zeros = std::countl_zero(high);
    const auto top = static_cast<std::uint64_t>(product << zeros >> 64);
    return round_binary<T>(top, exponent + 64 - zeros, (low << zeros) != 0);
  }
  const std::uint64_t power = kFives[static_cast<std::size_t>(-exponent)];
  const int over = std::countl_zero(mantissa), under = std::countl_zero(power);
  const Wide dividend = Wide{mantissa << over} << 63;  // the quotient has 63 or 64 bits
  const std::uint64_t divisor = power << under;
  const auto quotient = static_cast<std::uint64_t>(dividend / divisor);
  return round_binary<T>(quotient, under - over - 63 + exponent, dividend % divisor != 0);
}
#else
template <class T>
std::optional<T> scale_exactly(std::uint64_t, std::int64_t) {
  return std::nullopt;
}
#endif

// A large whole number, lowest word first.
class Big {
 public:
  explicit Big(std::uint32_t value) : size_(value == 0 ? 0 : 1) { words_[0] = value; }

  void multiply_add(std::uint32_t factor, std::uint32_t addend) {
    std::uint64_t carry = addend;
    for (std::size_t i = 0; i < size_; ++i) {
      carry += std::uint64_t{words_[i]} * factor;
      words_[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) words_[size_++] = static_cast<std::uint32_t>(carry);
  }

  void multiply_by_power_of_five(std::int64_t power) {
    constexpr std::uint32_t kFive13 = 1220703125;
    for (; power >= 13; power -= 13) multiply_add(kFive13, 0);
    for (; power > 0; --power) multiply_add(5, 0);
  }

  std::int64_t bits() const {
    return size_ == 0 ? 0 : static_cast<std::int64_t>(size_) * 32 - std::countl_zero(words_[size_ - 1]);
  }

  void shift_left(std::int64_t bits) {
    if (size_ == 0 || bits == 0) return;
    const auto whole = static_cast<std::size_t>(bits / 32);
    const auto rest = static_cast<unsigned>(bits % 32);
    words_[size_] = 0;
    for (std::size_t i = size_ + 1; i-- > 0;) {
      const std::uint64_t below = i == 0 ? 0 : words_[i - 1];
      words_[i + whole] = static_cast<std::uint32_t>(((std::uint64_t{words_[i]} << 32 | below) << rest) >> 32);
    }
    std::fill_n(words_.begin(), whole, 0u);
    size_ += whole + 1;
    while (words_[size_ - 1] == 0) --size_;
  }

  bool is_zero() const { return size_ == 0; }

  bool at_least(const Big& other) const {
    if (size_ != other.size_) return size_ > other.size_;
    for (std::size_t i = size_; i-- > 0;) {
      if (words_[i] != other.words_[i]) return words_[i] > other.words_[i];
    }
    return true;
  }

  // The other is not larger.
  void subtract(const Big& other) {
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      carry += std::int64_t{words_[i]} - (i < other.size_ ? other.words_[i] : 0u);
      words_[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;  // 0 or -1
    }
    while (size_ > 0 && words_[size_ - 1] == 0) --size_;
  }

 private:
  // The largest are 5^1145 and 800 digits and one, shifted to the length of each other, and one bit more.
  std::array<std::uint32_t, 96> words_{};
  std::size_t size_ = 0;
};

// number * 10^exponent for any number that is not 0, by long division. Slow, and rarely needed.
template <class T>
T scale_by_division(Big number, std::int64_t exponent) {
  Big divisor(1);
  if (exponent >= 0) {
    number.multiply_by_power_of_five(exponent);
  } else {
    divisor.multiply_by_power_of_five(-exponent);
  }
  const std::int64_t longer = number.bits() - divisor.bits();
  number.shift_left(std::max<std::int64_t>(-longer, 0));
  divisor.shift_left(std::max<std::int64_t>(longer, 0));
  std::uint64_t quotient = 0;  // its first bit stands for 2^longer, or the second one does
  for (int bit = 0; bit < 64; ++bit) {
    quotient <<= 1;
    if (number.at_least(divisor)) {
      number.subtract(divisor);
      quotient |= 1;
    }
    number.shift_left(1);
  }
  return round_binary<T>(quotient, longer + exponent - 63, !number.is_zero());
}

constexpr std::array<double, 65> kTens{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11, 1e12,
                                       1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25,
                                       1e26, 1e27, 1e28, 1e29, 1e30, 1e31, 1e32, 1e33, 1e34, 1e35, 1e36, 1e37, 1e38,
                                       1e39, 1e40, 1e41, 1e42, 1e43, 1e44, 1e45, 1e46, 1e47, 1e48, 1e49, 1e50, 1e51,
                                       1e52, 1e53, 1e54, 1e55, 1e56, 1e57, 1e58, 1e59, 1e60, 1e61, 1e62, 1e63, 1e64};

// In one operation on doubles, where that is certain to give the nearest T. `more` digits may follow the mantissa.
template <class T>
std::optional<T> scale_quickly(std::uint64_t mantissa, std::int64_t exponent, bool more) {
  if constexpr (std::is_same_v<T, double>) {
    // Both operands are exact, so only the result is rounded.
    if (more || mantissa > (std::uint64_t{1} << 53) || exponent > 22 || exponent < -22) return std::nullopt;
  } else {
    if (exponent > 64 || exponent < -64) return std::nullopt;
  }
  const auto m = static_cast<double>(mantissa);
  const double r =
      exponent < 0 ? m / kTens[static_cast<std::size_t>(-exponent)] : m * kTens[static_cast<std::size_t>(exponent)];
  if constexpr (std::is_same_v<T, double>) {
    return r;
  } else {
    // Mantissa, power and result are each half a unit off at the most, so r is within a few units of the true
    // value: rounding it again is safe but near the middle between two floats.
    constexpr std::uint64_t kDistance = 8, kMiddle = 0x10000000;
    const std::uint64_t low = std::bit_cast<std::uint64_t>(r) & 0x1fffffff;
    if (low - (kMiddle - kDistance) <= 2 * kDistance || !(r > 0x1.000002p-126 && r < 0x1.fffffcp127)) {
      return std::nullopt;
    }
    return static_cast<float>(r);
  }
}

// Numbers that are infinite or zero whatever their digits: 10^(places - 1) <= number < 10^places.
constexpr bool too_large(std::int64_t places) { return places > 310; }
constexpr bool too_small(std::int64_t places) { return places < -345; }

// The places before the decimal point of mantissa * 10^exponent, or one more.
std::int64_t places_of(std::uint64_t mantissa, std::int64_t exponent) {
  return exponent + (static_cast<std::int64_t>(std::bit_width(mantissa)) * 1233 >> 12) + 1;
}

const std::uint8_t* skip_digits(const std::uint8_t* p, const std::uint8_t* end) {
  while (p < end && is_digit(*p)) ++p;
  return p;
}

// The value of the digits in [begin, end), among which there may be a dot, times 10^exponent.
template <class T>
T value_of(const std::uint8_t* begin, const std::uint8_t* end, std::int64_t exponent) {
  while (begin < end && (*begin == '0' || *begin == '.')) ++begin;
  std::uint64_t mantissa = 0;
  int taken = 0;
  const std::uint8_t* p = begin;
  for (; p < end && taken < kMantissaDigits; ++p) {
    if (*p == '.') continue;
    mantissa = mantissa * 10 + (*p - '0');
    ++taken;
  }
  if (taken == 0) return T(0);
  const bool dot_follows = std::memchr(p, '.', static_cast<std::size_t>(end - p)) != nullptr;
  const std::int64_t left = end - p - (dot_follows ? 1 : 0);
  const std::int64_t places = taken + left + exponent;
  if (too_large(places)) return std::numeric_limits<T>::infinity();
  if (too_small(places)) return T(0);
  if (const auto quick = scale_quickly<T>(mantissa, exponent + left, left > 0)) return *quick;
  if (const auto exact = scale_exactly<T>(mantissa, exponent + left)) {
    // Further digits lie between this mantissa and the next.
    if (left == 0 || exact == scale_exactly<T>(mantissa + 1, exponent + left)) return *exact;
  }
  Big number(0);
  std::int64_t unread = taken + left;
  int kept = 0;
  bool more = false;
  for (p = begin; p < end && kept < kMaxDigits; ++p) {
    if (*p == '.') continue;
    --unread;
    ++kept;
    number.multiply_add(10, static_cast<std::uint32_t>(*p - '0'));
  }
  for (; p < end && !more; ++p) more = *p != '0' && *p != '.';
  if (more) {
    number.multiply_add(10, 1);
    --unread;
  }
  return scale_by_division<T>(number, exponent + unread);
}

}  // namespace

template <class T>
DecimalEnd parse_decimal(const std::uint8_t* begin, const std::uint8_t* end, T& value) {
  const std::uint8_t* p = begin;
  const bool minus = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) ++p;
  const std::uint8_t* digits = p;
  p = skip_digits(p, end);
  if (p == digits) return {p, DecimalState::kNoDigits};
  std::int64_t exponent = 0;
  bool open = true;  // an exponent may follow
  if (p < end && *p == '.') {
    const std::uint8_t* fraction = ++p;
    p = skip_digits(p, end);
    exponent = fraction - p;
    open = p != fraction;
  }
  const std::uint8_t* digits_end = p;
  if (open && p < end && (*p | 0x20) == 'e') {
    ++p;
    const bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) ++p;
    if (p == end || !is_digit(*p)) return {p, DecimalState::kNoExponent};
    std::int64_t written = 0;
    for (; p < end && is_digit(*p); ++p) {
      constexpr std::int64_t kEnough = 1'000'000'000'000'000;  // more than any text has digits
      if (written < kEnough) written = written * 10 + (*p - '0');
    }
    exponent += negative ? -written : written;
  }
  value = value_of<T>(digits, digits_end, exponent);
  if (minus) value = -value;
  return {p, DecimalState::kGood};
}

template <class T>
T scale_decimal(std::uint64_t mantissa, std::int64_t exponent) {
  if (mantissa == 0) return T(0);
  if (const auto quick = scale_quickly<T>(mantissa, exponent, false)) return *quick;
  if (const auto exact = scale_exactly<T>(mantissa, exponent)) return *exact;
  if (too_large(places_of(mantissa, exponent) - 1)) return std::numeric_limits<T>::infinity();
  if (too_small(places_of(mantissa, exponent))) return T(0);
  Big number(static_cast<std::uint32_t>(mantissa / 1'000'000'000'000'000'000));
  number.multiply_add(1'000'000'000, static_cast<std::uint32_t>(mantissa / 1'000'000'000 % 1'000'000'000));
  number.multiply_add(1'000'000'000, static_cast<std::uint32_t>(mantissa % 1'000'000'000));
  return scale_by_division<T>(number, exponent);
}

template DecimalEnd parse_decimal<float>(const std::uint8_t*, const std::uint8_t*, float&);
template DecimalEnd parse_decimal<double>(const std::uint8_t*, const std::uint8_t*, double&);
template float scale_decimal<float>(std::uint64_t, std::int64_t);
template double scale_decimal<double>(std::uint64_t, std::int64_t);

}  // namespace headrace
