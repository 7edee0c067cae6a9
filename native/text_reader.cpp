#include "text_reader.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "errors.h"
#include "prefetch.h"

namespace headrace {
TextReader::TextReader(std::vector<IndexedFile> files) : files_(std::move(files)) {
  first_.push_back(0);
  for (const auto& file : files_) {
    if (file.starts.empty()) throw std::invalid_argument("the index of a file has no entry");
    first_.push_back(first_.back() + static_cast<std::int64_t>(file.starts.size() - 1));
  }
}

std::pair<std::size_t, std::int64_t> TextReader::locate(std::int64_t record) const {
  if (record < 0 || record >= records()) {
    throw std::out_of_range("record " + std::to_string(record) + " is not there: expected 0 to " +
                            std::to_string(records() - 1) + " (" + std::to_string(records()) + " records)");
  }
  if (files_.size() == 1) return {0, record};
  const auto after = std::upper_bound(first_.begin(), first_.end(), record);
  const auto file = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {file, record - first_[file]};
}

void TextReader::check(std::span<const std::int64_t> records) const {
  std::vector<bool> seen(files_.size());
  for (const std::int64_t record : records) {
    const std::size_t file = locate(record).first;
    if (seen[file]) continue;
    seen[file] = true;
    files_[file].bytes->check_unchanged();
    if (files_[file].sidecar) files_[file].sidecar->check_unchanged();
  }
}

void TextReader::index_does_not_fit(std::int64_t record) const {
  const auto [file, line] = locate(record);
  throw DataError("the index of " + files_[file].bytes->name() + " does not fit the file at line " +
                  std::to_string(line + 1) + ": no line begins or ends where it says. Open the file with " +
                  "index='rebuild', or delete its .hrindex file");
}

TextReader::Line TextReader::line(std::int64_t record) const {
  const auto [number, row] = locate(record);
  const IndexedFile& file = files_[number];
  const std::uint8_t* data = file.bytes->data();
  const std::uint64_t size = file.bytes->size();
  const std::uint64_t begin = file.starts[static_cast<std::size_t>(row)];
  const std::uint64_t next = file.starts[static_cast<std::size_t>(row) + 1];
  // In this order: each condition makes the reads of the next ones safe.
  if (begin >= next || next - 1 > size) index_does_not_fit(record);
  if (begin > 0 && data[begin - 1] != '\n') index_does_not_fit(record);
  std::uint64_t end = next - 1;
  if (end < size) {
    if (data[end] != '\n') index_does_not_fit(record);
    if (end > begin && data[end - 1] == '\r') --end;
  } else if (end == begin || record + 1 != first_[number + 1]) {
    index_does_not_fit(record);  // only the last line may end without '\n', and it is not empty
  }
  return {data + begin, static_cast<std::size_t>(end - begin), data + size};
}

// Lines come from all over the file, so each costs two waits for memory: for the index and for its bytes.
// Both are asked for some records ahead.
void TextReader::prefetch(std::span<const std::int64_t> records, std::size_t at) const {
  constexpr std::size_t kIndexAhead = 16, kBytesAhead = 8;
  if (at + kIndexAhead < records.size()) {
    const auto [file, row] = locate(records[at + kIndexAhead]);
    prefetch_address(&files_[file].starts[static_cast<std::size_t>(row)]);
  }
  if (at + kBytesAhead < records.size()) {
    const auto [number, row] = locate(records[at + kBytesAhead]);
    const IndexedFile& file = files_[number];
    const std::uint64_t begin = file.starts[static_cast<std::size_t>(row)];
    if (begin >= file.bytes->size()) return;
    prefetch_address(file.bytes->data() + begin);
    if (file.bytes->size() - begin > 64) prefetch_address(file.bytes->data() + begin + 64);
  }
}

void TextReader::read(std::span<const std::int64_t> records, Buffer<std::uint8_t>& data,
                      Buffer<std::int64_t>& offsets) const {
  check(records);
  offsets.reserve(records.size() + 1);
  offsets.push(0);
  for (std::size_t i = 0; i < records.size(); ++i) {
    prefetch(records, i);
    const Line text = line(records[i]);
    if (text.size > 0) {
      if (std::memchr(text.data, '\n', text.size) != nullptr) index_does_not_fit(records[i]);
      std::memcpy(data.room(text.size), text.data, text.size);
      data.advance(text.size);
    }
    offsets.push(static_cast<std::int64_t>(data.size()));
  }
}

void TextReader::encode(std::span<const std::int64_t> records, const Vocabulary& vocabulary, const Encoding& encoding,
                        std::int32_t unknown, Buffer<std::int32_t>& ids, Buffer<std::int64_t>& offsets) const {
  check(records);
  offsets.reserve(records.size() + 1);
  offsets.push(0);
  for (std::size_t i = 0; i < records.size(); ++i) {
    prefetch(records, i);
    const Line text = line(records[i]);
    const bool line_feed = vocabulary.encode(text.data, text.size, text.readable_end, encoding, unknown, ids);
    if (line_feed) index_does_not_fit(records[i]);
    offsets.push(static_cast<std::int64_t>(ids.size()));
  }
}

}  // namespace headrace
