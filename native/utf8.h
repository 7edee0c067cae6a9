// Finds the first byte that is not UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "file_bytes.h"

namespace headrace {

// How far `size` bytes are valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF):
// `size` when all are. A character cut off by the end counts as not valid from its first byte on.
std::size_t valid_utf8_prefix(const std::uint8_t* data, std::size_t size);

// The offset of the first byte of a file that is not part of valid UTF-8.
std::optional<std::uint64_t> find_invalid_utf8(const FileBytes& file);

}  // namespace headrace
