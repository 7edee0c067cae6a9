// Looks at parts of a file, through its mapping while memory for that is left, else through a buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "buffer.h"
#include "file_bytes.h"

namespace headrace {

// A look at some bytes of a file and, where there are more, at some of those around. Not to be shared between threads.
class FileWindow {
 public:
  explicit FileWindow(const FileBytes& file) : file_(file) {}

  // Makes [begin, end), which must be within the file, readable. Whether anything else than before is now.
  bool look(std::uint64_t begin, std::uint64_t end) {
    if (begin >= begin_ && end <= end_ && !mapped_) {
      last_begin_ = begin;
      last_end_ = end;
      return false;
    }
    const std::uint64_t behind = std::min<std::uint64_t>(end + kBehind, file_.size());
    const bool mapped = file_.may_map(begin, behind), same = mapped && mapped_;
    if (mapped) {
      data_ = file_.data();
      begin_ = 0;
      end_ = file_.size();
    } else {
      // Who goes on where he was will go on; a large read then costs less than many small ones.
      const bool goes_on = begin >= last_begin_ && begin <= last_end_;
      const std::uint64_t least = std::max(behind - begin, goes_on ? kPiece : std::uint64_t{0});
      const auto count = static_cast<std::size_t>(std::min(least, file_.size() - begin));
      begin_ = end_ = 0;  // should reading fail
      data_ = file_.read(begin, count, buffer_.room(count));
      begin_ = begin;
      end_ = begin + count;
    }
    mapped_ = mapped;
    last_begin_ = begin;
    last_end_ = end;
    return !same;
  }

  // What is readable: the bytes [begin, end) of the file, the first of which is at data.
  const std::uint8_t* data() const { return data_; }
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }

  const std::uint8_t* at(std::uint64_t offset) const { return data_ + (offset - begin_); }

 private:
  static constexpr std::uint64_t kPiece = 64 << 10;
  static constexpr std::uint64_t kBehind = 256;  // for those who read in words, or many at a time

  const FileBytes& file_;
  Buffer<std::uint8_t> buffer_;
  const std::uint8_t* data_ = nullptr;
  std::uint64_t begin_ = 0, end_ = 0;
  std::uint64_t last_begin_ = 0, last_end_ = 0;
  bool mapped_ = false;
};

}  // namespace headrace
