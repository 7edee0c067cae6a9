// Numbers: the grammar, by hand, and the rounding, against the C++ library on many random texts.

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "check.h"
#include "decimal.h"

using namespace headrace;

namespace {

// Copied to the heap with nothing readable behind it.
template <class T>
struct Parsed {
  T value;
  std::size_t length;
  DecimalState state;
};

template <class T>
Parsed<T> parse(const std::string& text) {
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  T value = -1;
  const auto end = parse_decimal<T>(bytes.data(), bytes.data() + bytes.size(), value);
  return {value, static_cast<std::size_t>(end.end - bytes.data()), end.state};
}

// By the library. Out of range is infinite or zero by the size of the exponent.
template <class T>
T expected(const std::string& text) {
  const bool plus = text[0] == '+';
  T value = std::numeric_limits<T>::quiet_NaN();
  const auto result = std::from_chars(text.data() + plus, text.data() + text.size(), value);
  if (result.ec == std::errc()) return value;
  return static_cast<T>(std::strtold(text.c_str(), nullptr));
}

template <class T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class T>
void check_text(const std::string& text) {
  const auto got = parse<T>(text);
  const T want = expected<T>(text);
  if (got.state != DecimalState::kGood || got.length != text.size() || !same(got.value, want)) {
    char message[200];
    std::snprintf(message, sizeof message, "%.80s: %.20g is not %.20g (%zu bytes, %s)", text.c_str(),
                  static_cast<double>(got.value), static_cast<double>(want), got.length,
                  sizeof(T) == 4 ? "float" : "double");
    throw std::runtime_error(message);
  }
  // The short form, where it feels able.
  std::uint8_t padded[64];
  std::memset(padded, ' ', sizeof padded);
  std::memcpy(padded, text.data(), std::min<std::size_t>(text.size(), 32));
  T value = -1;
  const auto* end = parse_short_decimal<T>(padded, value);
  if (end == nullptr || text.size() > 30) return;
  CHECK_EQ(static_cast<std::size_t>(end - padded), text.size());
  if (!same(value, want)) throw std::runtime_error("other short form: " + text);
}

void check_both(const std::string& text) {
  check_text<float>(text);
  check_text<double>(text);
}

std::string digits(std::mt19937_64& random, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>('0' + random() % 10);
  return text;
}

// The decimal expansion of a float's middle to the next one, moved by a little or not.
std::string near_middle(std::mt19937_64& random) {
  float a;
  do {
    const auto bits = static_cast<std::uint32_t>(random());
    std::memcpy(&a, &bits, 4);
  } while (!std::isfinite(a));
  a = std::fabs(a);
  const double middle = (static_cast<double>(a) + static_cast<double>(std::nextafter(a, 0.0f))) / 2;
  char text[400];
  std::snprintf(text, sizeof text, "%.*e", 1 + static_cast<int>(random() % 120), middle);
  std::string result = text;
  if (random() % 2 == 0) {
    const auto at = result.find('e') - 1;
    if (result[at] < '9' && result[at] >= '0') ++result[at];
  }
  return result;
}

}  // namespace

TEST(the_grammar) {
  struct Case {
    const char* text;
    std::size_t length;
    DecimalState state;
    double value;
  };
  const auto good = DecimalState::kGood;
  const Case cases[] = {
      {"7", 1, good, 7},
      {"+7", 2, good, 7},
      {"-7x", 2, good, -7},
      {"007", 3, good, 7},
      {"1.", 2, good, 1},
      {"1.e5", 2, good, 1},
      {"1.5e5", 5, good, 1.5e5},
      {"1.0e+2", 6, good, 100},
      {"1E-2", 4, good, 0.01},
      {"5e002", 5, good, 500},
      {"1-2", 1, good, 1},
      {"0x10", 1, good, 0},
      {"1_000", 1, good, 1},
      {"1.2.3", 3, good, 1.2},
      {"1.5 ", 3, good, 1.5},
      {"", 0, DecimalState::kNoDigits, 0},
      {"-", 1, DecimalState::kNoDigits, 0},
      {"+-1", 1, DecimalState::kNoDigits, 0},
      {".5", 0, DecimalState::kNoDigits, 0},
      {"inf", 0, DecimalState::kNoDigits, 0},
      {" 1", 0, DecimalState::kNoDigits, 0},
      {"1e", 2, DecimalState::kNoExponent, 0},
      {"1e+", 3, DecimalState::kNoExponent, 0},
      {"1.5E-x", 5, DecimalState::kNoExponent, 0},
      {"1e 5", 2, DecimalState::kNoExponent, 0},
  };
  for (const Case& c : cases) {
    const auto got = parse<double>(c.text);
    if (got.length != c.length || got.state != c.state || (c.state == good && got.value != c.value)) {
      throw std::runtime_error(std::string("wrong: ") + c.text);
    }
  }
}

