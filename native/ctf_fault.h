// Mistakes in text of CNTK's format: kept small where they are found, put into words only when someone asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ctf_schema.h"
#include "file_bytes.h"

namespace headrace {

enum class CtfFaultKind : std::uint8_t {
  kJunk,        // something other than '|' where a sample should begin
  kNoName,      // '|' without a name
  kCutName,     // the file ends directly behind a name
  kCutValues,   // the file ends before the values
  kNoNumber,    // no number where one should begin
  kNoDigit,     // a sign without a digit
  kNoExponent,  // an 'e' without a digit
  kTooMany,     // more values than the stream is wide
  kNoIndex,     // no index where one should begin
  kIndex,       // an index beyond the stream's width
  kNoColon,     // an index without ':'
  kNoValue,     // nothing behind the ':'
  kEmptyLine,   // a line without a sample
  kRows,        // not as many lines as samples
  kMissing,     // no sample of some stream, and that is not allowed
};
inline constexpr std::size_t kCtfFaultKinds = 15;

// A row may have millions of mistakes. So many of each kind and stream are kept, the others only counted.
inline constexpr std::size_t kKeptFaults = 100;

// For sorting and counting, e.g. "too many values".
std::string_view name_of(CtfFaultKind kind);

struct CtfFault {
  CtfFaultKind kind;
  std::int32_t stream;      // -1: none in particular
  std::int64_t row;         // in what was asked for
  std::int64_t record;      // in the file
  std::uint64_t offset;     // in the file
  std::uint64_t count = 0;  // kRows: the sequence's lines
  std::uint64_t most = 0;   // kRows: the samples of its longest stream
  std::int64_t times = 1;   // mistakes that it stands for: itself, and those like it in the row that are not kept
};

// Things that are legal and yet may not be meant.
enum class CtfNoteKind : std::uint8_t {
  kShort,           // a dense sample with too few values
  kNoFinalNewline,  // the file ends within a line
  kBeyondAscii,     // a byte over 127 outside names and comments
};
inline constexpr int kCtfNotes = 3;

std::string_view name_of(CtfNoteKind kind);

struct CtfNote {
  std::uint64_t count = 0;
  std::int32_t stream = -1;  // of the first of them
  std::int64_t record = -1;
  std::uint64_t offset = 0;
};

// Where something stands, for messages.
struct CtfPlace {
  std::uint64_t offset;
  std::uint64_t line;    // from 1; 0: not known
  std::uint64_t column;  // in bytes, from 1; 0: not known
  std::uint64_t key;     // of the sequence
};

// What was expected, what came, where, and what to do, in one sentence. Reads the file at the place.
std::string describe(const CtfFault& fault, const CtfPlace& place, const FileBytes& file, const CtfSchema& schema);
std::string describe(CtfNoteKind kind, const CtfNote& note, const CtfPlace& place, const FileBytes& file,
                     const CtfSchema& schema);

}  // namespace headrace
