// CRC-32C (Castagnoli), the checksum of TFRecord files, at the speed of the processor's own instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Of `size` bytes; `start` is the checksum of the bytes before them, to go on from.
std::uint32_t crc32c(const std::uint8_t* data, std::size_t size, std::uint32_t start = 0);

// The same by tables, on any processor.
std::uint32_t crc32c_portable(const std::uint8_t* data, std::size_t size, std::uint32_t start = 0);

// As files hold it: rotated and moved, so that checksums of data with checksums in it don't get trivial.
inline std::uint32_t mask_crc32c(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }
inline std::uint32_t masked_crc32c(const std::uint8_t* data, std::size_t size) {
  return mask_crc32c(crc32c(data, size));
}

}  // namespace headrace
