#include <algorithm>
#include <numeric>
#include <vector>

#include "bucket.h"
#include "check.h"
#include "random.h"

using namespace headrace;

namespace {

using Numbers = std::vector<std::int32_t>;
using Batches = std::vector<std::vector<std::int64_t>>;

Batches batches(const BatchLayout& layout) {
  Batches out;
  for (std::size_t j = 0; j + 1 < layout.offsets.size(); ++j)
    out.emplace_back(layout.order.data() + layout.offsets[j], layout.order.data() + layout.offsets[j + 1]);
  return out;
}

bool holds_each_once(const BatchLayout& layout, std::size_t count) {
  std::vector<std::int64_t> seen(layout.order.data(), layout.order.data() + layout.order.size());
  std::sort(seen.begin(), seen.end());
  std::vector<std::int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return seen == all;
}

}  // namespace

TEST(full_buckets_come_out_at_once_and_rests_by_bucket) {
  const Numbers buckets{1, 0, 1, 1, 0, 2, 0, 0, 1};
  CHECK(batches(group_by_count(buckets, 3, 2, false)) == (Batches{{0, 2}, {1, 4}, {6, 7}, {3, 8}, {5}}));
  CHECK(batches(group_by_count(buckets, 3, 2, true)) == (Batches{{0, 2}, {1, 4}, {6, 7}, {3, 8}}));
}

TEST(no_records_make_no_batch) {
  const BatchLayout layout = group_by_count({}, 3, 2, false);
  CHECK_EQ(layout.order.size(), 0u);
  CHECK_EQ(layout.offsets.size(), 1u);
  CHECK_EQ(layout.offsets[0], 0);
}

TEST(a_budget_closes_a_bucket_before_the_record_that_exceeds_it) {
  const Numbers lengths{4, 4, 5, 2, 20, 3, 3};
  const Numbers buckets(lengths.size(), 0);
  CHECK(batches(group_by_tokens(buckets, lengths, 1, 12, false)) == (Batches{{0, 1}, {2, 3}, {4}, {5, 6}}));
}

TEST(a_bucket_to_which_nothing_could_be_added_comes_out_at_once) {
  const Numbers lengths{5, 5, 1};
  const Numbers buckets(lengths.size(), 0);
  CHECK(batches(group_by_tokens(buckets, lengths, 1, 10, true)) == (Batches{{0, 1}}));
  CHECK(batches(group_by_tokens(buckets, lengths, 1, 10, false)) == (Batches{{0, 1}, {2}}));
}

TEST(empty_records_count_as_one_token) {
  const Numbers lengths(5, 0), buckets(5, 0);
  CHECK(batches(group_by_tokens(buckets, lengths, 1, 2, false)) == (Batches{{0, 1}, {2, 3}, {4}}));
}

TEST(the_largest_numbers_do_not_overflow) {
  const Numbers lengths(100, INT32_MAX), buckets(100, 0);
  CHECK_EQ(batches(group_by_tokens(buckets, lengths, 1, INT64_MAX, false)).size(), 1u);
  CHECK_EQ(batches(group_by_count(buckets, 1, INT64_MAX, false)).size(), 1u);
  CHECK_EQ(batches(group_by_tokens(buckets, lengths, INT32_MAX / 1024, 1, false)).size(), 100u);
}

TEST(every_record_comes_once_and_budgets_are_kept) {
  SplitMix random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t count = random.below(300);
    Numbers lengths(count), buckets(count);
    for (std::size_t i = 0; i < count; ++i) {
      lengths[i] = static_cast<std::int32_t>(random.below(40));
      buckets[i] = lengths[i] / 10;
    }
    const auto budget = static_cast<std::int64_t>(1 + random.below(100));
    CHECK(holds_each_once(group_by_count(buckets, 4, budget, false), count));
    const BatchLayout layout = group_by_tokens(buckets, lengths, 4, budget, false);
    CHECK(holds_each_once(layout, count));
    for (const auto& batch : batches(layout)) {
      std::int64_t longest = 1;
      for (const std::int64_t record : batch) {
        longest = std::max<std::int64_t>(longest, lengths[static_cast<std::size_t>(record)]);
        CHECK_EQ(buckets[static_cast<std::size_t>(record)], buckets[static_cast<std::size_t>(batch[0])]);
      }
      CHECK(batch.size() == 1 || static_cast<std::int64_t>(batch.size()) * longest <= budget);
    }
  }
}

TEST(buckets_are_found_with_and_without_a_table) {
  const std::vector<std::int64_t> boundaries{0, 3, 4095, 4096, 5000};
  Numbers lengths{-7, 0, 2, 3, 4094, 4095, 4096, 4999, 5000, INT32_MAX, INT32_MIN};
  const Numbers expected{0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 0};
  for (const std::size_t padding : {std::size_t{0}, std::size_t{5000}}) {
    lengths.resize(expected.size() + padding);
    const Buffer<std::int32_t> found = find_buckets(lengths, boundaries);
    CHECK_EQ(found.size(), lengths.size());
    CHECK(std::equal(expected.begin(), expected.end(), found.data()));
  }
  const Buffer<std::int32_t> single = find_buckets(lengths, {});
  CHECK(std::all_of(single.data(), single.data() + single.size(), [](std::int32_t b) { return b == 0; }));
}

TEST(what_makes_no_sense_is_refused) {
  const Numbers buckets{0, 1, 2};
  CHECK_THROWS(group_by_count(buckets, 2, 1, false), std::out_of_range, "record 2 is in bucket 2");
  CHECK_THROWS(group_by_count(Numbers{-1}, 2, 1, false), std::out_of_range, "record 0 is in bucket -1");
  CHECK_THROWS(group_by_count(buckets, -3, 1, false), std::out_of_range, "expected one of 0");
  CHECK_THROWS(group_by_count(buckets, 3, 0, false), std::invalid_argument, "at least 1, got 0");
  CHECK_THROWS(group_by_tokens(buckets, Numbers{1, 2}, 3, 5, false), std::invalid_argument, "got 2 and 3");
}

int main() { return headrace::test::run_all(); }
