// The wire format of protocol buffers: reading fields from bytes that may be anything.
#pragma once

#include <cstdint>
#include <cstring>

namespace headrace {

// Bytes that are no message. `at` is where that was found.
struct Malformed {
  const char* what;
  const std::uint8_t* at;
};

struct WireBytes {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

// Reads a message field by field; never beyond its end. Throws Malformed.
class Wire {
 public:
  enum Type : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  explicit Wire(WireBytes bytes) : at_(bytes.data), end_(bytes.data + bytes.size) {}

  bool done() const { return at_ == end_; }
  const std::uint8_t* at() const { return at_; }

  // The next field; what it holds must be read or skipped then.
  void tag(std::uint32_t& field, std::uint32_t& type) {
    const std::uint8_t* start = at_;
    const std::uint64_t tag = varint();
    if (tag > 0xFFFFFFFF || tag < 8) throw Malformed{"a field without a valid number", start};
    field = static_cast<std::uint32_t>(tag >> 3);
    type = static_cast<std::uint32_t>(tag & 7);
  }

  std::uint64_t varint() {
    if (at_ != end_ && *at_ < 128) return *at_++;
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) throw Malformed{"it ends within a number", at_};
      const std::uint8_t byte = *at_++;
      if (shift == 63 && byte > 1) break;
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
    throw Malformed{"a number of more than 64 bits", at_};
  }

  WireBytes bytes() {
    const std::uint8_t* start = at_;
    const std::uint64_t size = varint();
    if (size > static_cast<std::uint64_t>(end_ - at_)) throw Malformed{"a field that goes beyond the end", start};
    const WireBytes found{at_, static_cast<std::size_t>(size)};
    at_ += size;
    return found;
  }

  const std::uint8_t* fixed(std::size_t size) {
    if (size > static_cast<std::size_t>(end_ - at_)) throw Malformed{"it ends within a number", at_};
    at_ += size;
    return at_ - size;
  }

  void skip(std::uint32_t type) {
    switch (type) {
      case kVarint:
        varint();
        break;
      case kFixed64:
        fixed(8);
        break;
      case kBytes:
        bytes();
        break;
      case kFixed32:
        fixed(4);
        break;
      default:
        throw Malformed{type < 5 ? "a group, which these messages don't have" : "a field of a type that there isn't",
                        at_};
    }
  }

  // The content of field number `wanted`, which is a message or a string; false if it is another one, then passed over.
  bool message(std::uint32_t wanted, WireBytes& content) {
    std::uint32_t field, type;
    tag(field, type);
    if (field != wanted) {
      skip(type);
      return false;
    }
    content = expect_bytes(type);
    return true;
  }

  WireBytes expect_bytes(std::uint32_t type) {
    if (type > kBytes && type != kFixed32) skip(type);  // throws
    if (type != kBytes) throw Malformed{"a number where a string or message belongs", at_};
    return bytes();
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace headrace
