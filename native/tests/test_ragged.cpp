// Padding and gathering rows, against loops over vectors.

#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "ragged.h"

using namespace headrace;

namespace {

struct Rows {
  std::vector<std::uint8_t> values;
  std::vector<std::int64_t> offsets{0};
  std::size_t item_bytes;

  RaggedView view() const { return {values, offsets, item_bytes}; }
};

Rows random_rows(std::mt19937& random, std::size_t item_bytes) {
  Rows rows{{}, {0}, item_bytes};
  for (std::size_t i = random() % 6; i > 0; --i) {
    rows.offsets.push_back(rows.offsets.back() + static_cast<std::int64_t>(random() % 7));
  }
  rows.values.resize(static_cast<std::size_t>(rows.offsets.back()) * item_bytes);
  for (auto& byte : rows.values) byte = static_cast<std::uint8_t>(random());
  return rows;
}

}  // namespace

TEST(padding_is_that_of_a_loop) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t item = std::vector<std::size_t>{1, 2, 4, 8, 12}[random() % 5];
    const Rows rows = random_rows(random, item);
    check_offsets(rows.view());
    const std::size_t width = 6 + random() % 3;
    std::vector<std::uint8_t> fill(item);
    for (auto& byte : fill) byte = static_cast<std::uint8_t>(random());
    for (const Side side : {Side::kLeft, Side::kRight}) {
      std::vector<std::uint8_t> out(rows.view().rows() * width * item), expected;
      pad_rows(rows.view(), static_cast<std::int64_t>(width), side, fill.data(), out.data());
      for (std::size_t i = 0; i < rows.view().rows(); ++i) {
        const auto begin = rows.values.begin() + rows.offsets[i] * static_cast<std::int64_t>(item);
        const auto end = rows.values.begin() + rows.offsets[i + 1] * static_cast<std::int64_t>(item);
        const auto missing = width - static_cast<std::size_t>(rows.offsets[i + 1] - rows.offsets[i]);
        if (side == Side::kRight) expected.insert(expected.end(), begin, end);
        for (std::size_t j = 0; j < missing; ++j) expected.insert(expected.end(), fill.begin(), fill.end());
        if (side == Side::kLeft) expected.insert(expected.end(), begin, end);
      }
      CHECK(out == expected);
    }
  }
}

TEST(rows_wider_than_asked_are_refused) {
  const Rows rows{{1, 2, 3}, {0, 1, 3}, 1};
  std::vector<std::uint8_t> out(2);
  const std::uint8_t fill = 0;
  CHECK_THROWS(pad_rows(rows.view(), 1, Side::kRight, &fill, out.data()), std::invalid_argument,
               "row 1 has 2 items, more than the width 1");
}

TEST(offsets_are_checked) {
  const auto check = [](std::vector<std::int64_t> offsets) {
    const std::vector<std::uint8_t> values(8);
    check_offsets({values, offsets, 4});
    return true;
  };
  CHECK(check({0}));
  CHECK(check({0, 2}));
  CHECK_THROWS(check({}), std::invalid_argument, "offsets is empty");
  CHECK_THROWS(check({-1, 2}), std::invalid_argument, "offsets[0] is negative");
  CHECK_THROWS(check({0, 2, 1}), std::invalid_argument, "offsets fall at row 1: from 2 to 1");
  CHECK_THROWS(check({0, 3}), std::invalid_argument, "beyond the 2 values");
}

TEST(gathering_is_indexing) {
  std::mt19937 random(2);
  for (int round = 0; round < 1000; ++round) {
    const std::size_t row_bytes = random() % 300, rows = 1 + random() % 20;
    std::vector<std::uint8_t> matrix(rows * row_bytes);
    for (auto& byte : matrix) byte = static_cast<std::uint8_t>(random());
    std::vector<std::int64_t> index(random() % 30);
    for (auto& row : index) row = static_cast<std::int64_t>(random() % rows);
    std::vector<std::uint8_t> out(index.size() * row_bytes), expected;
    gather_rows(matrix.data(), rows, row_bytes, index, out.data());
    for (const auto row : index) {
      const auto begin = matrix.begin() + row * static_cast<std::int64_t>(row_bytes);
      expected.insert(expected.end(), begin, begin + static_cast<std::int64_t>(row_bytes));
    }
    CHECK(out == expected);
  }
}

