#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../decimal.h"
#include "../number_run.h"
#include "check.h"
#include "text_model.h"

using namespace headrace;
using namespace headrace::test;

namespace {

// Reads with the vector instructions of this machine, if it has them, and checks each number; returns how many.
template <class T>
std::size_t check_run(const std::string& text, std::size_t most) {
  const ReadNumberRun<T> read = number_run_reader<T>();
  if (read == nullptr) return 0;
  const auto bytes = in_memory(text + std::string(kNumberRunAhead, '7'));
  const std::uint8_t* const begin = bytes->data();
  std::vector<T> values(most);  // of just that size: writing beyond its end is seen
  const NumberRun run = read(begin, begin + text.size(), values.data(), most);
  if (run.count > most || run.end < begin || run.end > begin + text.size()) fail(__FILE__, __LINE__, "beyond " + text);
  const std::uint8_t* p = begin;
  const auto skip_blanks = [&] {
    while (p < run.end && (*p == ' ' || *p == '\t')) ++p;
  };
  for (std::size_t i = 0; i < run.count; ++i) {
    skip_blanks();
    T wanted;
    const DecimalEnd one = parse_decimal(p, begin + bytes->size(), wanted);
    const bool same = one.state == DecimalState::kGood && std::memcmp(&wanted, &values[i], sizeof(T)) == 0;
    if (!same || one.end > run.end || (*one.end != ' ' && *one.end != '\t'))
      fail(__FILE__, __LINE__, "differs: " + text);
    p = one.end;
  }
  skip_blanks();
  if (p != run.end) fail(__FILE__, __LINE__, "ends elsewhere: " + text);
  return run.count;
}

}  // namespace

TEST(random_numbers_read_as_one_by_one) {
  std::mt19937 random(3);
  const std::string characters = "0123456789012345678901234567890123456789 \t  ..--+e|\n";
  for (int round = 0; round < 100000; ++round) {
    std::string text;
    const std::size_t kinds = random() % 4 == 0 ? characters.size() : random() % 2 == 0 ? 44 : 48;
    for (std::size_t left = random() % 200; left > 0; --left) text += characters[random() % kinds];
    check_run<float>(text, random() % 100);
    check_run<double>(text, random() % 100);
  }
}

TEST(numbers_of_each_length_read_as_one_by_one) {
  for (int whole = 1; whole < 12; ++whole) {
    for (int fraction = -1; fraction < 12; ++fraction) {
      std::string number = std::string("987654321012").substr(0, static_cast<std::size_t>(whole));
      if (fraction >= 0) number += "." + std::string("123456789012").substr(0, static_cast<std::size_t>(fraction));
      std::string text;
      for (int i = 0; i < 40; ++i) text += (i % 3 == 0 ? "-" : "") + number + (i % 7 == 0 ? "  " : " ");
      const std::size_t count = check_run<float>(text, 40);
      check_run<double>(text, 40);
      if (number_run_reader<float>() != nullptr && whole + std::max(fraction, 0) < 8) CHECK_EQ(count, 40u);
    }
  }
}

TEST(what_is_no_number_stops_the_run) {
  if (number_run_reader<float>() == nullptr) return;
  CHECK_EQ(check_run<float>("1 2 3 |a 4 5", 100), 3u);
  CHECK_EQ(check_run<float>("1 2 3", 100), 2u);
  CHECK_EQ(check_run<float>("1 2 .5 3 ", 100), 2u);
  CHECK_EQ(check_run<float>("1 - 3 ", 100), 1u);
  CHECK_EQ(check_run<float>("1 -2 1.2.3 4 ", 100), 2u);
  CHECK_EQ(check_run<float>("1 1-2 4 ", 100), 1u);
  CHECK_EQ(check_run<float>("1 2\n3 4 ", 100), 1u);
  CHECK_EQ(check_run<float>("1 2 3 4 5 6 7 8 9 ", 5), 5u);
}

int main() { return run_all(); }
