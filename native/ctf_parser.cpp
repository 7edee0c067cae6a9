#include "ctf_parser.h"

#include <algorithm>
#include <cstring>

#include "decimal.h"

namespace headrace {
namespace {

constexpr std::ptrdiff_t kAhead = 48;    // bytes that reading a number in words may look at
constexpr std::size_t kShortestRun = 4;  // numbers that are worth reading together
constexpr std::size_t kEntries = 16;     // sparse entries to make room for at once
constexpr std::size_t kRunPause = 16;    // numbers until the next try, after one in vain

bool is_blank(std::uint8_t byte) { return byte == ' ' || byte == '\t'; }
bool ends_a_name(std::uint8_t byte) { return byte <= ' ' || byte == '|'; }
// Whether a byte that is no tab ends a list of values. CNTK takes bytes over 127 for control characters, and so do we
// outside of names.
bool ends_values(std::uint8_t byte) { return byte < ' ' || byte == '|' || byte >= 128; }

}  // namespace

template <class T>
CtfParser<T>::CtfParser(const CtfSchema& schema, CtfBatch<T>& batch, ReadNumberRun<T> read_run)
    : schema_(schema), read_run_(read_run), batch_(batch), tallies_(schema.streams.size()) {
  batch_.columns.resize(schema.streams.size());
  for (std::size_t i = 0; i < schema.streams.size(); ++i) {
    const std::string& alias = schema.streams[i].alias;
    longest_name_ = std::max(longest_name_, alias.size());
    if (alias.size() <= 8) {
      Name name{0, ~std::uint64_t{0} >> (64 - 8 * alias.size()), alias.size()};
      std::uint8_t bytes[8] = {};
      std::memcpy(bytes, alias.data(), alias.size());
      name.word = load64(bytes);
      names_.push_back(name);
      named_.push_back(static_cast<int>(i));
    }
    batch_.columns[i].offsets.push(0);
    if (schema.streams[i].sparse) batch_.columns[i].entry_offsets.push(0);
  }
}

template <class T>
void CtfParser<T>::look_at(const std::uint8_t* data, std::uint64_t begin, std::uint64_t end) {
  const auto size = static_cast<std::ptrdiff_t>(end - begin);
  data_ = data;
  offset_ = begin;
  fast_end_ = data + std::max<std::ptrdiff_t>(size - kAhead, 0);
  run_end_ = data + std::max<std::ptrdiff_t>(size - kNumberRunAhead, 0);
}

template <class T>
std::uint64_t CtfParser<T>::add(std::int64_t record, std::uint64_t begin, std::uint64_t end) {
  p_ = data_ + (begin - offset_);
  end_ = data_ + (end - offset_);
  record_ = record;
  ++row_;
  lines_ = excused_ = 0;
  hidden_ = false;
  for (std::size_t i = 0; i < tallies_.size(); ++i) {
    const CtfColumn<T>& column = batch_.columns[i];
    tallies_[i] = {column.samples, column.values.size(), 0};
  }
  batch_.dropped.push(0);
  while (p_ < end_) line();
  finish(begin);
  for (CtfColumn<T>& column : batch_.columns) column.offsets.push(column.samples);
  return lines_;
}

template <class T>
void CtfParser<T>::line() {
  const std::uint8_t* const begin = p_;
  line_sampled_ = line_excused_ = line_faulty_ = false;
  ++lines_;
  while (p_ < end_ && is_digit(*p_)) ++p_;
  while (p_ < end_ && *p_ != '\n') {
    if (*p_ == '|') {
      sample();
    } else if (is_blank(*p_) || ends_values(*p_)) {
      if (*p_ >= 128) note(CtfNoteKind::kBeyondAscii, p_, -1);
      ++p_;
    } else {
      fault(CtfFaultKind::kJunk, p_, -1);
      line_excused_ = hidden_ = true;
      skip_to_next();
    }
  }
  if (!line_sampled_ && !line_faulty_) {
    fault(CtfFaultKind::kEmptyLine, begin, -1);
    line_excused_ = true;
  }
  excused_ += line_excused_ ? 1 : 0;
  if (p_ == end_) {
    note(CtfNoteKind::kNoFinalNewline, p_, -1);
  } else {
    ++p_;
  }
}

// Reads the values of a sample of a stream with a short name; false where it is something else.
template <class T>
inline bool CtfParser<T>::known_sample() {
  if (p_ >= fast_end_) return false;
  const std::uint64_t text = load64(p_);
  std::size_t at = expected_;
  for (std::size_t left = names_.size(); left > 0; --left) {
    const Name& name = names_[at];
    const int stream = named_[at];
    if (++at == names_.size()) at = 0;
    if (((text ^ name.word) & name.mask) != 0 || !ends_a_name(p_[name.length])) continue;
    expected_ = at;
    p_ += name.length;
    schema_.streams[static_cast<std::size_t>(stream)].sparse ? sparse(stream) : dense(stream);
    return true;
  }
  return false;
}

template <class T>
void CtfParser<T>::sample() {
  const std::uint8_t* const name = ++p_;
  if (known_sample()) return;
  if (p_ == end_ || ends_a_name(*p_)) {
    fault(CtfFaultKind::kNoName, p_, -1);
    line_excused_ = hidden_ = true;
    skip_to_next();
    return;
  }
  if (*p_ == '#') return skip_to_next();
  while (p_ < end_ && !ends_a_name(*p_)) ++p_;
  const auto length = static_cast<std::size_t>(p_ - name);
  const int stream = stream_of(name, length);
  if (p_ == end_) {
    if (stream >= 0) {
      lose(CtfFaultKind::kCutName, p_, stream);
    } else if (length <= longest_name_) {  // it may be the beginning of a name that is known
      fault(CtfFaultKind::kCutName, p_, -1);
      line_excused_ = hidden_ = true;
    }
  } else if (stream < 0) {
    skip_to_next();
  } else if (schema_.streams[static_cast<std::size_t>(stream)].sparse) {
    sparse(stream);
  } else {
    dense(stream);
  }
}

template <class T>
int CtfParser<T>::stream_of(const std::uint8_t* name, std::size_t length) const {
  for (std::size_t i = 0; i < schema_.streams.size(); ++i) {
    const std::string& alias = schema_.streams[i].alias;
    if (alias.size() == length && std::memcmp(alias.data(), name, length) == 0) return static_cast<int>(i);
  }
  return -1;
}

template <class T>
void CtfParser<T>::dense(int stream) {
  CtfColumn<T>& column = batch_.columns[static_cast<std::size_t>(stream)];
  const auto dim = static_cast<std::size_t>(schema_.streams[static_cast<std::size_t>(stream)].dim);
  T* const values = column.values.room(dim);
  std::size_t count = 0, next_run = 0;
  for (;;) {
    if (count >= next_run && dim - count >= kShortestRun && p_ < run_end_ && read_run_ != nullptr) {
      const NumberRun run = read_run_(p_, run_end_, values + count, dim - count);
      p_ = run.end;
      count += run.count;
      next_run = count + (run.count == 0 ? kRunPause : 0);
    }
    skip_blanks();
    if (p_ == end_ || ends_values(*p_)) break;
    if (count == dim) return lose(CtfFaultKind::kTooMany, p_, stream);
    if (!number(p_, values[count], stream, false)) return;
    ++count;
  }
  if (count < dim) {
    if (count == 0 && p_ == end_) return lose(CtfFaultKind::kCutValues, p_, stream);
    std::fill(values + count, values + dim, T(0));
    note(CtfNoteKind::kShort, p_, stream);
  }
  column.values.advance(dim);
  ++column.samples;
  line_sampled_ = true;
}

template <class T>
void CtfParser<T>::sparse(int stream) {
  CtfColumn<T>& column = batch_.columns[static_cast<std::size_t>(stream)];
  const std::uint64_t dim = schema_.streams[static_cast<std::size_t>(stream)].dim;
  const std::size_t before = column.values.size();
  std::size_t count = 0;  // of entries, which are counted in only when all are read
  for (;;) {
    T* const values = column.values.room(count + kEntries) + count;
    std::int32_t* const indices = column.indices.room(count + kEntries) + count;
    std::size_t read = 0;
    while (read < kEntries && short_entry(dim, indices[read], values[read])) ++read;
    count += read;
    if (read == kEntries) continue;
    skip_blanks();
    if (p_ == end_ || ends_values(*p_)) break;
    const std::uint8_t* const start = p_;
    std::uint64_t index = 0;
    for (; p_ < end_ && is_digit(*p_); ++p_) {
      if (index < dim) index = index * 10 + static_cast<std::uint64_t>(*p_ - '0');
    }
    if (p_ == start) return lose(CtfFaultKind::kNoIndex, p_, stream);
    if (index >= dim) return lose(CtfFaultKind::kIndex, start, stream);
    if (p_ == end_ || *p_ != ':') return lose(CtfFaultKind::kNoColon, p_, stream);
    ++p_;
    if (!number(p_, values[read], stream, true)) return;
    indices[read] = static_cast<std::int32_t>(index);
    ++count;
  }
  // An empty list is a sample; but at the end of a file it may be all that is left of one, unless the stream has
  // values in this sequence already. (CNTK's rule, which files in the wild have passed.)
  if (p_ == end_ && before + count == tallies_[static_cast<std::size_t>(stream)].values_before) {
    return lose(CtfFaultKind::kCutValues, p_, stream);
  }
  column.values.advance(count);
  column.indices.advance(count);
  column.entry_offsets.push(static_cast<std::int64_t>(column.values.size()));
  ++column.samples;
  line_sampled_ = true;
}

// Reads a blank and an entry like "123:4" or "1234567:0.25" that something else than a digit follows. False, having
// read nothing, where there is none, or none so simple.
template <class T>
inline bool CtfParser<T>::short_entry(std::uint64_t dim, std::int32_t& index, T& value) {
  if (p_ >= fast_end_ || !is_blank(*p_)) return false;
  const std::uint8_t* p = p_ + 1;
  const std::uint64_t text = load64(p);
  const unsigned digits = swar::bytes_before(swar::non_digits(text));
  if (digits == 0 || digits == 8 || p[digits] != ':') return false;
  const std::uint32_t number = swar::eight_digits(swar::last_bytes(text, digits));
  if (number >= dim) return false;
  p += digits + 1;
  if (is_digit(p[0]) && (is_blank(p[1]) || p[1] == '\n')) {
    value = static_cast<T>(p[0] - '0');
    ++p;
  } else {
    p = parse_short_decimal(p, value);
  }
  if (p == nullptr || p > end_) return false;
  index = static_cast<std::int32_t>(number);
  p_ = p;
  return true;
}

// Reads the number at `start`; where there is none, the sample is lost.
template <class T>
bool CtfParser<T>::number(const std::uint8_t* start, T& value, int stream, bool behind_colon) {
  if (start < fast_end_) {
    const std::uint8_t* behind = parse_short_decimal(start, value);
    if (behind != nullptr && behind <= end_) {
      p_ = behind;
      return true;
    }
  }
  const DecimalEnd read = parse_decimal(start, end_, value);
  p_ = read.end;
  if (read.state == DecimalState::kGood) return true;
  CtfFaultKind kind = CtfFaultKind::kNoExponent;
  if (read.state == DecimalState::kNoDigits) {
    kind = behind_colon ? CtfFaultKind::kNoValue : CtfFaultKind::kNoNumber;
    if (read.end != start) kind = CtfFaultKind::kNoDigit;
  }
  lose(kind, read.end, stream);
  return false;
}

// Checks the sequence as a whole, and takes it back if it cannot be used.
template <class T>
void CtfParser<T>::finish(std::uint64_t begin) {
  std::uint64_t most = 0, most_written = 0;  // samples of the longest stream, without and with those lost
  int longest = 0, missing = -1;
  bool lost = false;
  for (std::size_t i = 0; i < tallies_.size(); ++i) {
    const auto samples = static_cast<std::uint64_t>(batch_.columns[i].samples - tallies_[i].samples_before);
    if (samples > most) longest = static_cast<int>(i);
    most = std::max(most, samples);
    most_written = std::max(most_written, samples + tallies_[i].lost);
    if (samples > 0) continue;
    if (missing < 0) missing = static_cast<int>(i);
    lost = lost || hidden_ || tallies_[i].lost > 0;  // what was hidden may have been its only sample
  }
  if (most == 0 || lost) return drop();  // its errors have been reported
  if (missing >= 0 && schema_.require_all) {
    fault(CtfFaultKind::kMissing, data_ + (begin - offset_), missing);
    return drop();
  }
  // Lines that had an error already do not count again.
  if (schema_.main < 0 && (most > lines_ || most_written + excused_ < lines_)) {
    fault(CtfFaultKind::kRows, data_ + (begin - offset_), longest);
    batch_.faults.back().count = lines_;
    batch_.faults.back().most = most;
  }
}

template <class T>
void CtfParser<T>::drop() {
  for (std::size_t i = 0; i < tallies_.size(); ++i) {
    CtfColumn<T>& column = batch_.columns[i];
    column.values.resize(tallies_[i].values_before);
    column.samples = tallies_[i].samples_before;
    if (!schema_.streams[i].sparse) continue;
    column.indices.resize(tallies_[i].values_before);
    column.entry_offsets.resize(static_cast<std::size_t>(column.samples) + 1);
  }
  batch_.dropped[static_cast<std::size_t>(row_)] = 1;
  batch_.any_dropped = true;
}

template <class T>
void CtfParser<T>::fault(CtfFaultKind kind, const std::uint8_t* at, int stream) {
  line_faulty_ = true;
  if (alike_.empty()) alike_.resize((schema_.streams.size() + 1) * kCtfFaultKinds);
  Alike& alike = alike_[static_cast<std::size_t>(stream + 1) * kCtfFaultKinds + static_cast<std::size_t>(kind)];
  if (alike.row != row_) alike = {row_, 0, 0};
  if (alike.kept == kKeptFaults) {
    ++batch_.faults[alike.last].times;
    return;
  }
  ++alike.kept;
  alike.last = batch_.faults.size();
  batch_.faults.push_back({kind, stream, row_, record_, offset_of(at)});
}

// A malformed sample of a known stream.
template <class T>
void CtfParser<T>::lose(CtfFaultKind kind, const std::uint8_t* at, int stream) {
  fault(kind, at, stream);
  ++tallies_[static_cast<std::size_t>(stream)].lost;
  skip_to_next();
}

template <class T>
void CtfParser<T>::note(CtfNoteKind kind, const std::uint8_t* at, int stream) {
  CtfNote& note = batch_.notes[static_cast<int>(kind)];
  if (note.count++ == 0) {
    note.stream = stream;
    note.record = record_;
    note.offset = offset_of(at);
  }
}

template <class T>
void CtfParser<T>::skip_blanks() {
  while (p_ < end_ && is_blank(*p_)) ++p_;
}

// To the next '|' or the end of the line.
template <class T>
void CtfParser<T>::skip_to_next() {
  while (p_ < end_ && *p_ != '|' && *p_ != '\n') ++p_;
}

template class CtfParser<float>;
template class CtfParser<double>;

}  // namespace headrace
