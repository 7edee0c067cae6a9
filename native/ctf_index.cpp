#include "ctf_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "byte_masks.h"
#include "decimal.h"
#include "errors.h"
#include "excerpt.h"
#include "hash.h"
#include "line_index.h"
#include "parallel.h"
#include "utf8.h"

namespace headrace {
namespace {

constexpr std::size_t kPiece = 128 * 1024;  // fits a second-level cache, with what is made of it
constexpr std::size_t kMaskBlocks = 64;
constexpr std::size_t kHead = 16;  // bytes of a line looked at for its id; longer ids are read one byte after the other

std::uint32_t clip(std::uint64_t count) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, std::numeric_limits<std::uint32_t>::max()));
}

bool is_space(std::uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }
bool ends_a_name(std::uint8_t byte) { return byte <= ' ' || byte == '|'; }

// The number that the first `count` of eight bytes write.
std::uint64_t digits_to_number(std::uint64_t bytes, unsigned count) {
  return count == 0 ? 0 : swar::eight_digits(swar::last_bytes(bytes, count));
}

// One byte of a file after the other, for the rare cases.
class ByteWalk {
 public:
  ByteWalk(const FileBytes& file, std::uint64_t offset) : file_(file), next_(offset) {}
  ByteWalk(const ByteWalk&) = delete;
  ByteWalk& operator=(const ByteWalk&) = delete;

  std::uint64_t offset() const { return next_ - (count_ - at_); }
  bool ended() { return at_ == count_ && !fill(); }
  std::uint8_t peek() const { return bytes_[at_]; }
  void skip() { ++at_; }

 private:
  bool fill() {
    at_ = 0;
    count_ = static_cast<std::size_t>(std::min<std::uint64_t>(sizeof scratch_, file_.size() - next_));
    if (count_ == 0) return false;
    bytes_ = file_.read(next_, count_, scratch_);
    next_ += count_;
    return true;
  }

  const FileBytes& file_;
  std::uint64_t next_;
  std::uint8_t scratch_[4096];
  const std::uint8_t* bytes_ = scratch_;
  std::size_t at_ = 0, count_ = 0;
};

// "train.ctf, line 3, column 1 (byte 57)" of a place that is the beginning of a line.
std::string place(const FileBytes& file, std::uint64_t offset, std::uint64_t column) {
  return file.name() + ", line " + std::to_string(count_line_feeds(file, 0, offset) + 1) + ", column " +
         std::to_string(column + 1) + " (byte " + std::to_string(offset) + ")";
}

struct Start {
  std::uint64_t offset = 0;
  std::uint64_t line_feeds = 0;  // before it
  std::uint64_t column = 0;
};

// The first byte that is neither of a byte order mark nor white space.
Start find_start(const FileBytes& file) {
  constexpr char kHint[] = "expected lines such as '|name 1 2 3' or '7 |name 1 2 3'; check how it was written";
  if (file.size() == 0) throw DataError(file.name() + " is empty, " + kHint);
  if (file.size() >= 2) {
    std::uint8_t scratch[2];
    if (begins_as_utf16(file.read(0, 2, scratch), 2)) {
      throw DataError(file.name() + " is UTF-16 text by its byte order mark, expected UTF-8; convert it " +
                      "(`iconv -f utf-16 -t utf-8`)");
    }
  }
  ByteWalk walk(file, 0);
  for (const int mark : {0xef, 0xbb, 0xbf}) {  // a mark that is cut short is passed over too, as by CNTK
    if (walk.ended() || walk.peek() != mark) break;
    walk.skip();
  }
  Start start;
  std::uint64_t line = 0;  // where the current line begins
  for (; !walk.ended() && is_space(walk.peek()); walk.skip()) {
    if (walk.peek() != '\n') continue;
    ++start.line_feeds;
    line = walk.offset() + 1;
  }
  if (walk.ended()) throw DataError(file.name() + " holds nothing but white space, " + kHint);
  start.offset = walk.offset();
  start.column = start.offset - line;
  return start;
}

// Finds the sequences that begin in one range of a file.
class Scanner {
 public:
  Scanner(const FileBytes& file, const CtfIndexOptions& options, bool ids, std::uint64_t begin, std::uint64_t end)
      : file_(file), main_(options.main), ids_(ids), begin_(begin), end_(end) {}

