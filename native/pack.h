// Packing pieces of given lengths into bins of one capacity: pure arithmetic on the lengths of one window.
#pragma once

#include <cstdint>
#include <span>

#include "buffer.h"

namespace headrace {

// The bin of each piece, bins numbered as they are opened. Pieces are placed in order, each into the first bin that has
// room for it; if none has, a new one is opened. A piece of length 0 joins the piece before it. Throws
// std::invalid_argument for a capacity below 1 or a length outside [0, capacity].
Buffer<std::int64_t> pack_first_fit(std::span<const std::int32_t> lengths, std::int64_t capacity);

// The same, but each piece goes into the bin that it leaves the least room in; of several, into the first.
Buffer<std::int64_t> pack_best_fit(std::span<const std::int32_t> lengths, std::int64_t capacity);

}  // namespace headrace
