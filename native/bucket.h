// Grouping records of like length into batches: pure arithmetic on the lengths of one window.
#pragma once

#include <cstdint>
#include <span>

#include "buffer.h"

namespace headrace {

// Batch j holds the records order[offsets[j]] … order[offsets[j + 1] - 1], numbered by their place in the
// window.
struct BatchLayout {
  Buffer<std::int64_t> order;
  Buffer<std::int64_t> offsets;
};

// The number of boundaries that are not above each length: bucket i holds boundaries[i - 1] <= length <
// boundaries[i].
Buffer<std::int32_t> find_buckets(std::span<const std::int32_t> lengths, std::span<const std::int64_t> boundaries);

// Records join their buckets in order; a bucket that holds batch_size records comes out as a batch at once.
// At the end the rests come out by ascending bucket, or are dropped. Throws std::out_of_range for a bucket
// outside [0, num_buckets), std::invalid_argument for a batch size below 1.
BatchLayout group_by_count(std::span<const std::int32_t> buckets, std::int32_t num_buckets, std::int64_t batch_size,
                           bool drop_remainder);

// The same, but a bucket comes out just before a record that would make (records * longest) exceed
// max_tokens, or when it is exactly full, so that no record could be added. A record longer than max_tokens
// is a batch by itself. Lengths of 0 count as 1, or records without tokens would all fit into one batch.
BatchLayout group_by_tokens(std::span<const std::int32_t> buckets, std::span<const std::int32_t> lengths,
                            std::int32_t num_buckets, std::int64_t max_tokens, bool drop_remainder);

}  // namespace headrace
