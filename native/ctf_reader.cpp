#include "ctf_reader.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "decimal.h"
#include "errors.h"
#include "file_window.h"
#include "line_index.h"
#include "prefetch.h"

namespace headrace {

CtfReader::CtfReader(std::shared_ptr<const FileBytes> file, const CtfTables& tables, CtfSchema schema)
    : file_(std::move(file)), tables_(tables), schema_(std::move(schema)) {
  check_schema(schema_);
  if (tables_.begins.empty()) throw std::invalid_argument("the index of a file has no entry");
  const std::size_t count = tables_.begins.size() - 1;
  if ((!tables_.ends.empty() && tables_.ends.size() != count) ||
      (!tables_.keys.empty() && tables_.keys.size() != count)) {
    throw std::invalid_argument("the tables of an index differ in length");
  }
}

std::uint64_t CtfReader::key(std::int64_t record) const {
  if (tables_.keys.empty()) return tables_.first_line + static_cast<std::uint64_t>(record);
  return tables_.keys[static_cast<std::size_t>(record)];
}

std::uint64_t CtfReader::end(std::int64_t record) const {
  const auto i = static_cast<std::size_t>(record);
  return tables_.ends.empty() ? tables_.begins[i + 1] : tables_.ends[i];
}

void CtfReader::index_does_not_fit(std::int64_t record) const {
  throw DataError("the index of " + file_->name() + " does not fit the file at sequence " +
                  std::to_string(key(record)) + ": no sequence begins or ends where it says. Open the file with " +
                  "index='rebuild', or delete its .hrindex file");
}

// Sequences come from all over the file, so each costs two waits for memory: for the index and for its bytes. Both
// are asked for some sequences ahead.
void CtfReader::prefetch(std::span<const std::int64_t> records, std::size_t at) const {
  constexpr std::size_t kIndexAhead = 16, kBytesAhead = 8;
  const auto known = [this](std::int64_t record) { return record >= 0 && record < this->records(); };
  if (at + kIndexAhead < records.size() && known(records[at + kIndexAhead])) {
    prefetch_address(&tables_.begins[static_cast<std::size_t>(records[at + kIndexAhead])]);
  }
  if (at + kBytesAhead < records.size() && known(records[at + kBytesAhead])) {
    const std::uint64_t begin = tables_.begins[static_cast<std::size_t>(records[at + kBytesAhead])];
    for (std::uint64_t ahead = 0; ahead < 256; ahead += 64) {
      if (begin + ahead < file_->size()) prefetch_address(file_->data() + begin + ahead);
    }
  }
}

template <class T>
void CtfReader::parse(std::span<const std::int64_t> records, CtfBatch<T>& batch) const {
  file_->check_unchanged();
  const std::uint64_t size = file_->size();
  FileWindow window(*file_);
  CtfParser<T> parser(schema_, batch);
  for (std::size_t i = 0; i < records.size(); ++i) {
    prefetch(records, i);
    const std::int64_t record = records[i];
    if (record < 0 || record >= this->records()) {
      throw std::out_of_range("sequence " + std::to_string(record) + " is not there: expected 0 to " +
                              std::to_string(this->records() - 1));
    }
    const std::uint64_t from = tables_.begins[static_cast<std::size_t>(record)], to = end(record);
    // In this order: each condition makes the reads of the next ones safe. Only the first sequence may begin within
    // a line, behind a byte order mark or blanks.
    if (from >= to || to > size || (record > 0 && from == 0)) index_does_not_fit(record);
    if (window.look(record > 0 ? from - 1 : from, to)) parser.look_at(window.data(), window.begin(), window.end());
    if (record > 0 && *window.at(from - 1) != '\n') index_does_not_fit(record);
    if (to < size && *window.at(to - 1) != '\n') index_does_not_fit(record);
    const std::uint64_t lines = parser.add(record, from, to);
    if (!tables_.ids && lines != 1) index_does_not_fit(record);
  }
}

// The line, from 1, of a place in a record.
std::uint64_t CtfReader::line_at(std::int64_t record, std::uint64_t offset) const {
  if (!tables_.ids) return key(record) + 1;
  const std::lock_guard lock(mutex_);
  if (offset < counted_) counted_ = line_feeds_ = 0;
  line_feeds_ += count_line_feeds(*file_, counted_, offset);
  counted_ = offset;
  return line_feeds_ + 1;
}

CtfPlace CtfReader::place(const CtfFault& fault) const {
  const std::uint64_t begin = tables_.begins[static_cast<std::size_t>(fault.record)];
  file_->check_unchanged();
  // Columns count from the beginning of the line, which for the first sequence may be before it.
  std::uint64_t line = fault.offset;
  const std::uint64_t lowest = fault.record == 0 ? 0 : begin;
  FileWindow window(*file_);
  for (constexpr std::uint64_t kStep = 4 << 10; line > lowest; --line) {
    if (line - 1 < window.begin() || line > window.end())
      window.look(std::max(lowest, line - std::min(line, kStep)), line);
    if (*window.at(line - 1) == '\n') break;
  }
  return {fault.offset, line_at(fault.record, line), fault.offset - line + 1, key(fault.record)};
}

std::string CtfReader::explain(const CtfFault& fault) const { return describe(fault, place(fault), *file_, schema_); }

std::string CtfReader::explain(CtfNoteKind kind, const CtfNote& note) const {
  const CtfPlace place{note.offset, tables_.ids ? 0 : key(note.record) + 1, 0, key(note.record)};
  return describe(kind, note, place, *file_, schema_);
}

template void CtfReader::parse<float>(std::span<const std::int64_t>, CtfBatch<float>&) const;
template void CtfReader::parse<double>(std::span<const std::int64_t>, CtfBatch<double>&) const;

}  // namespace headrace