  void scan() {
    if (ids_) {
      main_.empty() ? scan_pieces<true, false>() : scan_pieces<true, true>();
    } else {
      main_.empty() ? scan_pieces<false, false>() : scan_pieces<false, true>();
    }
  }

  // By id: a run of lines each, also those of which none counts. By line: lines that count.
  Buffer<std::uint64_t> begins, ends,
      keys;                       // `ends` by line with a main stream only; keys then count from begin's line
  Buffer<std::uint32_t> samples;  // by id only
  bool continues = false;         // the first run began in an earlier range: it has no key
  std::uint64_t lines = 0;        // by line with a main stream only
  std::size_t joined = 0;         // runs at the beginning that belong to an earlier range's last one

 private:
  template <bool kIds, bool kMain>
  void scan_pieces();
  template <bool kIds, bool kMain>
  void open_line(std::size_t at);
  template <bool kIds, bool kMain>
  void close_line(std::size_t end);
  bool same_id(const std::uint8_t* head) const;
  void take_id(const std::uint8_t* head, std::size_t at);
  void open_run(std::size_t at, std::uint64_t key);
  std::uint64_t long_id(std::uint64_t offset, bool& found) const;
  bool is_main(std::size_t pipe) const;
  const std::uint8_t* head_of(std::size_t at, std::uint8_t* padded) const;

  const FileBytes& file_;
  const std::string& main_;
  const bool ids_;
  const std::uint64_t begin_, end_;

  const std::uint8_t* piece_ = nullptr;
  std::uint64_t position_ = 0;  // of the piece
  std::size_t readable_ = 0;    // bytes from the piece's beginning on
  std::uint64_t line_begin_ = 0;
  bool line_counts_ = false;  // has a sample of the main stream
  std::uint64_t run_samples_ = 0;
  std::uint64_t key_ = 0;
  bool known_ = false;  // the digits of the current id, for a quick look at whether the next line has the same
  unsigned digits_ = 0;
  std::uint64_t id_[2] = {}, id_mask_[2] = {};
};

// The first bytes of a line in the piece; zeros follow at the end of the file.
const std::uint8_t* Scanner::head_of(std::size_t at, std::uint8_t* padded) const {
  if (at + kHead <= readable_) return piece_ + at;
  std::memset(padded, 0, kHead);
  std::memcpy(padded, piece_ + at, readable_ - at);
  return padded;
}

bool Scanner::same_id(const std::uint8_t* head) const {
  return known_ && (((load64(head) ^ id_[0]) & id_mask_[0]) | ((load64(head + 8) ^ id_[1]) & id_mask_[1])) == 0 &&
         !is_digit(head[digits_]);
}

// A line that may begin with another id than the current one.
void Scanner::take_id(const std::uint8_t* head, std::size_t at) {
  const std::uint64_t low = load64(head), high = load64(head + 8);
  const unsigned first = swar::bytes_before(swar::non_digits(low));
  if (first == 0) return;
  const unsigned second = first == 8 ? swar::bytes_before(swar::non_digits(high)) : 0;
  const unsigned digits = first + second;
  std::uint64_t key;
  if (digits < kHead) {
    if (position_ + at + digits == file_.size()) return;  // digits that end with the file are no id
    key = digits_to_number(low, first) * swar::kTens[second] + digits_to_number(high, second);
  } else {
    bool found = false;
    key = long_id(position_ + at, found);
    if (!found) return;
  }
  const bool has_key = begins.size() > (continues ? 1 : 0);
  if (!has_key || key != key_) open_run(at, key);
  known_ = digits < kHead;
  digits_ = digits;
  const auto mask = [](unsigned count) {
    return count == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * count)) - 1;
  };
  id_mask_[0] = mask(first);
  id_mask_[1] = mask(second);
  id_[0] = low;
  id_[1] = high;
}

void Scanner::open_run(std::size_t at, std::uint64_t key) {
  if (begins.size() > 0) samples.push(clip(run_samples_));
  begins.push(position_ + at);
  keys.push(key);
  key_ = key;
  run_samples_ = 0;
}

