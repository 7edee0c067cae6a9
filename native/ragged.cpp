#include "ragged.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "prefetch.h"

namespace headrace {
namespace {

void check_index(std::span<const std::int64_t> index, std::size_t rows) {
  // Without a branch in the loop: the largest as unsigned also shows negative numbers.
  std::uint64_t largest = 0;
  for (const std::int64_t row : index) largest = std::max(largest, static_cast<std::uint64_t>(row));
  if (index.empty() || largest < rows) return;
  const auto bad = std::find_if(index.begin(), index.end(),
                                [rows](std::int64_t row) { return static_cast<std::uint64_t>(row) >= rows; });
  throw std::out_of_range("row " + std::to_string(*bad) + " at position " + std::to_string(bad - index.begin()) +
                          " of the index is not there: expected 0 to " + std::to_string(rows) + " - 1");
}

// memcpy that may be given no address when there is nothing to copy.
void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
  if (size > 0) std::memcpy(to, from, size);
}

}  // namespace

void check_offsets(const RaggedView& ragged) {
  if (ragged.offsets.empty()) throw std::invalid_argument("offsets is empty: expected one entry more than rows");
  if (ragged.offsets[0] < 0) throw std::invalid_argument("offsets[0] is negative");
  for (std::size_t i = 1; i < ragged.offsets.size(); ++i) {
    if (ragged.offsets[i] < ragged.offsets[i - 1]) {
      throw std::invalid_argument("offsets fall at row " + std::to_string(i - 1) + ": from " +
                                  std::to_string(ragged.offsets[i - 1]) + " to " + std::to_string(ragged.offsets[i]));
    }
  }
  const auto last = static_cast<std::uint64_t>(ragged.offsets.back());
  const std::uint64_t items = ragged.item_bytes == 0 ? last : ragged.values.size() / ragged.item_bytes;
  if (last > items) {
    throw std::invalid_argument("offsets end at " + std::to_string(last) + ", beyond the " + std::to_string(items) +
                                " values");
  }
}

void pad_rows(const RaggedView& ragged, std::int64_t width, Side side, const std::uint8_t* fill, std::uint8_t* out) {
  const std::size_t item = ragged.item_bytes;
  const std::size_t row_bytes = static_cast<std::size_t>(width) * item;
  // One row of nothing but padding; every row then is two copies.
  Buffer<std::uint8_t> padding(row_bytes);
  for (std::size_t at = 0; at < row_bytes; at += item) std::memcpy(padding.data() + at, fill, item);
  for (std::size_t i = 0; i < ragged.rows(); ++i, out += row_bytes) {
    const std::int64_t length = ragged.offsets[i + 1] - ragged.offsets[i];
    if (length > width) {
      throw std::invalid_argument("row " + std::to_string(i) + " has " + std::to_string(length) +
                                  " items, more than the width " + std::to_string(width) +
                                  ": give a larger width, or cut the row");
    }
    const std::size_t bytes = static_cast<std::size_t>(length) * item;
    const std::uint8_t* from = ragged.values.data() + static_cast<std::size_t>(ragged.offsets[i]) * item;
    if (side == Side::kRight) {
      copy(out, from, bytes);
      copy(out + bytes, padding.data(), row_bytes - bytes);
    } else {
      copy(out, padding.data(), row_bytes - bytes);
      copy(out + (row_bytes - bytes), from, bytes);
    }
  }
}

void gather_rows(const std::uint8_t* matrix, std::size_t rows, std::size_t row_bytes,
                 std::span<const std::int64_t> index, std::uint8_t* out) {
  check_index(index, rows);
  if (row_bytes == 0) return;
  // Random rows of a large array are neither in the caches nor in the table of pages; asking early for the first
  // lines of a row hides both, and the processor's own prefetcher then follows.
  constexpr std::size_t kAhead = 6, kLines = 4, kLine = 64;
  for (std::size_t i = 0; i < index.size(); ++i, out += row_bytes) {
    if (i + kAhead < index.size()) {
      const std::uint8_t* next = matrix + static_cast<std::size_t>(index[i + kAhead]) * row_bytes;
      for (std::size_t at = 0; at < std::min(row_bytes, kLines * kLine); at += kLine) prefetch_address(next + at);
    }
    std::memcpy(out, matrix + static_cast<std::size_t>(index[i]) * row_bytes, row_bytes);
  }
}

void gather_ragged(const RaggedView& ragged, std::span<const std::int64_t> index, Buffer<std::uint8_t>& values,
                   Buffer<std::int64_t>& offsets) {
  if (ragged.offsets.empty()) throw std::invalid_argument("offsets is empty: expected one entry more than rows");
  check_index(index, ragged.rows());
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::size_t item = std::max<std::size_t>(ragged.item_bytes, 1);
  // Items of no bytes take no memory, so their number is bounded by the type alone.
  const std::int64_t items =
      ragged.item_bytes == 0 ? kMost : static_cast<std::int64_t>(ragged.values.size() / ragged.item_bytes);
  const std::int64_t room = kMost / static_cast<std::int64_t>(item);  // what fits in memory at most
  offsets.resize(index.size() + 1);
  offsets[0] = 0;
  // Only the rows asked for are looked at: a batch must not cost as much as the whole column.
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto row = static_cast<std::size_t>(index[i]);
    const std::int64_t begin = ragged.offsets[row], end = ragged.offsets[row + 1];
    if (begin < 0 || begin > end || end > items) {
      throw std::invalid_argument("offsets of row " + std::to_string(row) +
                                  " are wrong: expected 0 <= start <= end <= " + std::to_string(items) +
                                  " (the number of values), got " + std::to_string(begin) + " to " +
                                  std::to_string(end));
    }
    if (end - begin > room - offsets[i]) throw std::length_error("the rows taken are too many to be held in memory");
    offsets[i + 1] = offsets[i] + (end - begin);
  }
  values.resize(static_cast<std::size_t>(offsets[index.size()]) * ragged.item_bytes);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto from = static_cast<std::size_t>(ragged.offsets[static_cast<std::size_t>(index[i])]);
    copy(values.data() + static_cast<std::size_t>(offsets[i]) * ragged.item_bytes,
         ragged.values.data() + from * ragged.item_bytes,
         static_cast<std::size_t>(offsets[i + 1] - offsets[i]) * ragged.item_bytes);
  }
}

}  // namespace headrace
