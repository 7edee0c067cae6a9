// Where the sequences of a file in CNTK's text format begin, and which keys they have: found in one pass at memory
// speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "buffer.h"
#include "file_bytes.h"

namespace headrace {

struct CtfIndexOptions {
  // Every line is a sequence of its own, whatever it begins with.
  bool skip_ids = false;
  // What the file calls the stream that defines the size of sequences, or nothing. Only lines with a sample of it
  // count, and sequences without one are left out.
  std::string main;
};

// Sequence i is the bytes [begins[i], ends[i]), or [begins[i], begins[i + 1]) where `ends` is empty. Line ends are
// among them. Tables that can be told from others are empty, so a file of one line a sequence costs 8 bytes a line.
struct CtfIndex {
  bool ids = false;               // lines are joined to sequences by the ids they begin with
  std::uint64_t first_line = 0;   // number of the line, counted from 0, on which the first sequence begins
  Buffer<std::uint64_t> begins;   // one more than sequences: the last is the size of the file
  Buffer<std::uint64_t> ends;     // only with a main stream, for what lies between sequences may belong to none
  Buffer<std::uint64_t> keys;     // the ids; empty: the number of each one's line, first_line + i
  Buffer<std::uint32_t> samples;  // lines that count, up to the largest number; empty: one each

  std::size_t sequences() const { return begins.size() - 1; }
};

// Indexes a whole file on `threads` threads (0: as many as are useful). Throws DataError for a file without a line, in
// UTF-16, with an id beyond 64 bits, or that begins with neither '|' nor an id.
CtfIndex build_ctf_index(const FileBytes& file, const CtfIndexOptions& options, unsigned threads);

}  // namespace headrace
