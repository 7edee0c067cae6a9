// What stands at a place of a file, for messages.
#pragma once

#include <cstdint>
#include <string>

#include "file_bytes.h"

namespace headrace {

// "'two 3'": up to 20 bytes of the line, those that cannot be printed as in "\xc3"; or "the end of the line" or "of the
// file".
std::string excerpt(const FileBytes& file, std::uint64_t offset);

}  // namespace headrace
