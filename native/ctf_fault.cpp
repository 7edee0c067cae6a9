#include "ctf_fault.h"

#include "excerpt.h"

namespace headrace {
namespace {

// "train.ctf, line 3, column 5 (byte 57), sequence 7: "
std::string where(const FileBytes& file, const CtfPlace& place) {
  std::string text = file.name();
  if (place.line != 0) text += ", line " + std::to_string(place.line);
  if (place.column != 0) text += ", column " + std::to_string(place.column);
  return text + " (byte " + std::to_string(place.offset) + "), sequence " + std::to_string(place.key) + ": ";
}

std::string number_of(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

constexpr char kCutHint[] = "; the file seems to have been cut short, write it anew";

}  // namespace

std::string_view name_of(CtfFaultKind kind) {
  switch (kind) {
    case CtfFaultKind::kJunk:
      return "text outside samples";
    case CtfFaultKind::kNoName:
      return "sample without name";
    case CtfFaultKind::kCutName:
    case CtfFaultKind::kCutValues:
      return "cut short";
    case CtfFaultKind::kNoNumber:
    case CtfFaultKind::kNoDigit:
    case CtfFaultKind::kNoExponent:
      return "not a number";
    case CtfFaultKind::kTooMany:
      return "too many values";
    case CtfFaultKind::kNoIndex:
      return "not an index";
    case CtfFaultKind::kIndex:
      return "index out of range";
    case CtfFaultKind::kNoColon:
      return "index without colon";
    case CtfFaultKind::kNoValue:
      return "index without value";
    case CtfFaultKind::kEmptyLine:
      return "line without sample";
    case CtfFaultKind::kRows:
      return "lines and samples differ";
    case CtfFaultKind::kMissing:
      return "missing stream";
  }
  return "";
}

std::string_view name_of(CtfNoteKind kind) {
  switch (kind) {
    case CtfNoteKind::kShort:
      return "short dense sample";
    case CtfNoteKind::kNoFinalNewline:
      return "no final newline";
    case CtfNoteKind::kBeyondAscii:
      return "byte beyond ASCII";
  }
  return "";
}

namespace {

std::string describe_one(const CtfFault& fault, const CtfPlace& place, const FileBytes& file, const CtfSchema& schema) {
  const CtfStream none;
  const CtfStream& stream = fault.stream < 0 ? none : schema.streams[static_cast<std::size_t>(fault.stream)];
  const std::string of = " of stream '" + stream.alias + "'";
  const std::string came = ", got " + excerpt(file, place.offset);
  const std::string at = where(file, place);
  switch (fault.kind) {
    case CtfFaultKind::kJunk:
      return at + "expected '|' and the name of a stream" + came +
             "; samples are written '|name values', and nothing but an id may stand before the first one";
    case CtfFaultKind::kNoName:
      return at + "expected the name of a stream directly behind '|'" + came +
             "; write '|name values', or '|#' before a comment";
    case CtfFaultKind::kCutName:
      return at + "expected a name and values" + came + " inside or directly behind the name" + kCutHint;
    case CtfFaultKind::kCutValues:
      return at + "expected the values of a sample" + of + came + kCutHint;
    case CtfFaultKind::kNoNumber:
      return at + "expected a number" + of + came + "; numbers begin with a digit, as in 0.5 or -2e3, and stand " +
             "between blanks";
    case CtfFaultKind::kNoDigit:
      return at + "expected a digit behind the sign of a number" + of + came +
             "; numbers begin with a digit, as in -0.5";
    case CtfFaultKind::kNoExponent:
      return at + "expected a digit of the exponent of a number" + of + came + "; write it like 1e5 or 1e-5";
    case CtfFaultKind::kTooMany:
      return at + "expected at most " + number_of(stream.dim, "value") + " in a sample" + of + came +
             " behind them; give the stream a larger dim, or shorten the sample";
    case CtfFaultKind::kNoIndex:
      return at + "expected an index (digits, then ':' and a number) in a sample of sparse stream '" + stream.alias +
             "'" + came + "; write 'index:value' without a sign or blanks in it";
    case CtfFaultKind::kIndex:
      return at +
             (stream.dim == 0 ? "expected no value" : "expected an index from 0 to " + std::to_string(stream.dim - 1)) +
             " in a sample" + of + came + "; give the stream a larger dim, or correct the index";
    case CtfFaultKind::kNoColon:
      return at + "expected ':' directly behind an index of sparse stream '" + stream.alias + "'" + came +
             "; write 'index:value' without blanks in it, or declare the stream dense";
    case CtfFaultKind::kNoValue:
      return at + "expected a number directly behind ':' in a sample" + of + came +
             "; write 'index:value' without blanks in it";
    case CtfFaultKind::kEmptyLine:
      return at + "expected at least one sample of a declared stream on the line" + came +
             "; remove the line, or declare its streams, by alias where names differ";
    case CtfFaultKind::kRows:
      return at + "expected as many lines as its longest stream ('" + stream.alias + "') has samples, got " +
             number_of(fault.count, "line") + " and " + number_of(fault.most, "sample") +
             "; give each line at most one sample of each stream and none of them too few, or let one stream define "
             "the size";
    case CtfFaultKind::kMissing:
      return at + "expected a sample" + of + " somewhere in the sequence, got none; add one, or leave out the demand " +
             "that all streams have samples";
  }
  return at;
}

}  // namespace

std::string describe(const CtfFault& fault, const CtfPlace& place, const FileBytes& file, const CtfSchema& schema) {
  const std::string one = describe_one(fault, place, file, schema);
  if (fault.times == 1) return one;
  return one + " (and " + std::to_string(fault.times - 1) + " more like it further on in the sequence)";
}

std::string describe(CtfNoteKind kind, const CtfNote& note, const CtfPlace& place, const FileBytes& file,
                     const CtfSchema& schema) {
  const std::string at = where(file, place);
  switch (kind) {
    case CtfNoteKind::kShort: {
      const CtfStream& stream = schema.streams[static_cast<std::size_t>(note.stream)];
      return at + "a sample of stream '" + stream.alias + "' has fewer than " + number_of(stream.dim, "value") +
             "; the rest is taken as zero";
    }
    case CtfNoteKind::kNoFinalNewline:
      return at + "the file ends without a line feed; was it cut short?";
    case CtfNoteKind::kBeyondAscii:
      return at + "a byte outside ASCII separates values or samples (" + excerpt(file, place.offset) +
             "); write blanks instead";
  }
  return at;
}

}  // namespace headrace
