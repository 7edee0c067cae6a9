// A growable array that does not initialise what it allocates: results are written once, then handed over.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

namespace headrace {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "growth moves bytes");

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { resize(size); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

  // Room for `count` items in all. Memory grows by half, so that appending is cheap on the whole.
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    void* moved = std::realloc(data_, count * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    capacity_ = count;
  }

  // Makes room for `extra` more items and returns where they go; `advance` then counts them in.
  T* room(std::size_t extra) {
    if (extra > capacity_ - size_) {
      if (extra > std::numeric_limits<std::size_t>::max() - size_) throw std::bad_alloc();
      const std::size_t grown = capacity_ + capacity_ / 2 + 16;
      reserve(size_ + extra > grown ? size_ + extra : grown);
    }
    return data_ + size_;
  }
  void advance(std::size_t count) { size_ += count; }

  void push(T item) {
    *room(1) = item;
    ++size_;
  }

  // New items are not initialised.
  void resize(std::size_t size) {
    reserve(size);
    size_ = size;
  }

  // Hands the memory over to the caller, who ends it with std::free.
  T* release() {
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace headrace
