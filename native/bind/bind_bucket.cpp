#include "arrays.h"
#include "bind.h"
#include "bucket.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Numbers = Array<std::int32_t>;

nb::tuple to_tuple(headrace::BatchLayout&& layout) {
  return nb::make_tuple(to_numpy(std::move(layout.order)), to_numpy(std::move(layout.offsets)));
}

}  // namespace

#define INTS "numpy.typing.NDArray[numpy.int64]"
#define INTS32 "numpy.typing.NDArray[numpy.int32]"

void bind_bucket(nb::module_& m) {
  m.def(
      "find_buckets",
      [](const Numbers& lengths, const Array<std::int64_t>& boundaries) {
        headrace::Buffer<std::int32_t> buckets;
        {
          nb::gil_scoped_release unlocked;
          buckets = headrace::find_buckets(span_of(lengths), span_of(boundaries));
        }
        return to_numpy(std::move(buckets));
      },
      "lengths"_a, "boundaries"_a, nb::sig("def find_buckets(lengths: " INTS32 ", boundaries: " INTS ") -> " INTS32),
      "The bucket of each length: how many boundaries are not above it.");
  m.def(
      "group_by_count",
      [](const Numbers& buckets, std::int32_t num_buckets, std::int64_t batch_size, bool drop_remainder) {
        headrace::BatchLayout layout;
        {
          nb::gil_scoped_release unlocked;
          layout = headrace::group_by_count(span_of(buckets), num_buckets, batch_size, drop_remainder);
        }
        return to_tuple(std::move(layout));
      },
      "buckets"_a, "num_buckets"_a, "batch_size"_a, "drop_remainder"_a,
      nb::sig("def group_by_count(buckets: " INTS32
              ", num_buckets: int, batch_size: int, drop_remainder: bool) -> tuple[" INTS ", " INTS "]"),
      "Batches of so many records of one bucket: (order, offsets).");
  m.def(
      "group_by_tokens",
      [](const Numbers& buckets, const Numbers& lengths, std::int32_t num_buckets, std::int64_t max_tokens,
         bool drop_remainder) {
        headrace::BatchLayout layout;
        {
          nb::gil_scoped_release unlocked;
          layout =
              headrace::group_by_tokens(span_of(buckets), span_of(lengths), num_buckets, max_tokens, drop_remainder);
        }
        return to_tuple(std::move(layout));
      },
      "buckets"_a, "lengths"_a, "num_buckets"_a, "max_tokens"_a, "drop_remainder"_a,
      nb::sig("def group_by_tokens(buckets: " INTS32 ", lengths: " INTS32
              ", num_buckets: int, max_tokens: int, drop_remainder: bool) -> tuple[" INTS ", " INTS "]"),
      "Batches of one bucket with so many tokens after padding: (order, offsets).");
}
