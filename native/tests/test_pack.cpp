#include <algorithm>
#include <vector>

#include "check.h"
#include "pack.h"
#include "random.h"

using namespace headrace;

namespace {

using Numbers = std::vector<std::int32_t>;
using Bins = std::vector<std::int64_t>;

Bins list(const Buffer<std::int64_t>& bins) { return Bins(bins.data(), bins.data() + bins.size()); }

// Looks through all bins for each piece.
Bins model(const Numbers& lengths, std::int64_t capacity, bool best) {
  Bins rooms;
  Bins out;
  std::int64_t last = 0;
  for (const std::int32_t length : lengths) {
    if (length > 0) {
      std::int64_t chosen = -1;
      for (std::size_t bin = 0; bin < rooms.size(); ++bin) {
        if (rooms[bin] < length) continue;
        if (chosen < 0 || (best && rooms[bin] < rooms[static_cast<std::size_t>(chosen)]))
          chosen = static_cast<std::int64_t>(bin);
        if (!best) break;
      }
      if (chosen < 0) {
        chosen = static_cast<std::int64_t>(rooms.size());
        rooms.push_back(capacity);
      }
      rooms[static_cast<std::size_t>(chosen)] -= length;
      last = chosen;
    }
    out.push_back(last);
  }
  return out;
}

}  // namespace

TEST(pieces_go_where_they_fit) {
  const Numbers lengths{5, 7, 3, 2, 0, 4, 10, 1};
  CHECK(list(pack_first_fit(lengths, 10)) == (Bins{0, 1, 0, 0, 0, 2, 3, 1}));
  CHECK(list(pack_best_fit(lengths, 10)) == (Bins{0, 1, 1, 0, 0, 2, 3, 0}));
}

TEST(nothing_is_packed_into_nothing) {
  CHECK_EQ(pack_first_fit({}, 4).size(), 0u);
  CHECK_EQ(pack_best_fit({}, 4).size(), 0u);
  CHECK(list(pack_first_fit(Numbers{0, 0}, 1)) == (Bins{0, 0}));
}

TEST(bins_are_those_of_a_model) {
  std::uint64_t state = 7;
  for (int round = 0; round < 200; ++round) {
    const std::int64_t capacity = 1 + static_cast<std::int64_t>(mix64(++state) % 40);
    Numbers lengths(mix64(++state) % 600);
    for (std::int32_t& length : lengths)
      length = static_cast<std::int32_t>(mix64(++state) % static_cast<std::uint64_t>(capacity + 1));
    CHECK(list(pack_first_fit(lengths, capacity)) == model(lengths, capacity, false));
    CHECK(list(pack_best_fit(lengths, capacity)) == model(lengths, capacity, true));
  }
}

TEST(what_never_fits_is_refused) {
  CHECK_THROWS(pack_first_fit(Numbers{1, 5}, 4), std::invalid_argument, "piece 1 has a length of 5");
  CHECK_THROWS(pack_best_fit(Numbers{-1}, 4), std::invalid_argument, "expected one in [0, 4]");
  CHECK_THROWS(pack_best_fit(Numbers{}, 0), std::invalid_argument, "at least 1, got 0");
}

int main() { return headrace::test::run_all(); }
