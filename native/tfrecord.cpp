#include "tfrecord.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "crc32c.h"
#include "errors.h"
#include "hash.h"
#include "prefetch.h"

namespace headrace {
namespace {

std::uint32_t load32_le(const std::uint8_t* p) {
  return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8 |
         static_cast<std::uint32_t>(p[2]) << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}

void store32_le(std::uint32_t value, std::uint8_t* p) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

std::string hex(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

// Looks at headers through a window, so that a file that shrinks meanwhile is an error and not a signal.
class Window {
 public:
  explicit Window(const FileBytes& file) : file_(file), buffer_(kFar) {}

  // `count` bytes (at most kNear) from `offset`, which must be in the file.
  const std::uint8_t* at(std::uint64_t offset, std::size_t count) {
    if (offset < begin_ || offset + count > end_) {
      // Where records are long, what is near their headers is not needed.
      const std::size_t size = offset - begin_ > 4 * kFar && begin_ != end_ ? kNear : kFar;
      const std::uint64_t rest = file_.size() - offset;
      const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(size, rest));
      bytes_ = file_.read(offset, take, buffer_.data());
      begin_ = offset;
      end_ = offset + take;
    }
    return bytes_ + (offset - begin_);
  }

 private:
  static constexpr std::size_t kNear = 4096, kFar = 1 << 16;
  const FileBytes& file_;
  Buffer<std::uint8_t> buffer_;
  const std::uint8_t* bytes_ = nullptr;
  std::uint64_t begin_ = 0, end_ = 0;
};

// A record by its header alone; `rest` bytes are left in the file from it on.
RecordFault check_header(const std::uint8_t* header, std::uint64_t rest, std::uint64_t offset) {
  RecordFault fault{.offset = offset};
  if (rest < kRecordHeader) {
    fault.kind = RecordFaultKind::kCutHeader;
    fault.there = rest;
    return fault;
  }
  fault.length = record_length(header);
  fault.stored = load32_le(header + 8);
  fault.computed = masked_crc32c(header, 8);
  if (fault.stored != fault.computed) {
    fault.kind = RecordFaultKind::kLength;
  } else if (rest < kRecordFrame || fault.length > rest - kRecordFrame) {
    fault.kind = RecordFaultKind::kCutData;
    fault.there = rest - kRecordHeader;
  }
  return fault;
}

void check_data(const std::uint8_t* record, RecordFault& fault) {
  const std::uint8_t* data = record + kRecordHeader;
  fault.stored = load32_le(data + fault.length);
  fault.computed = masked_crc32c(data, static_cast<std::size_t>(fault.length));
  if (fault.stored != fault.computed) fault.kind = RecordFaultKind::kData;
}

}  // namespace

std::string RecordFault::text() const {
  const auto at = [this](const char* what) {
    return std::string(what) + " record at " + std::to_string(place()) +
           (place() == 0 && kind == RecordFaultKind::kLength ? " (Is this even a TFRecord file?)" : "");
  };
  const std::string checksum = " is wrong: stored " + hex(stored) + ", computed " + hex(computed);
  switch (kind) {
    case RecordFaultKind::kNone:
      return "";
    case RecordFaultKind::kLength:
      return at("corrupted") + ": the checksum of its length" + checksum;
    case RecordFaultKind::kData:
      return at("corrupted") + ": the checksum of its " + std::to_string(length) + " bytes of data" + checksum;
    case RecordFaultKind::kCutData:
      return at("truncated") + ": its header says " + std::to_string(length) +
             " bytes of data and 4 of checksum, the file ends after " + std::to_string(there);
    case RecordFaultKind::kCutHeader:
      return at("truncated") + ": the file ends after " + std::to_string(there) + " of the 12 bytes of its header";
    case RecordFaultKind::kTooLarge:
      return at("corrupted") + ": record size too large, its header says " + std::to_string(length) + " bytes";
  }
  return "";
}

std::uint64_t record_length(const std::uint8_t* header) { return load64(header); }

bool is_record_header(const std::uint8_t* data) { return load32_le(data + 8) == masked_crc32c(data, 8); }

RecordFault check_record(const std::uint8_t* data, std::uint64_t size, std::uint64_t offset, bool verify_data) {
  RecordFault fault = check_header(data, size, offset);
  if (!fault && verify_data) check_data(data, fault);
  return fault;
}

RecordIndex index_records(const FileBytes& file) {
  file.check_unchanged();
  RecordIndex index;
  Window window(file);
  for (std::uint64_t offset = 0; offset < file.size();) {
    const std::uint64_t rest = file.size() - offset;
    const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(rest, kRecordHeader));
    index.fault = check_header(window.at(offset, take), rest, offset);
    if (index.fault) return index;
    index.offsets.push(offset);
    index.lengths.push(index.fault.length);
    offset += index.fault.length + kRecordFrame;
  }
  index.fault = {};
  return index;
}

