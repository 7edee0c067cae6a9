// Counts the tokens of files, to choose a vocabulary from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "buffer.h"
#include "byte_masks.h"
#include "file_bytes.h"
#include "token_table.h"

namespace headrace {

class TokenCounter {
 public:
  // Counts all tokens of a file on `threads` threads (0: as many as are useful). Memory is that of the
  // different tokens and of one piece of the file a thread, however large the file.
  void count(const FileBytes& file, const Separators& separators, unsigned threads);

  std::size_t size() const { return table_.size(); }
  std::span<const std::uint8_t> token(std::size_t i) const { return table_.token(i); }
  std::int64_t occurrences(std::size_t i) const { return counts_[i]; }
  // The numbers of all tokens with at least `min_count` occurrences, the most frequent first, equally
  // frequent ones by their bytes: the same list whatever the order of the files.
  std::vector<std::size_t> ranked(std::int64_t min_count) const;

 private:
  void add(const TokenTable::Key& key, std::int64_t times);
  void count_range(const FileBytes& file, const Separators& separators, std::uint64_t begin, std::uint64_t end);

  TokenTable table_;
  Buffer<std::int64_t> counts_;
};

}  // namespace headrace
