#include "ctf_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "errors.h"
#include "float_mode.h"

namespace headrace {
namespace {

constexpr std::size_t kLongestNumber = 32;  // -1.2345678901234567e-308 and all integers are shorter
constexpr double kExactWhole = 1e15;        // whole numbers up to here are written as such, not as 1e+06

struct Place {
  const CtfColumn& column;
  std::uint64_t row;
  std::int64_t sample;  // of the row

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("row " + std::to_string(row) + ", stream '" + column.alias + "', sample " + std::to_string(sample) +
                    " of it: " + what);
  }
};

// Writes a number to `to`, which has room for it.
template <class T>
char* put_number(char* to, T value, const Place& place) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      place.fail(std::string("the format has no way to write ") + (std::isnan(value) ? "NaN" : "infinity") +
                 "; replace such numbers first");
    }
    const bool whole = std::fabs(static_cast<double>(value)) < kExactWhole && value == std::trunc(value);
    if (whole && !(value == 0 && std::signbit(value))) {
      return std::to_chars(to, to + kLongestNumber, static_cast<std::int64_t>(value)).ptr;
    }
  }
  return std::to_chars(to, to + kLongestNumber, value).ptr;
}

// A place in the output that there is room behind.
class Out {
 public:
  explicit Out(Buffer<std::uint8_t>& buffer) : buffer_(buffer) {}

  // Room for so many bytes more; `done` says up to where it was used.
  char* room(std::size_t bytes) { return reinterpret_cast<char*>(buffer_.room(bytes)); }
  void done(const char* end) {
    const auto* begin = reinterpret_cast<const char*>(buffer_.data() + buffer_.size());
    buffer_.advance(static_cast<std::size_t>(end - begin));
  }

 private:
  Buffer<std::uint8_t>& buffer_;
};

template <class T>
void put_sample(std::span<const T> values, const CtfColumn& column, std::int64_t sample, const Place& place, Out& out) {
  if (!column.sparse) {
    const auto dim = static_cast<std::size_t>(column.dim);
    const T* from = values.data() + static_cast<std::size_t>(sample) * dim;
    char* to = out.room(dim * (kLongestNumber + 1));
    for (std::size_t i = 0; i < dim; ++i) {
      *to++ = ' ';
      to = put_number(to, from[i], place);
    }
    out.done(to);
    return;
  }
  const auto s = static_cast<std::size_t>(sample);
  const std::int64_t begin = column.entries[s], end = column.entries[s + 1];
  if (begin < 0 || begin > end || end > static_cast<std::int64_t>(values.size())) {
    throw std::invalid_argument("stream '" + column.alias + "': the offsets of samples don't fit the values");
  }
  char* to = out.room(static_cast<std::size_t>(end - begin) * (2 * kLongestNumber));
  for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
    const std::int32_t index = column.indices[i];
    if (index < 0 || static_cast<std::uint64_t>(index) >= column.dim) {
      place.fail("expected indices in [0, " + std::to_string(column.dim) + "), got " + std::to_string(index));
    }
    *to++ = ' ';
    to = std::to_chars(to, to + kLongestNumber, index).ptr;
    *to++ = ':';
    to = put_number(to, values[i], place);
  }
  out.done(to);
}

std::int64_t samples_of(const CtfColumn& column) {
  return std::visit(
      [&](const auto& values) {
        if (!column.sparse && column.dim == 0) return column.offsets.empty() ? 0 : column.offsets.back();
        if (!column.sparse) return static_cast<std::int64_t>(values.size() / column.dim);
        if (column.indices.size() != values.size() || column.entries.empty()) {
          throw std::invalid_argument("stream '" + column.alias + "': values, indices and entries differ in number");
        }
        return static_cast<std::int64_t>(column.entries.size()) - 1;
      },
      column.values);
}

// Samples of a row, after a look whether they are there.
std::int64_t length_of(const CtfColumn& column, std::size_t row, std::int64_t samples) {
  const std::int64_t begin = column.offsets[row], end = column.offsets[row + 1];
  if (begin < 0 || begin > end || end > samples) {
    throw std::invalid_argument("stream '" + column.alias + "': the offsets of rows don't fit the samples");
  }
  return end - begin;
}

}  // namespace

void write_ctf(std::span<const CtfColumn> columns, std::span<const std::uint64_t> ids, std::size_t begin,
               std::size_t end, std::uint64_t first, Buffer<std::uint8_t>& out_buffer) {
  const UsualFloats usual;
  Buffer<std::int64_t> samples(columns.size()), lengths(columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    samples[c] = samples_of(columns[c]);
    if (columns[c].offsets.size() < end + 1) throw std::invalid_argument("a column has fewer rows than asked for");
  }
  if (!ids.empty() && ids.size() < end) throw std::invalid_argument("there are fewer ids than rows");
  Out out(out_buffer);
  for (std::size_t row = begin; row < end; ++row) {
    std::int64_t lines = 0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      lengths[c] = length_of(columns[c], row, samples[c]);
      lines = std::max(lines, lengths[c]);
    }
    if (lines == 0) {
      throw DataError("row " + std::to_string(first + row) +
                      ": no stream has a sample, and the format has no line for that; leave the row out");
    }
    if (ids.empty() && lines > 1) {
      throw DataError("row " + std::to_string(first + row) + ": " + std::to_string(lines) +
                      " samples need as many lines, which only an id holds together; write ids");
    }
    for (std::int64_t line = 0; line < lines; ++line) {
      char* to = out.room(kLongestNumber);
      if (!ids.empty()) {
        to = std::to_chars(to, to + kLongestNumber, ids[row]).ptr;
        *to++ = '\t';
      }
      out.done(to);
      bool begun = false;
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const CtfColumn& column = columns[c];
        if (line >= lengths[c]) continue;
        to = out.room(column.alias.size() + 2);
        if (begun) *to++ = ' ';
        *to++ = '|';
        std::memcpy(to, column.alias.data(), column.alias.size());
        out.done(to + column.alias.size());
        const Place place{column, first + row, line};
        std::visit([&](const auto& values) { put_sample(values, column, column.offsets[row] + line, place, out); },
                   column.values);
        begun = true;
      }
      to = out.room(1);
      *to++ = '\n';
      out.done(to);
    }
  }
}

}  // namespace headrace
