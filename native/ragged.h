// Rows of unequal length: to a dense block, and by number. Items are bytes of any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "buffer.h"

namespace headrace {

struct RaggedView {
  std::span<const std::uint8_t> values;
  std::span<const std::int64_t> offsets;  // in items; row i is offsets[i] .. offsets[i + 1]
  std::size_t item_bytes;

  std::size_t rows() const { return offsets.size() - 1; }
};

// Throws std::invalid_argument unless the offsets rise, from 0 or more to at most the number of values.
void check_offsets(const RaggedView& ragged);

enum class Side { kLeft, kRight };  // where the padding goes

// Writes rows() rows of `width` items to `out`. `fill` is one item, repeated. Throws std::invalid_argument at a
// row longer than `width`. The offsets must have been checked.
void pad_rows(const RaggedView& ragged, std::int64_t width, Side side, const std::uint8_t* fill, std::uint8_t* out);

// Copies the rows `index` of a matrix of `rows` rows. Throws std::out_of_range.
void gather_rows(const std::uint8_t* matrix, std::size_t rows, std::size_t row_bytes,
                 std::span<const std::int64_t> index, std::uint8_t* out);

// The same for rows of unequal length. Looks at the offsets of those rows alone, and throws std::invalid_argument
// where they fall or leave the values, whatever the others are; std::length_error if the copies are beyond any memory.
void gather_ragged(const RaggedView& ragged, std::span<const std::int64_t> index, Buffer<std::uint8_t>& values,
                   Buffer<std::int64_t>& offsets);

}  // namespace headrace
