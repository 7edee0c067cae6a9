#include <vector>

#include "check.h"
#include "mix.h"
#include "random.h"

using namespace headrace;

namespace {

using Ints = std::vector<std::int64_t>;

struct Pattern {
  std::vector<std::int32_t> choice{0, 1, 2, 0, 0, 1, 0, 2, 1, 0};
  Ints rank{0, 0, 0, 1, 2, 1, 3, 1, 2, 4};
  Ints counts{5, 3, 2};

  MixPattern view() const { return {choice, rank, counts}; }
};

struct Located {
  std::vector<std::int32_t> choice;
  Ints record;
};

Located located(std::int64_t cell, std::int64_t n, const Ints& positions, const Ints& epochs = {0}) {
  Located out{std::vector<std::int32_t>(positions.size()), Ints(positions.size())};
  mix_locate(Pattern().view(), 7, epochs, cell, n, positions, out.choice, out.record);
  return out;
}

Ints up_to(std::int64_t n) {
  Ints all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

}  // namespace

TEST(each_plan_comes_in_its_own_order) {
  for (const std::int64_t cell : {1, 3, 10, 64, 4096}) {
    const Located all = located(cell, 203, up_to(203));
    Ints taken(3);
    for (std::size_t i = 0; i < all.choice.size(); ++i)
      CHECK_EQ(all.record[i], taken[static_cast<std::size_t>(all.choice[i])]++);
    CHECK(taken == (Ints{101, 61, 41}));  // as in the pattern, whatever the cells
  }
}

TEST(any_position_and_epoch_agrees_with_the_whole) {
  std::vector<Located> whole;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) whole.push_back(located(10, 95, up_to(95), {epoch}));
  SplitMix random(3);
  Ints positions(400), epochs(400);
  for (std::size_t i = 0; i < 400; ++i) {
    positions[i] = random.below(95);
    epochs[i] = random.below(3);
  }
  const Located some = located(10, 95, positions, epochs);
  for (std::size_t i = 0; i < 400; ++i) {
    const Located& all = whole[static_cast<std::size_t>(epochs[i])];
    CHECK_EQ(some.choice[i], all.choice[static_cast<std::size_t>(positions[i])]);
    CHECK_EQ(some.record[i], all.record[static_cast<std::size_t>(positions[i])]);
  }
}

TEST(what_makes_no_sense_is_refused) {
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{10}, INT64_MIN, INT64_MAX})
    CHECK_THROWS(located(4, 10, {0, bad}), std::out_of_range, "is outside [0, 10)");
  CHECK_THROWS(located(0, 10, {}), std::invalid_argument, "a cell has 1 to 4096 positions, got 0");
  CHECK_THROWS(located(4097, 10, {}), std::invalid_argument, "got 4097");
  Pattern wrong;
  wrong.choice[3] = 3;
  CHECK_THROWS(mix_locate(wrong.view(), 0, Ints{0}, 1, 5, {}, {}, {}), std::invalid_argument,
               "the pattern names plan 3 of 3");
  wrong.rank.pop_back();
  CHECK_THROWS(mix_locate(wrong.view(), 0, Ints{0}, 1, 5, {}, {}, {}), std::invalid_argument, "as many ranks");
}

int main() { return headrace::test::run_all(); }
