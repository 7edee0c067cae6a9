// CNTK's binary format, version 1: where the sequences of a chunk lie, and copies of some of them.
//
// A chunk holds the length of every sequence (u32), then stream after stream all sequences: of a dense stream
// u32 samples, values; of a sparse one u32 samples, i32 entries, values, i32 indices, i32 entries of each sample.
// Whatever a file claims, nothing outside its chunk is looked at and nothing larger than it is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "buffer.h"
#include "file_bytes.h"

namespace headrace {

struct CbfStream {
  std::string name;
  bool sparse;
  std::uint32_t value_bytes;  // 4 or 8
  std::uint32_t dim;
};

// What the header says of a chunk, and where it ends.
struct CbfChunk {
  std::uint64_t number;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t sequences;
  std::uint32_t samples;
};

// Appends the lengths of a chunk's sequences. Throws DataError unless they add up to the chunk's samples.
void read_cbf_lengths(const FileBytes& file, const CbfChunk& chunk, Buffer<std::uint32_t>& lengths);

// Finds every sequence of a chunk: `positions` and `samples` have an entry for each sequence of the first stream, then
// of the second, and so on. Throws DataError where the chunk contradicts itself.
void locate_cbf(const FileBytes& file, const CbfChunk& chunk, std::span<const CbfStream> streams,
                Buffer<std::uint64_t>& positions, Buffer<std::uint32_t>& samples);

// Sequences of one stream, put one after another.
struct CbfRows {
  Buffer<std::uint8_t> values;
  Buffer<std::int64_t> offsets;  // in samples; one more than sequences
  // Of sparse streams:
  Buffer<std::int32_t> indices;
  Buffer<std::int64_t> entries;    // where each sample begins in values and indices; one more than samples
  Buffer<std::int64_t> bad_rows;   // rows that have an index outside [0, dim), ascending,
  Buffer<std::int64_t> bad_bytes;  // and where the first such index of each stands in the file
};

// Copies the sequences that stand at `positions`, as locate_cbf gives them; 0 stands for a sequence without samples.
void gather_cbf(const FileBytes& file, const CbfStream& stream, std::span<const std::uint64_t> positions,
                CbfRows& rows);

}  // namespace headrace
