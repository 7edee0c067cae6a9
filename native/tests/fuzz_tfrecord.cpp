// Any bytes give the records and the place of the first fault that the plain model gives; recovery gives at least
// those, and only records that are whole.
#include <cstdlib>
#include <string>

#include "../crc32c.h"
#include "tfrecord_model.h"

using namespace headrace;

namespace {

// A fuzzer would never guess a checksum: the input is a list of steps that make a file, or damage one.
std::string make_file(const std::uint8_t* data, std::size_t size) {
  std::string file;
  std::size_t at = 0;
  const auto next = [&] { return at < size ? data[at++] : std::uint8_t{0}; };
  while (at < size) {
    const std::uint8_t step = next();
    std::string record;
    for (std::size_t left = step & 15; left > 0; --left) record += static_cast<char>(next());
    switch (step >> 5) {
      case 0:
      case 1:
      case 2:
        file += test::model_frame(record);
        break;
      case 3:
        file += record;
        break;
      case 4: {  // a right header with any length
        std::uint64_t length = 0;
        for (int i = 0; i < 8; ++i) length = length << 8 | next();
        const std::string bytes = test::little(step & 16 ? length : length >> 56, 8);
        file += bytes + test::little(test::model_masked_crc(bytes), 4) + record;
        break;
      }
      case 5:
        if (!file.empty()) file.resize(file.size() - std::min<std::size_t>(file.size(), step & 15));
        break;
      case 6:
        if (!file.empty()) file[(next() * 256u + next()) % file.size()] ^= static_cast<char>(1 << (step & 7));
        break;
      default:
        file += test::model_frame(test::model_frame(record));
    }
  }
  return file;
}

void check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of its own size, so that a read beyond its end is seen.
  const std::string made = make_file(data, size);
  const std::vector<std::uint8_t> bytes(made.begin(), made.end());
  const auto file = FileBytes::from_memory(bytes.data(), bytes.size(), nullptr, "file");
  const test::ModelRecords headers = test::model_records(made, false), wanted = test::model_records(made, true);

  const RecordIndex index = index_records(*file);
  check(bool(index.fault) == headers.fault.has_value());
  check(index.offsets.size() == headers.records.size());
  if (index.fault) check(index.fault.place() == *headers.fault && !index.fault.text().empty());

  // Backwards, each twice: records one by one, and in runs.
  const RecordReader reader(
      {{file, {index.offsets.data(), index.offsets.size()}, {index.lengths.data(), index.lengths.size()}, nullptr}});
  std::vector<std::int64_t> order;
  for (std::int64_t i = reader.records(); i-- > 0;) order.push_back(i);
  for (std::int64_t i = 0; i < reader.records(); ++i) order.push_back(i);
  Buffer<std::uint8_t> data_read;
  Buffer<std::int64_t> offsets_read;
  reader.read(order, false, data_read, offsets_read);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto begin = static_cast<std::size_t>(offsets_read[i]), end = static_cast<std::size_t>(offsets_read[i + 1]);
    const std::string& record = headers.records[static_cast<std::size_t>(order[i])];
    check(record == std::string(data_read.data() + begin, data_read.data() + end));
  }

  const RecordScan scan = scan_records({bytes.data(), bytes.size()}, 0, true, true, ~std::uint64_t{0});
  check(scan.lengths.size() == wanted.records.size());
  check(bool(scan.fault) == wanted.fault.has_value());
  if (scan.fault) check(scan.fault.place() == *wanted.fault);

  const RecordIndex rest = recover_records(*file);
  check(rest.offsets.size() >= wanted.records.size());
  check(rest.lost.empty() == !wanted.fault.has_value());
  std::uint64_t end = 0, lost = 0;
  for (std::size_t i = 0; i < rest.offsets.size(); ++i) {
    check(rest.offsets[i] >= end);
    const auto at = static_cast<std::size_t>(rest.offsets[i]);
    const std::string record = made.substr(at + 12, static_cast<std::size_t>(rest.lengths[i]));
    check(made.compare(at, record.size() + 16, test::model_frame(record)) == 0);
    if (i < wanted.records.size()) check(record == wanted.records[i]);
    lost += rest.offsets[i] - end;
    end = rest.offsets[i] + rest.lengths[i] + 16;
  }
  lost += made.size() - end;
  for (const LostBytes& part : rest.lost) lost -= part.end - part.begin;
  check(lost == 0);
  return 0;
}
