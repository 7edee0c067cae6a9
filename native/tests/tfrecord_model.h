// TFRecord files by the plainest code: what the tests and the fuzzer compare with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../buffer.h"
#include "../tfrecord.h"

namespace headrace::test {

inline std::uint32_t model_masked_crc(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78 : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string model_frame(const std::string& data) {
  const std::string length = little(data.size(), 8);
  return length + little(model_masked_crc(length), 4) + data + little(model_masked_crc(data), 4);
}

struct ModelRecords {
  std::vector<std::string> records;
  std::optional<std::uint64_t> fault;  // where it is
};

// The records up to the first fault. `verify`: look at the checksums of data too.
inline ModelRecords model_records(const std::string& file, bool verify) {
  ModelRecords found;
  std::size_t at = 0;
  while (at < file.size()) {
    if (file.size() - at < 12 || file.substr(at + 8, 4) != little(model_masked_crc(file.substr(at, 8)), 4)) {
      found.fault = at;
      break;
    }
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i)
      length = length << 8 | static_cast<std::uint8_t>(file[at + static_cast<std::size_t>(i)]);
    const std::uint64_t rest = file.size() - at - 12;
    if (rest < 4 || length > rest - 4) {
      found.fault = at;
      break;
    }
    const std::string data = file.substr(at + 12, static_cast<std::size_t>(length));
    if (verify && file.substr(at + 12 + data.size(), 4) != little(model_masked_crc(data), 4)) {
      found.fault = at + 12;
      break;
    }
    found.records.push_back(data);
    at += 16 + data.size();
  }
  return found;
}

}  // namespace headrace::test
