// TFRecord files: records end to end, each with its length and two checksums.
//
//   8 bytes length, little-endian | 4 bytes checksum of those 8 | data | 4 bytes checksum of the data
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "buffer.h"
#include "file_bytes.h"

namespace headrace {

inline constexpr std::size_t kRecordHeader = 12;
inline constexpr std::size_t kRecordFrame = 16;  // header and footer

enum class RecordFaultKind { kNone, kLength, kData, kCutData, kCutHeader, kTooLarge };

// What is wrong with a record.
struct RecordFault {
  RecordFaultKind kind = RecordFaultKind::kNone;
  std::uint64_t offset = 0;  // of the record
  std::uint64_t length = 0;  // that its header says
  std::uint64_t there = 0;   // bytes of header or data that are there
  std::uint32_t stored = 0, computed = 0;

  explicit operator bool() const { return kind != RecordFaultKind::kNone; }
  // Where readers say that it is: the start of the record, or of its data if only the data is wrong.
  std::uint64_t place() const { return kind == RecordFaultKind::kData ? offset + kRecordHeader : offset; }
  // "corrupted record at 31: ..."
  std::string text() const;
};

// Looks at the record at the start of `data`, of which no byte beyond `size` is looked at. `offset` is its place in
// the file. A record that goes beyond `size` is a fault of the kinds kCut.
RecordFault check_record(const std::uint8_t* data, std::uint64_t size, std::uint64_t offset, bool verify_data);

// Whether these bytes (kRecordHeader of them) are a length and its checksum.
bool is_record_header(const std::uint8_t* data);
std::uint64_t record_length(const std::uint8_t* header);

// A range of bytes that was passed over, and what was wrong with it.
struct LostBytes {
  std::uint64_t begin = 0, end = 0;
  RecordFault fault;
};

struct RecordIndex {
  Buffer<std::uint64_t> offsets;  // of the records
  Buffer<std::uint64_t> lengths;  // of their data
  RecordFault fault;              // what ended the index before the end of the file
  std::vector<LostBytes> lost;    // with recovery only
};

// Finds the records of a file by their headers, without looking at data; ends at the first fault.
RecordIndex index_records(const FileBytes& file);

// Where to go on after a damaged record.
struct Recovery {
  bool found = false;        // `at` is where; else more bytes are needed, and none before `at`
  std::uint64_t at = 0;      // in the piece
  std::uint64_t wanted = 0;  // bytes of the piece that are needed
};

// Looks for the next record in a piece of a file, from `start` on: what has a length with the right checksum, and
// either leads to another such or to the end, or has the right data. `end`, if not 0, is where the damaged record would
// end if its data alone is damaged. `last` says that nothing comes after the piece; if it does, records of up to
// `longest` bytes are waited for. Someone may make a file in which every byte seems to begin a long record: checksums
// of data are computed in vain for `vain` bytes and no more, which is counted down.
Recovery recover_after(std::span<const std::uint8_t> piece, std::uint64_t start, std::uint64_t end, bool last,
                       std::uint64_t longest, std::uint64_t& vain);

// Finds all whole records of a file whose checksums are right, and says what lies between them.
RecordIndex recover_records(const FileBytes& file);

// Finds the whole records in a piece of a file.
struct RecordScan {
  Buffer<std::int64_t> offsets;  // of the data of records in the piece, then where the first not whole record begins
  Buffer<std::int64_t> lengths;
  RecordFault fault;
  std::uint64_t wanted = 0;  // bytes that the first record that is not whole needs in all
};

// `base` is the offset of the piece in the file; `last` says that nothing comes after it. A record of more than
// `longest` bytes is a fault.
RecordScan scan_records(std::span<const std::uint8_t> piece, std::uint64_t base, bool last, bool verify,
                        std::uint64_t longest);

// Appends a record as files hold it.
void frame_record(std::span<const std::uint8_t> data, Buffer<std::uint8_t>& out);

// A file with its index. The tables may lie in a sidecar, which then must not change either.
struct RecordFile {
  std::shared_ptr<FileBytes> bytes;
  std::span<const std::uint64_t> offsets, lengths;
  std::shared_ptr<FileBytes> sidecar;
};

// The records of several files as one list, read in any order. Immutable.
class RecordReader {
 public:
  // Of all files together the first `mapped` bytes are read through their mappings, which then count as memory of this
  // process; fewer if FileBytes::may_map says so.
  explicit RecordReader(std::vector<RecordFile> files, std::uint64_t mapped = 80 << 20);

  std::int64_t records() const { return first_.back(); }
  // The file and the number of the record in it.
  std::pair<std::size_t, std::int64_t> locate(std::int64_t record) const;
  // The data of records, one after another. Throws DataError where the file is not what the index says, and with
  // `verify` where a checksum of data is wrong.
  void read(std::span<const std::int64_t> records, bool verify, Buffer<std::uint8_t>& data,
            Buffer<std::int64_t>& offsets) const;

 private:
  [[noreturn]] void throw_fault(const RecordFault& fault, std::int64_t record) const;

  std::vector<RecordFile> files_;
  std::vector<std::int64_t> first_;    // number of each file's first record
  std::vector<std::uint64_t> mapped_;  // bytes at the beginning of each file that may be mapped
};

}  // namespace headrace
