// What sequences of CNTK's text format hold, written as plainly as possible, for the tests to compare with: each line
// is cut at its pipes, and each piece looked at by itself.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ctf_parser.h"

namespace headrace::test {

template <class T>
struct ModelSamples {
  using Sample = std::vector<std::pair<std::int64_t, T>>;  // index (of dense ones, the position) and value
  std::vector<std::vector<Sample>> streams;
  bool dropped = false;
  std::vector<std::pair<CtfFaultKind, std::uint64_t>> faults;  // with the byte's offset
  std::uint64_t notes[kCtfNotes] = {};
};

template <class T>
class CtfModel {
 public:
  // The text of one sequence, which begins at `offset` in its file; `ends_file`: nothing follows it there.
  CtfModel(std::string_view text, std::uint64_t offset, bool ends_file, const CtfSchema& schema)
      : text_(text), offset_(offset), cut_(ends_file && !text.ends_with('\n')), schema_(schema) {
    result_.streams.resize(schema.streams.size());
    lost_.resize(schema.streams.size());
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = text.find('\n', at);
      if (end == text.npos) end = text.size();
      line(at, end);
      at = end + 1;
    }
    if (cut_) ++result_.notes[static_cast<int>(CtfNoteKind::kNoFinalNewline)];
    judge();
  }

  ModelSamples<T> take() { return std::move(result_); }

 private:
  using Sample = typename ModelSamples<T>::Sample;

  static bool digit(char c) { return c >= '0' && c <= '9'; }
  static bool blank(char c) { return c == ' ' || c == '\t'; }
  // Bytes over 127 too.
  static bool control(char c) { return (static_cast<unsigned char>(c) < 32 && c != '\t') || (c & 0x80) != 0; }
  static bool below_blank(char c) { return static_cast<unsigned char>(c) <= 32; }

  void fault(CtfFaultKind kind, std::size_t at) { result_.faults.emplace_back(kind, offset_ + at); }

  void line(std::size_t at, std::size_t end) {
    ++lines_;
    const std::size_t begin = at;
    const std::size_t faults = result_.faults.size();
    hidden_here_ = sampled_here_ = false;
    while (at < end && digit(text_[at])) ++at;
    std::size_t pipe = std::min(text_.find('|', at), end);
    between(at, pipe);
    while (pipe < end) {
      const std::size_t next = std::min(text_.find('|', pipe + 1), end);
      piece(pipe + 1, next);
      pipe = next;
    }
    const bool empty = !sampled_here_ && result_.faults.size() == faults;
    if (empty) fault(CtfFaultKind::kEmptyLine, begin);
    if (empty || hidden_here_) ++excused_;
    hidden_ = hidden_ || hidden_here_;
  }

  // What stands between samples: blanks, control characters and bytes over 127.
  void between(std::size_t at, std::size_t end) {
    for (; at < end; ++at) {
      if (!blank(text_[at]) && !control(text_[at])) {
        fault(CtfFaultKind::kJunk, at);
        hidden_here_ = true;
        return;
      }
      if ((text_[at] & 0x80) != 0) ++result_.notes[static_cast<int>(CtfNoteKind::kBeyondAscii)];
    }
  }

  // What stands between a '|' and the next, or the end of the line.
  void piece(std::size_t at, std::size_t end) {
    const bool last = cut_ && end == text_.size();
    if (at == end || below_blank(text_[at])) {
      fault(CtfFaultKind::kNoName, at);
      hidden_here_ = true;
      return;
    }
    if (text_[at] == '#') return;
    std::size_t name_end = at;
    while (name_end < end && !below_blank(text_[name_end])) ++name_end;
    const std::string_view name = text_.substr(at, name_end - at);
    std::size_t longest = 0, stream = schema_.streams.size();
    for (std::size_t i = 0; i < schema_.streams.size(); ++i) {
      longest = std::max(longest, schema_.streams[i].alias.size());
      if (schema_.streams[i].alias == name) stream = i;
    }
    const bool known = stream < schema_.streams.size();
    if (last && name_end == end) {
      if (known || name.size() <= longest) fault(CtfFaultKind::kCutName, end);
      if (known) ++lost_[stream];
      if (!known && name.size() <= longest) hidden_here_ = true;
      return;
    }
    if (!known) return;
    std::size_t values_end = name_end;
    while (values_end < end && !control(text_[values_end])) ++values_end;
    Sample sample;
    const bool good = schema_.streams[stream].sparse ? sparse(stream, name_end, values_end, last, sample)
                                                     : dense(stream, name_end, values_end, last, sample);
    if (!good) {
      ++lost_[stream];
      return;
    }
    result_.streams[stream].push_back(sample);
    sampled_here_ = true;
    between(values_end, end);
  }

  bool dense(std::size_t stream, std::size_t at, std::size_t end, bool last, Sample& sample) {
    const auto dim = static_cast<std::int64_t>(schema_.streams[stream].dim);
    for (;;) {
      while (at < end && blank(text_[at])) ++at;
      if (at == end) break;
      const auto count = static_cast<std::int64_t>(sample.size());
      if (count == dim) {
        fault(CtfFaultKind::kTooMany, at);
        return false;
      }
      T value;
      if (!number(at, end, CtfFaultKind::kNoNumber, value)) return false;
      sample.emplace_back(count, value);
    }
    if (last && end == text_.size() && sample.empty()) {
      fault(CtfFaultKind::kCutValues, end);
      return false;
    }
    const auto count = static_cast<std::int64_t>(sample.size());
    if (count < dim) ++result_.notes[static_cast<int>(CtfNoteKind::kShort)];
    for (std::int64_t i = count; i < dim; ++i) sample.emplace_back(i, T(0));
    return true;
  }

