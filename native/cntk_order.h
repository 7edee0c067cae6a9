// The order in which CNTK 2.7 shuffles sequences, bit for bit: chunks first, then sequences within a window of chunks.
//
// docs/specs/cntk-order.md says it in words. (Seed, sweep) is all the state; the order of a sweep is made window by
// window and never held as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "buffer.h"

namespace headrace {

// Where chunks begin: record numbers, and last the number of records. A sequence joins the chunk before it unless that
// would then reach over more than `limit` bytes of the file; so one larger than that is a chunk of its own.
Buffer<std::int64_t> form_chunks(std::span<const std::uint64_t> begins, std::span<const std::uint64_t> ends,
                                 std::uint64_t limit);

// How far a sequence may move: within so many chunks, or samples.
struct CntkWindow {
  std::uint64_t size = 0;
  bool in_samples = false;
};

// One sweep over the records, from its beginning on.
class CntkSweep {
 public:
  // `chunks` as form_chunks gives them; `samples` of each chunk. Throws std::invalid_argument where they don't fit.
  CntkSweep(std::span<const std::int64_t> chunks, std::span<const std::uint64_t> samples, CntkWindow window,
            std::uint64_t seed);

  std::uint64_t records() const { return starts_.back(); }
  // Of the next record.
  std::uint64_t position() const { return position_; }

  // The next records, as many as fit: their numbers, and the place of the chunk that each came from in the shuffled
  // order of chunks (by which CNTK shares them out among workers).
  void next(std::span<std::int64_t> records, std::span<std::int64_t> homes);

 private:
  struct Record {
    std::int64_t number;
    std::uint32_t home;
  };

  void find_windows(std::span<const std::uint64_t> samples, CntkWindow window);
  void lay_out(std::size_t chunk_end);
  void shuffle(std::size_t chunk);
  void settle(std::size_t chunk);
  Record& at(std::uint64_t position) { return open_[position - base_]; }

  std::vector<std::int64_t> first_;         // of each chunk, in shuffled order: its first record
  std::vector<std::uint64_t> starts_;       // positions where shuffled chunks start, and the end of the last
  std::vector<std::uint32_t> begin_, end_;  // the window of each
  std::mt19937_64 random_;
  std::deque<Record> open_;  // from position base_ on, as far as chunks have been laid out
  std::uint64_t base_ = 0;
  std::size_t laid_ = 0;      // chunks laid out
  std::size_t shuffled_ = 0;  // chunks whose positions have all been swapped
  std::size_t settled_ = 0;   // chunks whose records stay where they are
  std::uint64_t position_ = 0;
  std::size_t chunk_ = 0;  // of position_
};

}  // namespace headrace