TEST(limits) {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(same(parse<float>("1e39").value, infinity));
  CHECK(same(parse<float>("-1e999999999999999999999").value, -infinity));
  CHECK(same(parse<float>("1e-46").value, 0.0f));
  CHECK(same(parse<float>("-1e-999999999999999999999").value, -0.0f));
  CHECK(same(parse<float>("-0").value, -0.0f));
  CHECK(same(parse<double>("-0.000e5").value, -0.0));
  CHECK(same(parse<double>("0e400").value, 0.0));
  CHECK(same(parse<float>("7e-46").value, 0.0f));
  CHECK(same(parse<float>("8e-46").value, 1.401298464324817e-45f));
  CHECK(same(parse<float>("3.4028235e38").value, std::numeric_limits<float>::max()));
  CHECK(same(parse<float>("3.40282356e38").value, std::numeric_limits<float>::max()));
  CHECK(same(parse<float>("3.40282357e38").value, infinity));
  CHECK(same(parse<double>("1.7976931348623158e308").value, std::numeric_limits<double>::max()));
  CHECK(same(parse<double>("1.7976931348623159e308").value, std::numeric_limits<double>::infinity()));
  CHECK(same(parse<double>("4.9406564584124654e-324").value, std::numeric_limits<double>::denorm_min()));
  CHECK(same(parse<double>("2.4703282292062327e-324").value, 0.0));
  CHECK(same(parse<double>("2.4703282292062328e-324").value, std::numeric_limits<double>::denorm_min()));
  CHECK(same(parse<double>("1" + std::string(400, '0') + "e-400").value, 1.0));
  CHECK(same(parse<double>("0." + std::string(400, '0') + "1e401").value, 1.0));
  CHECK(same(parse<float>("1" + std::string(100000, '0') + "e-100000").value, 1.0f));
}

TEST(half_way_goes_to_even_and_any_digit_more_does_not) {
  CHECK(same(parse<float>("16777217").value, 16777216.0f));
  CHECK(same(parse<float>("16777219").value, 16777220.0f));
  CHECK(same(parse<float>("16777217." + std::string(2000, '0')).value, 16777216.0f));
  CHECK(same(parse<float>("16777217." + std::string(2000, '0') + "1").value, 16777218.0f));
  CHECK(same(parse<double>("9007199254740993").value, 9007199254740992.0));
  CHECK(same(parse<double>("9007199254740993." + std::string(1000, '0') + "1").value, 9007199254740994.0));
  // A double that lies half way between two floats only because it was rounded itself.
  CHECK(same(parse<float>("1.00000017881393432617187500000000001").value, 1.00000024f));
  CHECK(same(parse<float>("1.00000017881393432617187499").value, 1.00000012f));
}

TEST(random_texts_of_all_shapes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300000; ++i) {
    std::string text;
    const auto sign = random() % 8;
    if (sign == 0) text += '-';
    if (sign == 1) text += '+';
    text += digits(random, 1 + random() % (random() % 16 == 0 ? 40 : 8));
    const bool fraction = random() % 4 != 0;
    if (fraction) text += '.' + digits(random, 1 + random() % (random() % 16 == 0 ? 40 : 9));
    if (random() % 3 == 0) {
      text += random() % 2 == 0 ? 'e' : 'E';
      const auto s = random() % 3;
      if (s == 0) text += '-';
      if (s == 1) text += '+';
      text += std::to_string(random() % (random() % 4 == 0 ? 345 : 45));
    }
    check_both(text);
  }
}

TEST(what_programs_print) {
  std::mt19937_64 random(2);
  const char* formats[] = {"%.4f", "%.6f", "%g", "%.8g", "%.9g", "%.9e", "%.17g", "%.18e", "%.1f", "%.0f", "%.3e"};
  for (int i = 0; i < 300000; ++i) {
    double value;
    const auto kind = random() % 3;
    if (kind == 0) {
      const auto bits = random();
      std::memcpy(&value, &bits, 8);
      if (!std::isfinite(value)) continue;
      if (std::fabs(value) > 1e60) value = 1e60 / value;
    } else {
      value = (static_cast<double>(random()) / 1.8446744073709552e19 - 0.5) * (kind == 1 ? 2 : 2000);
    }
    char text[100];
    std::snprintf(text, sizeof text, formats[random() % std::size(formats)], value);
    check_both(text);
  }
}

TEST(numbers_close_to_the_middle_between_two_floats) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) check_both(near_middle(random));
}

TEST(numbers_close_to_the_middle_between_two_doubles) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20000; ++i) {
    // A double and half a unit more, whole, so that its digits can be written exactly.
    const std::uint64_t whole = (random() >> 11 | std::uint64_t{1} << 52) * 2 + 1;
    std::string text = std::to_string(whole);
    if (random() % 2 == 0) text += '.' + std::string(random() % 30, '0') + (random() % 2 == 0 ? "1" : "");
    if (text.back() == '.') text.pop_back();
    check_both(text);
  }
}

TEST(scaling_any_mantissa_by_any_power) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t mantissa = random() >> (random() % 64);
    const auto exponent = static_cast<int>(random() % 720) - 360;
    const std::string text = std::to_string(mantissa) + "e" + std::to_string(exponent);
    CHECK(same(scale_decimal<float>(mantissa, exponent), expected<float>(text)));
    CHECK(same(scale_decimal<double>(mantissa, exponent), expected<double>(text)));
  }
}

int main() { return headrace::test::run_all(); }