TEST(gathering_ragged_rows_is_indexing) {
  std::mt19937 random(3);
  for (int round = 0; round < 1000; ++round) {
    const Rows rows = random_rows(random, 4);
    if (rows.view().rows() == 0) continue;
    std::vector<std::int64_t> index(random() % 20);
    for (auto& row : index) row = static_cast<std::int64_t>(random() % rows.view().rows());
    Buffer<std::uint8_t> values;
    Buffer<std::int64_t> offsets;
    gather_ragged(rows.view(), index, values, offsets);
    std::vector<std::uint8_t> expected;
    for (std::size_t i = 0; i < index.size(); ++i) {
      const auto row = static_cast<std::size_t>(index[i]);
      expected.insert(expected.end(), rows.values.begin() + rows.offsets[row] * 4,
                      rows.values.begin() + rows.offsets[row + 1] * 4);
      CHECK_EQ(offsets[i + 1] * 4, static_cast<std::int64_t>(expected.size()));
    }
    CHECK(std::vector<std::uint8_t>(values.data(), values.data() + values.size()) == expected);
  }
}

TEST(rows_that_are_not_there_are_refused) {
  const Rows rows{{1, 2, 3}, {0, 1, 3}, 1};
  std::vector<std::uint8_t> out(9);
  Buffer<std::uint8_t> values;
  Buffer<std::int64_t> offsets;
  for (const std::int64_t bad : {std::int64_t{2}, std::int64_t{-1}}) {
    const std::vector<std::int64_t> index{0, bad};
    const std::string message = "row " + std::to_string(bad) + " at position 1 of the index is not there";
    CHECK_THROWS(gather_ragged(rows.view(), index, values, offsets), std::out_of_range, message);
    CHECK_THROWS(gather_rows(rows.values.data(), 2, 1, index, out.data()), std::out_of_range, message);
  }
}

TEST(only_the_offsets_of_the_rows_asked_for_count) {
  const Rows rows{{1, 2, 3, 4}, {0, 1, 3, 2, 9, -1, 2}, 1};
  Buffer<std::uint8_t> values;
  Buffer<std::int64_t> offsets;
  const std::vector<std::int64_t> good{1, 0};
  gather_ragged(rows.view(), good, values, offsets);
  CHECK(std::vector<std::uint8_t>(values.data(), values.data() + values.size()) ==
        (std::vector<std::uint8_t>{2, 3, 1}));
  for (const std::int64_t bad : {2, 3, 4, 5}) {
    const std::vector<std::int64_t> index{0, bad};
    CHECK_THROWS(gather_ragged(rows.view(), index, values, offsets), std::invalid_argument,
                 "offsets of row " + std::to_string(bad) + " are wrong: expected 0 <= start <= end <= 4");
  }
  CHECK_THROWS(gather_ragged({rows.values, {}, 1}, good, values, offsets), std::invalid_argument, "offsets is empty");
}

TEST(gathering_stays_in_memory_for_any_offsets) {
  std::mt19937_64 random(4);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> edges{0, 1,  2,     3,         4,
                                        5, -1, kMost, kMost - 1, std::numeric_limits<std::int64_t>::min()};
  std::size_t taken = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::size_t item = random() % 4;
    const std::vector<std::uint8_t> bytes(4 * item);
    std::vector<std::int64_t> column(2 + random() % 4), index(random() % 4);
    for (auto& offset : column) offset = edges[random() % edges.size()];
    for (auto& row : index) row = static_cast<std::int64_t>(random() % (column.size() - 1));
    Buffer<std::uint8_t> values;
    Buffer<std::int64_t> offsets;
    try {
      gather_ragged({bytes, column, item}, index, values, offsets);
      ++taken;
    } catch (const std::logic_error&) {  // invalid_argument or length_error
      ++refused;
    }
  }
  CHECK(taken > 500 && refused > 500);
}

int main() { return headrace::test::run_all(); }
