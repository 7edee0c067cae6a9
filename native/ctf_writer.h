// Writes rows of columns as lines of CNTK's text format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "buffer.h"

namespace headrace {

// Sequences of one stream, as they lie in memory.
struct CtfColumn {
  using Values = std::variant<std::span<const float>, std::span<const double>, std::span<const std::int64_t>,
                              std::span<const std::uint64_t>>;

  std::string alias;
  Values values;
  std::uint64_t dim = 0;                  // numbers a sample; of a sparse stream, what its indices are below
  std::span<const std::int64_t> offsets;  // where rows begin, in samples; one more than rows
  bool sparse = false;
  std::span<const std::int32_t> indices;  // of a sparse stream, one a value,
  std::span<const std::int64_t> entries;  // and where its samples begin, in values; one more than samples
};

// Appends the lines of rows [begin, end). Each line begins with the row's entry of `ids`; where there are none, each
// row is a single line without. Numbers are written as short as they can be and yet come back the same. `first` is the
// number of row 0 in messages.
//
// Throws DataError at a number that is not finite, and at a row that has no line, or more than one without ids;
// std::invalid_argument where offsets or indices leave what they point into.
void write_ctf(std::span<const CtfColumn> columns, std::span<const std::uint64_t> ids, std::size_t begin,
               std::size_t end, std::uint64_t first, Buffer<std::uint8_t>& out);

}  // namespace headrace