Recovery recover_after(std::span<const std::uint8_t> piece, std::uint64_t start, std::uint64_t end, bool last,
                       std::uint64_t longest, std::uint64_t& vain) {
  const std::uint8_t* data = piece.data();
  const std::uint64_t size = piece.size();
  enum class Leads { kNo, kYes, kUnknown };
  const auto leads_on = [&](std::uint64_t place) {
    if (place == size) return last ? Leads::kYes : Leads::kUnknown;
    if (size - place < kRecordHeader) return last ? Leads::kNo : Leads::kUnknown;
    return is_record_header(data + place) ? Leads::kYes : Leads::kNo;
  };
  if (end > 0) {
    const Leads leads = leads_on(end);
    if (leads == Leads::kYes) return {true, end, 0};
    if (leads == Leads::kUnknown) return {false, start, end + kRecordHeader};
  }
  // Every later byte may begin a record: a length with the right checksum, and data with the right one.
  for (std::uint64_t at = start; at < size; ++at) {
    if (size - at < kRecordFrame) return last ? Recovery{true, size, 0} : Recovery{false, at, at + kRecordFrame};
    if (!is_record_header(data + at)) continue;
    RecordFault next = check_header(data + at, size - at, at);
    if (next) {
      if (last || next.length > longest) continue;
      return {false, at, at + next.length + kRecordFrame + kRecordHeader};
    }
    const std::uint64_t after = at + next.length + kRecordFrame;
    const Leads leads = leads_on(after);
    if (leads == Leads::kYes) return {true, at, 0};
    if (leads == Leads::kUnknown) return {false, at, after + kRecordHeader};
    if (next.length > vain) continue;
    vain -= next.length;
    check_data(data + at, next);
    if (!next) return {true, at, 0};
  }
  return {last, size, size + kRecordFrame};
}

RecordIndex recover_records(const FileBytes& file) {
  file.check_unchanged();
  RecordIndex index;
  const std::uint8_t* data = file.data();
  const std::uint64_t size = file.size();
  constexpr std::uint64_t kStride = 16 << 20;
  std::uint64_t offset = 0, passed = 0, vain = 16 * size;
  while (offset < size) {
    if (offset - passed >= kStride) {
      file.forget(passed, static_cast<std::size_t>(offset - passed));
      passed = offset;
    }
    const RecordFault fault = check_record(data + offset, size - offset, offset, true);
    if (!fault) {
      index.offsets.push(offset);
      index.lengths.push(fault.length);
      offset += fault.length + kRecordFrame;
      continue;
    }
    const std::uint64_t end = fault.kind == RecordFaultKind::kData ? offset + fault.length + kRecordFrame : 0;
    const Recovery next = recover_after({data, file.size()}, offset + 1, end, true, 0, vain);
    if (!index.lost.empty() && index.lost.back().end == offset) {
      index.lost.back().end = next.at;
    } else {
      index.lost.push_back({offset, next.at, fault});
    }
    offset = next.at;
  }
  return index;
}

RecordScan scan_records(std::span<const std::uint8_t> piece, std::uint64_t base, bool last, bool verify,
                        std::uint64_t longest) {
  RecordScan scan;
  std::uint64_t at = 0;
  while (at < piece.size()) {
    const RecordFault fault = check_record(piece.data() + at, piece.size() - at, base + at, verify);
    if (fault) {
      const bool cut = fault.kind == RecordFaultKind::kCutData || fault.kind == RecordFaultKind::kCutHeader;
      if (cut && !last) {
        scan.wanted = kRecordHeader;
        if (fault.kind == RecordFaultKind::kCutData) {
          if (fault.length > longest) {
            scan.fault = fault;
            scan.fault.kind = RecordFaultKind::kTooLarge;
          } else {
            scan.wanted = fault.length + kRecordFrame;
          }
        }
      } else {
        scan.fault = fault;
      }
      break;
    }
    scan.offsets.push(static_cast<std::int64_t>(at + kRecordHeader));
    scan.lengths.push(static_cast<std::int64_t>(fault.length));
    at += fault.length + kRecordFrame;
  }
  scan.offsets.push(static_cast<std::int64_t>(at));
  return scan;
}

