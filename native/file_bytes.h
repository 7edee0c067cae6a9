// The bytes of a file, mapped read-only or held in memory, and the promise that they are still the same.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace headrace {

// What tells one state of a file from another.
struct FileIdentity {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;

  bool operator==(const FileIdentity&) const = default;
};

// Immutable and safe to share between threads. Everything that reads through the mapping calls
// check_unchanged() first: reading a mapping beyond the end of a file that shrank ends the process.
class FileBytes {
 public:
  // Maps a file. Throws std::system_error when it cannot be opened, read or mapped.
  static std::shared_ptr<FileBytes> open(const std::string& path);
  // Maps an open file, of which it keeps a duplicate descriptor; `name` is for messages.
  static std::shared_ptr<FileBytes> from_descriptor(int descriptor, std::string name);
  // Takes bytes in memory. `owner` keeps them alive.
  static std::shared_ptr<FileBytes> from_memory(const std::uint8_t* data, std::size_t size, std::shared_ptr<void> owner,
                                                std::string name);

  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes();

  const std::string& name() const { return name_; }
  const FileIdentity& identity() const { return identity_; }
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Throws DataChangedError when the file's size, time or inode is another than at opening.
  void check_unchanged() const;

  // A hash of the size and of pieces spread over the bytes: the first and last 64 KiB and 14 blocks of 4 KiB
  // evenly between; of all bytes when there are at most 256 KiB. Sidecars and saved states keep it.
  std::uint64_t sample() const;

  // `count` bytes from `offset`: through a system call into `scratch` for a file (so that one that shrinks
  // meanwhile is an error and not a signal), in place for memory. The range must be within size().
  const std::uint8_t* read(std::uint64_t offset, std::size_t count, std::uint8_t* scratch) const;

  // Gives back the pages of a range that was read through the mapping; reading it again brings them back. For
  // those who go through large files: what is mapped counts as the memory of this process.
  void forget(std::uint64_t offset, std::size_t count) const;

  // Whether [begin, end) may be looked at through data() without more memory being mapped than this process may have
  // mapped; what is first looked at is counted. Where not, read() is the way. Always true for memory. The limit is
  // for all files together: the environment variable HEADRACE_MAPPED_MB, in megabytes, else 256.
  bool may_map(std::uint64_t begin, std::uint64_t end) const;
  // Whether that limit leaves any; where not, nothing is looked at through data(), and not for a moment either.
  static bool maps();

 private:
  FileBytes() = default;
  std::uint64_t window_of(std::uint64_t offset) const;

  std::string name_;
  FileIdentity identity_;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;          // -1: bytes in memory
  std::shared_ptr<void> owner_;  // of bytes in memory

  // A bit for each window of the mapping that has been counted, and how many there are.
  std::unique_ptr<std::atomic<std::uint64_t>[]> windows_;
  mutable std::atomic<std::int64_t> counted_{0};
};

}  // namespace headrace
