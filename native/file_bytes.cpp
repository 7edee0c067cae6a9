#include "file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "buffer.h"
#include "errors.h"
#include "hash.h"

namespace headrace {
namespace {

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

FileIdentity identify(int descriptor, const std::string& name) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) throw_errno(name);
  if (!S_ISREG(status.st_mode)) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    throw_errno(name);
  }
#ifdef __APPLE__
  const auto& time = status.st_mtimespec;
#else
  const auto& time = status.st_mtim;
#endif
  return {static_cast<std::uint64_t>(status.st_size),
          static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::int64_t>(time.tv_nsec),
          static_cast<std::uint64_t>(status.st_ino)};
}

std::string describe(const FileIdentity& id) {
  return std::to_string(id.size) + " bytes, modified at " + std::to_string(id.mtime_ns) + " ns";
}

// A look at a page that is not mapped may map the pages around it too: all of a huge page, where the kernel keeps the
// file in such. So this is what memory is counted in; counting the bytes that are looked at would miss most of it.
constexpr std::uint64_t kWindow = 2 << 20;

// Windows that all files together may have mapped.
std::int64_t windows_at_most() {
  static const std::int64_t most = [] {
    constexpr std::int64_t kDefault = 256, kMost = std::int64_t{1} << 32, kMegabytes = kWindow >> 20;
    const char* text = std::getenv("HEADRACE_MAPPED_MB");
    if (text == nullptr) return kDefault / kMegabytes;
    char* end = nullptr;
    const std::int64_t megabytes = std::strtoll(text, &end, 10);
    if (end == text || *end != 0 || megabytes < 0) return kDefault / kMegabytes;
    return std::min(megabytes, kMost) / kMegabytes;
  }();
  return most;
}

// Those that are left of them.
std::atomic<std::int64_t>& windows_left() {
  static std::atomic<std::int64_t> left = windows_at_most();
  return left;
}

}  // namespace

std::shared_ptr<FileBytes> FileBytes::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe would wait for somebody to write to it.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw_errno(path);
  std::shared_ptr<FileBytes> file;
  try {
    file = from_descriptor(descriptor, path);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::close(descriptor);
  return file;
}

std::shared_ptr<FileBytes> FileBytes::from_descriptor(int descriptor, std::string name) {
  std::shared_ptr<FileBytes> file(new FileBytes());
  file->name_ = std::move(name);
  file->descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (file->descriptor_ < 0) throw_errno(file->name_);
  file->identity_ = identify(file->descriptor_, file->name_);
  if (file->identity_.size > std::numeric_limits<std::size_t>::max() / 2) {
    errno = EFBIG;
    throw_errno(file->name_);
  }
  file->size_ = static_cast<std::size_t>(file->identity_.size);
  if (file->size_ > 0) {  // an empty file cannot be mapped, and need not be
    void* mapped = ::mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->descriptor_, 0);
    if (mapped == MAP_FAILED) {
      file->size_ = 0;  // nothing to unmap
      throw_errno(file->name_);
    }
    file->data_ = static_cast<const std::uint8_t*>(mapped);
    file->windows_ = std::make_unique<std::atomic<std::uint64_t>[]>(file->window_of(file->size_ - 1) / 64 + 1);
  }
  return file;
}

std::shared_ptr<FileBytes> FileBytes::from_memory(const std::uint8_t* data, std::size_t size,
                                                  std::shared_ptr<void> owner, std::string name) {
  std::shared_ptr<FileBytes> file(new FileBytes());
  file->name_ = std::move(name);
  file->identity_.size = size;
  file->data_ = data;
  file->size_ = size;
  file->owner_ = std::move(owner);
  return file;
}

FileBytes::~FileBytes() {
  if (descriptor_ < 0) return;
  if (size_ > 0) ::munmap(const_cast<std::uint8_t*>(data_), size_);
  if (counted_ > 0) windows_left() += counted_;
  ::close(descriptor_);
}

void FileBytes::check_unchanged() const {
  if (descriptor_ < 0) return;
  const FileIdentity now = identify(descriptor_, name_);
  if (now == identity_) return;
  throw DataChangedError(name_ + " changed while it was in use: expected " + describe(identity_) + "; found " +
                         describe(now) +
                         ". Leave files alone while they are read; open this one again to index it anew.");
}

std::uint64_t FileBytes::sample() const {
  constexpr std::size_t kAll = 256 << 10, kEnd = 64 << 10, kBlockBytes = 4 << 10, kBlocks = 14;
  Buffer<std::uint8_t> taken;
  taken.reserve(kAll + sizeof(std::uint64_t));
  const auto take = [&](std::uint64_t offset, std::size_t count) {
    std::uint8_t* to = taken.room(count);
    const std::uint8_t* from = read(offset, count, to);
    if (from != to && count > 0) std::memcpy(to, from, count);
    taken.advance(count);
  };
  if (size_ <= kAll) {
    take(0, size_);
  } else {
    take(0, kEnd);
    const std::uint64_t between = size_ - 2 * kEnd - kBlockBytes;
    for (std::uint64_t i = 0; i < kBlocks; ++i) take(kEnd + between / (kBlocks - 1) * i, kBlockBytes);
    take(size_ - kEnd, kEnd);
  }
  return mix(hash_bytes(taken.data(), taken.size()), size_ ^ hash_constants::kB);
}

// Windows begin at multiples of their size in the address space, not in the file.
std::uint64_t FileBytes::window_of(std::uint64_t offset) const {
  const auto base = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data_));
  return (base + offset) / kWindow - base / kWindow;
}

bool FileBytes::may_map(std::uint64_t begin, std::uint64_t end) const {
  if (descriptor_ < 0 || begin >= end) return true;
  for (std::uint64_t window = window_of(begin), last = window_of(end - 1); window <= last; ++window) {
    std::atomic<std::uint64_t>& word = windows_[window / 64];
    const std::uint64_t bit = std::uint64_t{1} << (window % 64);
    if ((word.load(std::memory_order_relaxed) & bit) != 0) continue;
    std::atomic<std::int64_t>& left = windows_left();
    if (left.load(std::memory_order_relaxed) <= 0) return false;
    if (left.fetch_sub(1, std::memory_order_relaxed) <= 0) {  // others were quicker
      left.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if ((word.fetch_or(bit, std::memory_order_relaxed) & bit) != 0) {
      left.fetch_add(1, std::memory_order_relaxed);
    } else {
      counted_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return true;
}

bool FileBytes::maps() { return windows_at_most() > 0; }

const std::uint8_t* FileBytes::read(std::uint64_t offset, std::size_t count, std::uint8_t* scratch) const {
  if (descriptor_ < 0) return data_ + offset;
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(descriptor_, scratch + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(name_);
    if (got == 0) {
      throw DataChangedError(name_ + " changed while it was in use: expected " + describe(identity_) +
                             "; it ends after " + std::to_string(offset + done) +
                             " bytes now. Leave files alone while they are read; open this one again.");
    }
    done += static_cast<std::size_t>(got);
  }
  return scratch;
}

void FileBytes::forget(std::uint64_t offset, std::size_t count) const {
  if (descriptor_ < 0 || size_ == 0) return;
  // From the beginning of the window on, as looking at a page maps some before it again.
  const auto base = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data_));
  const std::uint64_t begin = std::max(base, (base + offset) / kWindow * kWindow) - base;
  // A hint: where it isn't taken nothing is lost.
  (void)::madvise(const_cast<std::uint8_t*>(data_) + begin, static_cast<std::size_t>(offset + count - begin),
                  MADV_DONTNEED);
}

}  // namespace headrace