std::uint64_t Scanner::long_id(std::uint64_t offset, bool& found) const {
  ByteWalk walk(file_, offset);
  std::uint64_t key = 0;
  for (; !walk.ended() && is_digit(walk.peek()); walk.skip()) {
    const auto digit = static_cast<std::uint64_t>(walk.peek() - '0');
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    if (key > (kMost - digit) / 10) {
      throw DataError(place(file_, offset, 0) + ": expected a sequence id of at most " + std::to_string(kMost) +
                      " (64 bits), got " + excerpt(file_, offset) +
                      "; number the sequences anew, or pass skip_ids=True (of CTFDeserializer: skip_sequence_ids) "
                      "where each line is one");
    }
    key = key * 10 + digit;
  }
  found = !walk.ended();
  return key;
}

// Whether a '|' begins a sample of the main stream.
bool Scanner::is_main(std::size_t pipe) const {
  const std::size_t after = pipe + 1 + main_.size();
  if (after > readable_ || std::memcmp(piece_ + pipe + 1, main_.data(), main_.size()) != 0) return false;
  return after == readable_ || ends_a_name(piece_[after]);  // the bytes read end early at the end of the file only
}

template <bool kIds, bool kMain>
void Scanner::open_line(std::size_t at) {
  if constexpr (kIds) {
    std::uint8_t padded[kHead];
    const std::uint8_t* head = head_of(at, padded);
    if (!same_id(head)) take_id(head, at);
    if (begins.size() == 0) {  // a line without id at the beginning of a range
      continues = true;
      open_run(at, 0);
    }
    if constexpr (!kMain) ++run_samples_;
  } else if constexpr (!kMain) {
    begins.push(position_ + at);
  }
  if constexpr (kMain) {
    line_begin_ = position_ + at;
    line_counts_ = false;
  }
}

// `end` is the place behind the line feed, or the end of the file.
template <bool kIds, bool kMain>
void Scanner::close_line(std::size_t end) {
  if constexpr (!kMain) return;
  if constexpr (kIds) {
    run_samples_ += line_counts_ ? 1 : 0;
  } else {
    if (line_counts_) {
      begins.push(line_begin_);
      ends.push(position_ + end);
      keys.push(lines);
    }
    ++lines;
  }
}

template <bool kIds, bool kMain>
void Scanner::scan_pieces() {
  const std::size_t ahead = std::max(kHead, main_.size() + 2);  // a line that begins in this piece may go on behind it
  const auto scratch = std::make_unique_for_overwrite<std::uint8_t[]>(kPiece + ahead);
  std::uint64_t newline[kMaskBlocks], pipe[kMaskBlocks];
  for (std::uint64_t at = begin_; at < end_;) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, end_ - at));
    readable_ = static_cast<std::size_t>(std::min<std::uint64_t>(size + ahead, file_.size() - at));
    piece_ = file_.read(at, readable_, scratch.get());
    position_ = at;
    if (at == begin_) open_line<kIds, kMain>(0);
    for (std::size_t done = 0; done < size; done += kMaskBlocks * kBlock) {
      const std::size_t here = std::min(size - done, kMaskBlocks * kBlock);
      in_blocks(piece_ + done, here, [&](const std::uint8_t* data, std::size_t blocks, std::size_t first) {
        equal_masks(data, blocks, '\n', newline + first);
        if constexpr (kMain) equal_masks(data, blocks, '|', pipe + first);
      });
      for (std::size_t b = 0; b * kBlock < here; ++b) {
        std::uint64_t marks = newline[b];
        if constexpr (kMain) marks |= pipe[b];
        for (; marks != 0; marks &= marks - 1) {
          const int bit = std::countr_zero(marks);
          const std::size_t mark = done + b * kBlock + static_cast<std::size_t>(bit);
          if constexpr (kMain) {
            if (((pipe[b] >> bit) & 1) != 0) {
              line_counts_ = line_counts_ || is_main(mark);
              continue;
            }
          }
          close_line<kIds, kMain>(mark + 1);
          if (at + mark + 1 < end_) open_line<kIds, kMain>(mark + 1);
        }
      }
    }
    if (at + size == end_ && piece_[size - 1] != '\n') close_line<kIds, kMain>(size);  // the file's last line
    at += size;
  }
  if constexpr (kIds) samples.push(clip(run_samples_));
}

