// Tells what is UTF-8 from what is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "file_bytes.h"

namespace headrace {

// How far `size` bytes are valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF):
// `size` when all are. A character cut off by the end counts as not valid from its first byte on.
std::size_t valid_utf8_prefix(const std::uint8_t* data, std::size_t size);

// Whether a text begins with a byte order mark of UTF-16.
inline bool begins_as_utf16(const std::uint8_t* data, std::size_t size) {
  return size >= 2 && ((data[0] == 0xff && data[1] == 0xfe) || (data[0] == 0xfe && data[1] == 0xff));
}

// The offset of the first byte of a file that is not part of valid UTF-8.
std::optional<std::uint64_t> find_invalid_utf8(const FileBytes& file);

}  // namespace headrace
