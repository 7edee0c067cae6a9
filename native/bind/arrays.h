// NumPy arrays in and out of the core, without copies.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstdlib>
#include <span>

#include "buffer.h"

// A one-dimensional array that the core reads.
template <class T>
using Array = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.size()};
}

// A one-dimensional array that the core returns (several of them), for the types in the stub.
template <class T>
using NewArray = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;
template <class... T>
using NewArrays = nanobind::typed<nanobind::tuple, NewArray<T>...>;

// Gives the memory of a buffer to a NumPy array.
template <class T>
nanobind::object to_numpy(headrace::Buffer<T>&& buffer) {
  const std::size_t size = buffer.size();
  buffer.reserve(1);  // NumPy wants an address even for no items
  T* data = buffer.release();
  nanobind::capsule owner(data, [](void* memory) noexcept { std::free(memory); });
  return nanobind::cast(NewArray<T>(data, {size}, owner));
}
