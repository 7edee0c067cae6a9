#include <algorithm>
#include <numeric>
#include <vector>

#include "check.h"
#include "permutation.h"
#include "random.h"

using namespace headrace;

namespace {

using Ints = std::vector<std::int64_t>;

Ints permuted(const Permutation& permutation, const Ints& positions, std::int64_t base = 0) {
  Ints out(positions.size());
  permutation.apply(positions, base, out);
  return out;
}

Ints up_to(std::int64_t n, std::int64_t from = 0) {
  Ints all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), from);
  return all;
}

bool is_permutation_of(Ints values, const Ints& sorted) {
  std::sort(values.begin(), values.end());
  return values == sorted;
}

}  // namespace

TEST(golden_order) {
  const Permutation permutation({7, 0, 0}, 10);
  CHECK(permuted(permutation, up_to(10)) == (Ints{7, 6, 9, 0, 4, 3, 1, 5, 2, 8}));
  CHECK_EQ(Permutation({1, 2, 3}, Permutation::kMaxSize)(Permutation::kMaxSize - 1), 261607594363204u);
}

TEST(golden_hash) { CHECK_EQ(absorb(0, 0), 0xe220a8397b1dcdafu); }

TEST(every_value_comes_once_for_every_small_size) {
  for (std::int64_t n = 0; n <= 1100; ++n) {
    const Permutation permutation({static_cast<std::uint64_t>(n), 1, 2}, static_cast<std::uint64_t>(n));
    CHECK(is_permutation_of(permuted(permutation, up_to(n)), up_to(n)));
  }
}

TEST(bulk_agrees_with_single_positions_in_every_block_size) {
  for (const std::uint64_t n : {std::uint64_t{200}, std::uint64_t{1} << 20, Permutation::kMaxSize}) {
    const Permutation permutation({3, 4, 5}, n);
    SplitMix random(n);
    for (std::size_t count : {0, 1, 7, 8, 9, 255, 256, 257, 1000}) {
      Ints positions(count);
      for (auto& position : positions) position = static_cast<std::int64_t>(random.next() % n);
      const Ints out = permuted(permutation, positions);
      for (std::size_t i = 0; i < count; ++i)
        CHECK_EQ(static_cast<std::uint64_t>(out[i]), permutation(static_cast<std::uint64_t>(positions[i])));
    }
  }
}

TEST(base_shifts_positions_and_values) {
  const Permutation permutation({3, 4, 5}, 50);
  Ints shifted = permuted(permutation, up_to(50, 1000), 1000);
  for (auto& value : shifted) value -= 1000;
  CHECK(shifted == permuted(permutation, up_to(50)));
}

TEST(sizes_beyond_the_largest_are_refused) {
  CHECK_THROWS(Permutation({0, 0, 0}, Permutation::kMaxSize + 1), std::length_error,
               "at most 2^48 positions, got 281474976710657");
}

TEST(windows_keep_to_themselves) {
  const Ints epochs{2};
  Ints out(100);
  permute_windows(9, epochs, 32, 100, up_to(100), out);
  for (std::int64_t start = 0; start < 100; start += 32) {
    const std::int64_t stop = std::min<std::int64_t>(start + 32, 100);
    CHECK(is_permutation_of({out.begin() + start, out.begin() + stop}, up_to(stop - start, start)));
  }
}

TEST(windows_in_any_order_and_epoch_agree_with_whole_windows) {
  constexpr std::int64_t kN = 77;
  std::vector<Ints> whole(3, Ints(kN));
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    permute_windows(1, Ints{epoch}, 10, kN, up_to(kN), whole[static_cast<std::size_t>(epoch)]);
  SplitMix random(5);
  Ints positions(500), epochs(500), out(500);
  for (std::size_t i = 0; i < 500; ++i) {
    positions[i] = random.below(kN);
    epochs[i] = random.below(3);
  }
  permute_windows(1, epochs, 10, kN, positions, out);
  for (std::size_t i = 0; i < 500; ++i)
    CHECK_EQ(out[i], whole[static_cast<std::size_t>(epochs[i])][static_cast<std::size_t>(positions[i])]);
}

TEST(windows_reach_to_the_largest_positions) {
  const std::int64_t last = (std::int64_t{1} << 62) - 1;
  Ints out(2);
  permute_windows(1, Ints{0}, Permutation::kMaxSize, std::uint64_t{1} << 62, Ints{last, 0}, out);
  CHECK(out[0] >= 0 && out[0] <= last && out[1] >= 0);
}

TEST(positions_outside_are_refused) {
  Ints out(2);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{10}, INT64_MIN, INT64_MAX}) {
    CHECK_THROWS(permute_windows(0, Ints{0}, 4, 10, Ints{3, bad}, out), std::out_of_range, "is outside [0, 10)");
    CHECK_THROWS(check_positions(Ints{3, bad}, 10), std::out_of_range, "is outside [0, 10)");
  }
  CHECK_THROWS(permute_windows(0, Ints{0}, 0, 10, Ints{}, {}), std::length_error, "got 0");
}

int main() { return headrace::test::run_all(); }
