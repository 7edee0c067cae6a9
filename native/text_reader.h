// Reads lines of text files by number, as bytes or straight to vocabulary ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "buffer.h"
#include "file_bytes.h"
#include "vocabulary.h"

namespace headrace {

// A file and the index of its lines (see LineIndex), which must outlive the reader.
struct IndexedFile {
  std::shared_ptr<const FileBytes> bytes;
  std::span<const std::uint64_t> starts;
  std::shared_ptr<const FileBytes> sidecar;  // the file that the index is mapped from, or none
};

// The lines of several files as one list of records, in the order of the files. Safe to share between threads.
// Every call first checks that the files it touches are unchanged (DataChangedError), and at each line that the
// index fits the bytes (DataError), so neither a file that is written to nor a damaged index gives wrong lines.
class TextReader {
 public:
  explicit TextReader(std::vector<IndexedFile> files);

  std::int64_t records() const { return first_.back(); }

  // The bytes of the lines, one after the other, and where each begins (one entry more than records).
  void read(std::span<const std::int64_t> records, Buffer<std::uint8_t>& data, Buffer<std::int64_t>& offsets) const;

  // The ids of the lines' tokens, one line after the other, and where each begins.
  void encode(std::span<const std::int64_t> records, const Vocabulary& vocabulary, const Encoding& encoding,
              std::int32_t unknown, Buffer<std::int32_t>& ids, Buffer<std::int64_t>& offsets) const;

  // The file of a record, and the record's number in it. Throws std::out_of_range.
  std::pair<std::size_t, std::int64_t> locate(std::int64_t record) const;

 private:
  struct Line {
    const std::uint8_t* data;
    std::size_t size;
    const std::uint8_t* readable_end;
  };

  // Checks the records' range and that their files are unchanged.
  void check(std::span<const std::int64_t> records) const;
  Line line(std::int64_t record) const;
  void prefetch(std::span<const std::int64_t> records, std::size_t at) const;
  [[noreturn]] void index_does_not_fit(std::int64_t record) const;

  std::vector<IndexedFile> files_;
  std::vector<std::int64_t> first_;  // number of each file's first record, and the total
};

}  // namespace headrace
