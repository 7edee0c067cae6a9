#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "../cntk_order.h"
#include "check.h"

using namespace headrace;

namespace {

// Chunks of 1 to 7 records, a record a sample.
struct Data {
  std::vector<std::int64_t> chunks{0};
  std::vector<std::uint64_t> samples;

  explicit Data(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      samples.push_back(1 + i * 5 % 7);
      chunks.push_back(chunks.back() + static_cast<std::int64_t>(samples.back()));
    }
  }
};

std::vector<std::int64_t> read(CntkSweep& sweep, std::size_t step) {
  std::vector<std::int64_t> all, part(step), homes(step);
  while (sweep.position() < sweep.records()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(step, sweep.records() - sweep.position()));
    sweep.next({part.data(), count}, {homes.data(), count});
    all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return all;
}

bool refused(const std::vector<std::int64_t>& chunks, const std::vector<std::uint64_t>& samples) {
  try {
    CntkSweep(chunks, samples, {}, 1);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

}  // namespace

TEST(every_record_comes_once_whatever_the_window) {
  const Data data(200);
  for (const bool in_samples : {false, true}) {
    for (const std::uint64_t size : {0u, 1u, 2u, 3u, 50u, 400u, ~0u}) {
      CntkSweep sweep(data.chunks, data.samples, {size, in_samples}, size);
      std::vector<std::int64_t> all = read(sweep, 13);
      std::sort(all.begin(), all.end());
      std::vector<std::int64_t> wanted(static_cast<std::size_t>(data.chunks.back()));
      std::iota(wanted.begin(), wanted.end(), 0);
      CHECK(all == wanted);
    }
  }
}

TEST(the_order_does_not_depend_on_the_stretches) {
  const Data data(300);
  CntkSweep a(data.chunks, data.samples, {17, false}, 5), b(data.chunks, data.samples, {17, false}, 5);
  CHECK(read(a, 1) == read(b, 10000));
}

TEST(nothing_comes_behind_the_end) {
  const Data data(3);
  CntkSweep sweep(data.chunks, data.samples, {2, false}, 1);
  std::vector<std::int64_t> records(static_cast<std::size_t>(sweep.records()) + 1), homes(records.size());
  bool thrown = false;
  try {
    sweep.next(records, homes);
  } catch (const std::invalid_argument&) {
    thrown = true;
  }
  CHECK(thrown);
  CntkSweep none(std::vector<std::int64_t>{0}, {}, {2, false}, 1);
  CHECK_EQ(none.records(), 0u);
  none.next({}, {});
}

TEST(chunks_that_do_not_fit_are_refused) {
  CHECK(refused({}, {}));
  CHECK(refused({0, 1}, {1, 1}));
  CHECK(refused({1, 2}, {1}));
  CHECK(refused({0, 2, 2}, {1, 1}));
  CHECK(refused({0, -2}, {1}));
}

int main() { return headrace::test::run_all(); }