// One range's table after the other, less what each range begins with of the one before.
template <class T>
Buffer<T> together(std::vector<Scanner>& parts, Buffer<T> Scanner::* table) {
  std::size_t total = 0;
  for (Scanner& part : parts) total += (part.*table).size();
  Buffer<T> all = std::move(parts[0].*table);
  all.reserve(total + 1);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Buffer<T> more = std::move(parts[i].*table);
    if (more.size() <= parts[i].joined) continue;
    const std::size_t count = more.size() - parts[i].joined;
    std::memcpy(all.room(count), more.data() + parts[i].joined, count * sizeof(T));
    all.advance(count);
  }
  return all;
}

// A run that goes on over the cut between two ranges is one sequence: the first runs of a range may belong to the last
// one before, which gets their samples.
void join_runs(std::vector<Scanner>& parts) {
  Scanner* last = &parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) {
    Scanner& part = parts[i];
    std::size_t& n = part.joined;
    std::uint32_t& count = last->samples[last->samples.size() - 1];
    const std::uint64_t key = last->keys[last->keys.size() - 1];
    while (n < part.begins.size() && ((n == 0 && part.continues) || part.keys[n] == key)) {
      count = clip(std::uint64_t{count} + part.samples[n++]);
    }
    if (n < part.begins.size()) last = &part;
  }
}

// Turns line numbers within each range into those within the file.
void count_lines_on(std::vector<Scanner>& parts, std::uint64_t first) {
  for (Scanner& part : parts) {
    for (std::size_t i = 0; i < part.keys.size(); ++i) part.keys[i] += first;
    first += part.lines;
  }
}

// Leaves out the sequences in which no line counts.
void keep_counted(CtfIndex& index) {
  const std::size_t all = index.sequences();
  index.ends.reserve(all);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all; ++i) {
    if (index.samples[i] == 0) continue;
    index.ends.push(index.begins[i + 1]);
    index.begins[kept] = index.begins[i];
    index.keys[kept] = index.keys[i];
    index.samples[kept] = index.samples[i];
    ++kept;
  }
  index.begins[kept] = index.begins[all];
  index.begins.resize(kept + 1);
  index.keys.resize(kept);
  index.samples.resize(kept);
}

// Cuts [begin, size) at line starts.
std::vector<std::uint64_t> ranges(const FileBytes& file, std::uint64_t begin, unsigned threads) {
  std::vector<std::uint64_t> cuts{begin};
  for (const std::uint64_t cut : split_at_lines(file, useful_parts(file, threads))) {
    if (cut > begin) cuts.push_back(cut);
  }
  return cuts;
}

}  // namespace

CtfIndex build_ctf_index(const FileBytes& file, const CtfIndexOptions& options, unsigned threads) {
  file.check_unchanged();
  const Start start = find_start(file);
  CtfIndex index;
  index.first_line = start.line_feeds;
  ByteWalk first(file, start.offset);
  index.ids = !options.skip_ids && !first.ended() && first.peek() != '|';
  if (index.ids) {
    while (!first.ended() && is_digit(first.peek())) first.skip();
    if (first.ended() || first.offset() == start.offset) {
      throw DataError(place(file, start.offset, start.column) +
                      ": expected '|' or a sequence id (digits, and more behind them), got " +
                      excerpt(file, start.offset) +
                      "; lines are '|name values…', all with or all without an id before");
    }
  }

  const auto cuts = ranges(file, start.offset, threads);
  std::vector<Scanner> parts;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) parts.emplace_back(file, options, index.ids, cuts[i], cuts[i + 1]);
  run_parts(parts.size(), [&](std::size_t i) { parts[i].scan(); });
  file.check_unchanged();

  if (index.ids) {
    join_runs(parts);
  } else {
    count_lines_on(parts, start.line_feeds);
  }
  index.begins = together(parts, &Scanner::begins);
  index.ends = together(parts, &Scanner::ends);
  index.keys = together(parts, &Scanner::keys);
  index.samples = together(parts, &Scanner::samples);
  index.begins.push(file.size());
  if (index.ids && !options.main.empty()) keep_counted(index);
  return index;
}

}  // namespace headrace