void frame_record(std::span<const std::uint8_t> data, Buffer<std::uint8_t>& out) {
  std::uint8_t* to = out.room(data.size() + kRecordFrame);
  for (std::size_t i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>(std::uint64_t{data.size()} >> (8 * i));
  store32_le(masked_crc32c(to, 8), to + 8);
  if (!data.empty()) std::memcpy(to + kRecordHeader, data.data(), data.size());
  store32_le(masked_crc32c(data.data(), data.size()), to + kRecordHeader + data.size());
  out.advance(data.size() + kRecordFrame);
}

RecordReader::RecordReader(std::vector<RecordFile> files, std::uint64_t mapped) : files_(std::move(files)) {
  std::uint64_t bytes = 0;
  first_.push_back(0);
  for (const auto& file : files_) {
    if (file.offsets.size() != file.lengths.size()) throw std::invalid_argument("offsets and lengths differ in number");
    first_.push_back(first_.back() + static_cast<std::int64_t>(file.offsets.size()));
    mapped_.push_back(mapped - std::min(mapped, bytes));
    bytes += file.bytes->size();
  }
}

std::pair<std::size_t, std::int64_t> RecordReader::locate(std::int64_t record) const {
  if (record < 0 || record >= records()) {
    throw std::out_of_range("record " + std::to_string(record) + " is not there: expected 0 to " +
                            std::to_string(records() - 1) + " (" + std::to_string(records()) + " records)");
  }
  if (files_.size() == 1) return {0, record};
  const auto after = std::upper_bound(first_.begin(), first_.end(), record);
  const auto file = static_cast<std::size_t>(after - first_.begin()) - 1;
  return {file, record - first_[file]};
}

void RecordReader::read(std::span<const std::int64_t> records, bool verify, Buffer<std::uint8_t>& data,
                        Buffer<std::int64_t>& offsets) const {
  struct Found {
    std::size_t file;
    std::uint64_t offset, length;
    std::uint64_t end() const { return offset + length + kRecordFrame; }
  };
  std::vector<Found> found;
  found.reserve(records.size());
  std::vector<bool> seen(files_.size());
  std::uint64_t total = 0;
  for (const std::int64_t record : records) {
    const auto [number, row] = locate(record);
    const RecordFile& file = files_[number];
    if (!seen[number]) {
      seen[number] = true;
      file.bytes->check_unchanged();
      if (file.sidecar) file.sidecar->check_unchanged();
    }
    const Found one{number, file.offsets[static_cast<std::size_t>(row)], file.lengths[static_cast<std::size_t>(row)]};
    const std::uint64_t size = file.bytes->size();
    if (size < kRecordFrame || one.length > size - kRecordFrame || one.offset > size - kRecordFrame - one.length) {
      throw DataError("the index of " + file.bytes->name() + " does not fit the file at record " + std::to_string(row) +
                      ": it says " + std::to_string(one.length) + " bytes at " + std::to_string(one.offset) + " of " +
                      std::to_string(size) + ". Open the file with index='rebuild', or delete its .hrindex file");
    }
    found.push_back(one);
    total += one.length;
  }
  data.reserve(static_cast<std::size_t>(total));
  offsets.reserve(records.size() + 1);
  offsets.push(0);
  // What is read through a mapping counts as this process's memory. So only the first bytes of all files are read that
  // way for good, if no more is mapped already than may be; long runs are, and given back; the rest is read by system
  // calls.
  constexpr std::uint64_t kLongestRun = 1 << 20, kWorthMapping = 1 << 15, kLine = 64, kFetched = 2048;
  constexpr std::size_t kAhead = 1;
  Buffer<std::uint8_t> scratch;
  for (std::size_t i = 0, next = 0; i < found.size(); i = next) {
    for (next = i + 1; next < found.size(); ++next) {
      const bool joins = found[next].file == found[i].file && found[next].offset == found[next - 1].end();
      if (!joins || found[next].end() - found[i].offset > kLongestRun) break;
    }
    if (next + kAhead < found.size()) {
      // What will be read soon is brought near meanwhile, if it is mapped. The processor goes on with long ones itself.
      // (This isn't a function: some compilers leave out calls of those that only prefetch.)
      const Found& soon = found[next + kAhead];
      const std::uint64_t last = std::min({soon.end(), soon.offset + kFetched, mapped_[soon.file]});
      const std::uint8_t* there = files_[soon.file].bytes->data();
      for (std::uint64_t at = soon.offset; at < last; at += kLine) prefetch_address(there + at);
    }
    const FileBytes& bytes = *files_[found[i].file].bytes;
    const std::uint64_t begin = found[i].offset, end = found[next - 1].end();
    const auto size = static_cast<std::size_t>(end - begin);
    const bool stays = end <= mapped_[found[i].file] && bytes.may_map(begin, end);
    const bool passing = !stays && size >= kWorthMapping && FileBytes::maps();
    const std::uint8_t* run = bytes.data() + begin;
    if (!stays && !passing) {
      scratch.reserve(size);
      run = bytes.read(begin, size, scratch.data());
    }
    for (std::size_t k = i; k < next; ++k) {
      const std::uint8_t* record = run + (found[k].offset - found[i].offset);
      const auto count = static_cast<std::size_t>(found[k].length);
      RecordFault fault = check_record(record, count + kRecordFrame, found[k].offset, verify);
      if (!fault && fault.length != count) fault.kind = RecordFaultKind::kLength;
      if (fault) throw_fault(fault, records[k]);
      if (count > 0) std::memcpy(data.room(count), record + kRecordHeader, count);
      data.advance(count);
      offsets.push(static_cast<std::int64_t>(data.size()));
    }
    if (passing) bytes.forget(begin, size);
  }
}

void RecordReader::throw_fault(const RecordFault& fault, std::int64_t record) const {
  const auto [number, row] = locate(record);
  const char* remedy = fault.kind == RecordFaultKind::kData
                           ? "; copy the file again, or read it with recover='skip' to leave out what is damaged"
                           : "; open the file with index='rebuild'";
  throw DataError(files_[number].bytes->name() + ": " + fault.text() + " (record " + std::to_string(row) + ")" +
                  remedy);
}

}  // namespace headrace
