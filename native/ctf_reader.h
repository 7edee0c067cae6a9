// Reads the sequences of a file in CNTK's text format by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "ctf_fault.h"
#include "ctf_parser.h"
#include "ctf_schema.h"
#include "file_bytes.h"

namespace headrace {

// The tables of a CtfIndex, which must outlive the reader.
struct CtfTables {
  std::span<const std::uint64_t> begins, ends, keys;
  std::uint64_t first_line = 0;
  bool ids = false;
};

// Safe to share between threads. Every call first checks that the file is unchanged (DataChangedError), and at each
// sequence that the index fits the bytes (DataError), so neither a file that is written to nor a damaged index gives
// wrong sequences.
class CtfReader {
 public:
  // Throws std::invalid_argument for tables or a schema that cannot be.
  CtfReader(std::shared_ptr<const FileBytes> file, const CtfTables& tables, CtfSchema schema);

  std::int64_t records() const { return static_cast<std::int64_t>(tables_.begins.size()) - 1; }

  const CtfSchema& schema() const { return schema_; }

  // The samples of the sequences, in the order asked for. Mistakes in the text are in the batch, not thrown. The batch
  // must be new. Throws std::out_of_range for a record that is not there.
  template <class T>
  void parse(std::span<const std::int64_t> records, CtfBatch<T>& batch) const;

  // Where a mistake is, and all about it. Finding the line may take a pass over the file before it.
  CtfPlace place(const CtfFault& fault) const;
  std::string explain(const CtfFault& fault) const;
  // The first of the things noted in a batch. Lines are told only where that costs nothing.
  std::string explain(CtfNoteKind kind, const CtfNote& note) const;

 private:
  std::uint64_t key(std::int64_t record) const;
  std::uint64_t end(std::int64_t record) const;
  void prefetch(std::span<const std::int64_t> records, std::size_t at) const;
  std::uint64_t line_at(std::int64_t record, std::uint64_t offset) const;
  [[noreturn]] void index_does_not_fit(std::int64_t record) const;

  std::shared_ptr<const FileBytes> file_;
  CtfTables tables_;
  CtfSchema schema_;

  // The last place whose line was counted, for those who go through a file from front to back.
  mutable std::mutex mutex_;
  mutable std::uint64_t counted_ = 0, line_feeds_ = 0;
};

extern template void CtfReader::parse<float>(std::span<const std::int64_t>, CtfBatch<float>&) const;
extern template void CtfReader::parse<double>(std::span<const std::int64_t>, CtfBatch<double>&) const;

}  // namespace headrace
