// Text in CNTK's format to columns of numbers: one sequence after the other is added to a batch.
//
//   line   := [digits] (sample | comment)* "\n"
//   sample := "|" name (blanks value)*      value := number, or index ":" number where the stream is sparse
//   comment:= "|#" text up to the next "|" or the end of the line
//
// Between samples any control character counts as a blank, and ends the values before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.h"
#include "ctf_fault.h"
#include "ctf_schema.h"
#include "number_run.h"

namespace headrace {

// The samples of one stream, row after row. T is float or double.
template <class T>
struct CtfColumn {
  Buffer<T> values;                    // dense: dim each; sparse: one of each entry
  Buffer<std::int32_t> indices;        // of sparse entries
  Buffer<std::int64_t> entry_offsets;  // where the entries of each sparse sample begin; one more than samples
  Buffer<std::int64_t> offsets;        // where the samples of each row begin; one more than rows
  std::int64_t samples = 0;
};

template <class T>
struct CtfBatch {
  std::vector<CtfColumn<T>> columns;  // one a stream
  Buffer<std::uint8_t> dropped;       // one a row: 1 where it lost too much to errors to be used
  bool any_dropped = false;
  std::vector<CtfFault> faults;  // in the order of rows; not more than kKeptFaults of each kind and stream in a row
  CtfNote notes[kCtfNotes];
};

template <class T>
class CtfParser {
 public:
  // Everything must outlive the parser; the batch must be new. `read_run`: nullptr reads each number by itself.
  CtfParser(const CtfSchema& schema, CtfBatch<T>& batch, ReadNumberRun<T> read_run = number_run_reader<T>());

  // From now on the bytes [begin, end) of the file are those at `data`, and no others can be looked at.
  void look_at(const std::uint8_t* data, std::uint64_t begin, std::uint64_t end);

  // Adds the sequence of lines in bytes [begin, end) of the file as the next row. Bytes up to `end` are looked at one
  // by one, others that can be perhaps. Returns how many lines there were.
  std::uint64_t add(std::int64_t record, std::uint64_t begin, std::uint64_t end);

 private:
  // What a sequence has of a stream so far.
  struct Tally {
    std::int64_t samples_before;  // of the rows before it
    std::size_t values_before;
    std::uint64_t lost;  // malformed ones
  };

  // The mistakes of one kind and stream in the last row that had any.
  struct Alike {
    std::int64_t row = -1;
    std::size_t kept = 0;
    std::size_t last = 0;  // which of all faults was the last kept
  };

  // The first bytes of a stream's name, for a quick look whether a sample is of it.
  struct Name {
    std::uint64_t word, mask;
    std::size_t length;
  };

  void line();
  void sample();
  bool known_sample();
  int stream_of(const std::uint8_t* name, std::size_t length) const;
  void dense(int stream);
  void sparse(int stream);
  bool short_entry(std::uint64_t dim, std::int32_t& index, T& value);
  bool number(const std::uint8_t* start, T& value, int stream, bool behind_colon);
  void finish(std::uint64_t begin);
  void drop();

  void fault(CtfFaultKind kind, const std::uint8_t* at, int stream);
  void lose(CtfFaultKind kind, const std::uint8_t* at, int stream);
  void note(CtfNoteKind kind, const std::uint8_t* at, int stream);
  void skip_blanks();
  void skip_to_next();
  std::uint64_t offset_of(const std::uint8_t* at) const { return offset_ + static_cast<std::uint64_t>(at - data_); }

  const CtfSchema& schema_;
  const std::uint8_t* data_ = nullptr;
  std::uint64_t offset_ = 0;                // of the first byte of the data
  const std::uint8_t* fast_end_ = nullptr;  // before it, numbers may be read in words
  const std::uint8_t* run_end_ = nullptr;   // and many at a time
  const ReadNumberRun<T> read_run_;
  CtfBatch<T>& batch_;
  std::size_t longest_name_ = 0;
  std::vector<Name> names_;   // those of up to eight bytes
  std::vector<int> named_;    // whose they are
  std::size_t expected_ = 0;  // which of them may come next, for samples mostly come in the same order
  std::vector<Tally> tallies_;
  std::vector<Alike> alike_;  // of each stream, and first of none in particular, one a kind; empty without a mistake

  const std::uint8_t* p_ = nullptr;  // the next byte
  const std::uint8_t* end_ = nullptr;
  std::int64_t row_ = -1, record_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t excused_ = 0;  // lines with an error that may have hidden a sample of any stream, or that have none
  bool hidden_ = false;        // there was such an error
  bool line_sampled_ = false, line_excused_ = false, line_faulty_ = false;
};

extern template class CtfParser<float>;
extern template class CtfParser<double>;

}  // namespace headrace
