#include "utf8.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace headrace {
namespace {

constexpr std::size_t kPiece = 256 * 1024;
constexpr std::size_t kLongest = 4;  // bytes of a character

bool follows(std::uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Bytes of the character at `p`, of which `left` bytes are there; 0 when it is not valid or not whole.
std::size_t character(const std::uint8_t* p, std::size_t left) {
  const std::uint8_t lead = p[0];
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;  // a continuation byte, or an overlong form of ASCII
  if (left < 2 || !follows(p[1])) return 0;
  if (lead < 0xe0) return 2;
  const std::uint8_t second = p[1];
  if (left < 3 || !follows(p[2])) return 0;
  if (lead < 0xf0) {
    if (lead == 0xe0 && second < 0xa0) return 0;  // overlong
    if (lead == 0xed && second > 0x9f) return 0;  // surrogates
    return 3;
  }
  if (lead > 0xf4 || left < 4 || !follows(p[3])) return 0;
  if (lead == 0xf0 && second < 0x90) return 0;  // overlong
  if (lead == 0xf4 && second > 0x8f) return 0;  // above U+10FFFF
  return 4;
}

}  // namespace

std::size_t valid_utf8_prefix(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kTopBits = 0x8080808080808080;
  std::size_t at = 0;
  while (at < size) {
    if (data[at] < 0x80) {  // runs of ASCII, sixteen bytes at a time
      std::uint64_t pair[2];
      while (size - at >= sizeof pair) {
        std::memcpy(pair, data + at, sizeof pair);
        if (((pair[0] | pair[1]) & kTopBits) != 0) break;
        at += sizeof pair;
      }
      while (at < size && data[at] < 0x80) ++at;
      continue;
    }
    const std::size_t bytes = character(data + at, size - at);
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

std::optional<std::uint64_t> find_invalid_utf8(const FileBytes& file) {
  file.check_unchanged();
  const auto scratch = std::make_unique_for_overwrite<std::uint8_t[]>(kPiece);
  std::uint64_t at = 0;
  while (at < file.size()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, file.size() - at));
    const std::size_t valid = valid_utf8_prefix(file.read(at, count, scratch.get()), count);
    const bool at_end = at + count == file.size();
    // A character may be cut by the end of a piece; the next piece then begins with it.
    if (valid < count && (at_end || count - valid >= kLongest || valid == 0)) return at + valid;
    at += valid;
  }
  return std::nullopt;
}

}  // namespace headrace