  bool sparse(std::size_t stream, std::size_t at, std::size_t end, bool last, Sample& sample) {
    const auto dim = static_cast<std::int64_t>(schema_.streams[stream].dim);
    for (;;) {
      while (at < end && blank(text_[at])) ++at;
      if (at == end) break;
      const std::size_t start = at;
      std::string digits;
      for (; at < end && digit(text_[at]); ++at) digits += text_[at];
      if (digits.empty()) {
        fault(CtfFaultKind::kNoIndex, at);
        return false;
      }
      while (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
      if (digits.size() > 10 || std::strtoll(digits.c_str(), nullptr, 10) >= dim) {
        fault(CtfFaultKind::kIndex, start);
        return false;
      }
      if (at == end || text_[at] != ':') {
        fault(CtfFaultKind::kNoColon, at);
        return false;
      }
      ++at;
      T value;
      if (!number(at, end, CtfFaultKind::kNoValue, value)) return false;
      sample.emplace_back(std::strtoll(digits.c_str(), nullptr, 10), value);
    }
    bool any = !sample.empty();
    for (const Sample& before : result_.streams[stream]) any = any || !before.empty();
    if (last && end == text_.size() && !any) {
      fault(CtfFaultKind::kCutValues, end);
      return false;
    }
    return true;
  }

  bool number(std::size_t& at, std::size_t end, CtfFaultKind absent, T& value) {
    const std::size_t start = at;
    const auto take_digits = [&] {
      const std::size_t from = at;
      while (at < end && digit(text_[at])) ++at;
      return at - from;
    };
    const auto take_sign = [&] { at += at < end && (text_[at] == '+' || text_[at] == '-') ? 1 : 0; };
    take_sign();
    if (take_digits() == 0) {
      fault(at == start ? absent : CtfFaultKind::kNoDigit, at);
      return false;
    }
    bool exponent = true;
    if (at < end && text_[at] == '.') {
      ++at;
      exponent = take_digits() > 0;
    }
    if (exponent && at < end && (text_[at] == 'e' || text_[at] == 'E')) {
      ++at;
      take_sign();
      if (take_digits() == 0) {
        fault(CtfFaultKind::kNoExponent, at);
        return false;
      }
    }
    const std::string written(text_.substr(start, at - start));
    if constexpr (sizeof(T) == 4) {
      value = std::strtof(written.c_str(), nullptr);
    } else {
      value = std::strtod(written.c_str(), nullptr);
    }
    return true;
  }

  void judge() {
    std::size_t most = 0, written = 0;
    bool some_absent = false, one_lost = false;
    for (std::size_t i = 0; i < lost_.size(); ++i) {
      const std::size_t count = result_.streams[i].size();
      most = std::max(most, count);
      written = std::max(written, count + lost_[i]);
      some_absent = some_absent || count == 0;
      one_lost = one_lost || (count == 0 && lost_[i] > 0);
    }
    if (most == 0 || one_lost || (some_absent && hidden_)) {
      result_.dropped = true;
    } else if (some_absent && schema_.require_all) {
      fault(CtfFaultKind::kMissing, 0);
      result_.dropped = true;
    } else if (schema_.main == -1 && (most > lines_ || written + excused_ < lines_)) {
      fault(CtfFaultKind::kRows, 0);
    }
    if (result_.dropped) {
      for (auto& stream : result_.streams) stream.clear();
    }
  }

  const std::string_view text_;
  const std::uint64_t offset_;
  const bool cut_;
  const CtfSchema& schema_;
  ModelSamples<T> result_;
  std::vector<std::size_t> lost_;
  std::size_t lines_ = 0, excused_ = 0;
  bool hidden_ = false, hidden_here_ = false, sampled_here_ = false;
};

template <class T>
bool same_bits(T a, T b) {
  return a == b && std::signbit(a) == std::signbit(b);
}

// Whether row `row` of a batch is what the model says.
template <class T>
bool agrees(const CtfBatch<T>& batch, std::size_t row, const ModelSamples<T>& model, const CtfSchema& schema) {
  if ((batch.dropped[row] != 0) != model.dropped) return false;
  for (std::size_t s = 0; s < schema.streams.size(); ++s) {
    const CtfColumn<T>& column = batch.columns[s];
    const auto first = static_cast<std::size_t>(column.offsets[row]);
    const auto count = static_cast<std::size_t>(column.offsets[row + 1]) - first;
    if (count != model.streams[s].size()) return false;
    const auto dim = static_cast<std::size_t>(schema.streams[s].dim);
    for (std::size_t i = 0; i < count; ++i) {
      const auto& sample = model.streams[s][i];
      const bool sparse = schema.streams[s].sparse;
      const std::size_t begin = sparse ? static_cast<std::size_t>(column.entry_offsets[first + i]) : (first + i) * dim;
      const std::size_t end = sparse ? static_cast<std::size_t>(column.entry_offsets[first + i + 1]) : begin + dim;
      if (end - begin != sample.size()) return false;
      for (std::size_t k = begin; k < end; ++k) {
        if (!same_bits(column.values[k], sample[k - begin].second)) return false;
        if (sparse && column.indices[k] != sample[k - begin].first) return false;
      }
    }
  }
  return true;
}

}  // namespace headrace::test
