#include "bucket.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace headrace {
namespace {

// What is in one bucket: a chain of records, each knowing the one that came before it.
struct Bucket {
  std::int64_t last = -1;
  std::int64_t count = 0;
  std::int64_t longest = 0;
};

// Chains of records by bucket, and the batches that have come out. Memory is one number a record, however the
// records spread over the buckets.
class Grouping {
 public:
  Grouping(std::size_t records, std::int32_t num_buckets)
      : buckets_(static_cast<std::size_t>(std::max(num_buckets, 0))), before_(records) {
    layout_.order.reserve(records);
    layout_.offsets.push(0);
  }

  Bucket& at(std::span<const std::int32_t> buckets, std::size_t record) {
    const std::int32_t number = buckets[record];
    if (number < 0 || static_cast<std::size_t>(number) >= buckets_.size())
      throw std::out_of_range("record " + std::to_string(record) + " is in bucket " + std::to_string(number) +
                              ", expected one of " + std::to_string(buckets_.size()));
    return buckets_[static_cast<std::size_t>(number)];
  }

  void add(Bucket& bucket, std::size_t record) {
    before_[record] = bucket.last;
    bucket.last = static_cast<std::int64_t>(record);
    ++bucket.count;
  }

  void emit(Bucket& bucket) {
    const auto count = static_cast<std::size_t>(bucket.count);
    std::int64_t* out = layout_.order.room(count);
    std::int64_t record = bucket.last;
    for (std::size_t i = count; i-- > 0;) {
      out[i] = record;
      record = before_[static_cast<std::size_t>(record)];
    }
    layout_.order.advance(count);
    layout_.offsets.push(static_cast<std::int64_t>(layout_.order.size()));
    bucket = Bucket{};
  }

  BatchLayout finish(bool drop_remainder) {
    if (!drop_remainder)
      for (Bucket& bucket : buckets_)
        if (bucket.count > 0) emit(bucket);
    return std::move(layout_);
  }

 private:
  std::vector<Bucket> buckets_;
  Buffer<std::int64_t> before_;
  BatchLayout layout_;
};

void check_at_least_one(const char* what, std::int64_t value) {
  if (value < 1) throw std::invalid_argument(std::string(what) + " must be at least 1, got " + std::to_string(value));
}

}  // namespace

Buffer<std::int32_t> find_buckets(std::span<const std::int32_t> lengths, std::span<const std::int64_t> boundaries) {
  // Most lengths are short. Where there are many records, those are looked up, and only the longer ones
  // searched for.
  constexpr std::size_t kTable = 4096;
  const auto search = [&boundaries](std::int64_t length) {
    return static_cast<std::int32_t>(std::upper_bound(boundaries.begin(), boundaries.end(), length) -
                                     boundaries.begin());
  };
  std::vector<std::int32_t> table(lengths.size() < kTable ? 0 : kTable);
  for (std::size_t length = 0; length < table.size(); ++length)
    table[length] = search(static_cast<std::int64_t>(length));
  Buffer<std::int32_t> buckets(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto length = static_cast<std::uint32_t>(lengths[i]);  // negative ones become huge
    buckets[i] = length < table.size() ? table[length] : search(lengths[i]);
  }
  return buckets;
}

BatchLayout group_by_count(std::span<const std::int32_t> buckets, std::int32_t num_buckets, std::int64_t batch_size,
                           bool drop_remainder) {
  check_at_least_one("batch_size", batch_size);
  Grouping grouping(buckets.size(), num_buckets);
  for (std::size_t record = 0; record < buckets.size(); ++record) {
    Bucket& bucket = grouping.at(buckets, record);
    grouping.add(bucket, record);
    if (bucket.count == batch_size) grouping.emit(bucket);
  }
  return grouping.finish(drop_remainder);
}

BatchLayout group_by_tokens(std::span<const std::int32_t> buckets, std::span<const std::int32_t> lengths,
                            std::int32_t num_buckets, std::int64_t max_tokens, bool drop_remainder) {
  check_at_least_one("max_tokens", max_tokens);
  if (lengths.size() != buckets.size())
    throw std::invalid_argument("expected as many lengths as buckets, got " + std::to_string(lengths.size()) + " and " +
                                std::to_string(buckets.size()));
  Grouping grouping(buckets.size(), num_buckets);
  for (std::size_t record = 0; record < buckets.size(); ++record) {
    Bucket& bucket = grouping.at(buckets, record);
    const std::int64_t length = std::max<std::int64_t>(lengths[record], 1);
    // Compared by division, since a product could overflow.
    if (bucket.count > 0 && bucket.count + 1 > max_tokens / std::max(bucket.longest, length)) grouping.emit(bucket);
    grouping.add(bucket, record);
    bucket.longest = std::max(bucket.longest, length);
    if (bucket.count + 1 > max_tokens / bucket.longest) grouping.emit(bucket);
  }
  return grouping.finish(drop_remainder);
}

}  // namespace headrace
