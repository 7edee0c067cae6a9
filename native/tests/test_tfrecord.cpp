#include <cstdio>
#include <random>

#include "../crc32c.h"
#include "../errors.h"
#include "../parallel.h"
#include "../tfrecord.h"
#include "check.h"
#include "tfrecord_model.h"

using namespace headrace;
using namespace headrace::test;

namespace {

const std::uint8_t* bytes(const std::string& text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

std::shared_ptr<FileBytes> open(const std::string& text) {
  return FileBytes::from_memory(bytes(text), text.size(), nullptr, "memory");
}

std::vector<std::string> taken(const std::string& file, const RecordIndex& index) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < index.offsets.size(); ++i) {
    found.push_back(
        file.substr(static_cast<std::size_t>(index.offsets[i]) + 12, static_cast<std::size_t>(index.lengths[i])));
  }
  return found;
}

const std::vector<std::string> kRecords = {"alpha", "", std::string("gamma\0\xff", 7), std::string(1000, 'd')};

std::string small_file() {
  std::string file;
  for (const auto& record : kRecords) file += model_frame(record);
  return file;
}

}  // namespace

TEST(checksums_are_the_published_ones) {
  CHECK_EQ(crc32c(bytes("123456789"), 9), 0xE3069283u);
  CHECK_EQ(crc32c(nullptr, 0), 0u);
  const std::string zeros(32, '\0');
  CHECK_EQ(crc32c(bytes(zeros), 32), 0x8A9136AAu);
  const std::string ones(32, '\xff');
  CHECK_EQ(crc32c(bytes(ones), 32), 0x62A8AB43u);
}

TEST(checksums_by_instruction_and_by_table_agree_at_every_length) {
  std::mt19937_64 random(3);
  std::string data(5000, '\0');
  for (char& c : data) c = static_cast<char>(random());
  for (std::size_t size = 0; size < 2000; size += size < 1600 ? 1 : 37) {
    for (const std::size_t begin : {std::size_t{0}, std::size_t{3}}) {
      const std::uint32_t wanted = crc32c_portable(bytes(data) + begin, size);
      CHECK_EQ(crc32c(bytes(data) + begin, size), wanted);
      CHECK_EQ(mask_crc32c(wanted), model_masked_crc(data.substr(begin, size)));
      // Going on from a part gives the same as the whole.
      CHECK_EQ(crc32c(bytes(data) + begin + size / 3, size - size / 3, crc32c(bytes(data) + begin, size / 3)), wanted);
    }
  }
}

TEST(frames_are_what_the_format_says) {
  Buffer<std::uint8_t> out;
  std::string wanted;
  for (const auto& record : kRecords) {
    frame_record({bytes(record), record.size()}, out);
    wanted += model_frame(record);
  }
  CHECK_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()), wanted);
}

TEST(records_are_found_and_read_in_any_order) {
  const std::string file = small_file();
  const RecordIndex index = index_records(*open(file));
  CHECK(!index.fault);
  CHECK(taken(file, index) == kRecords);
  const RecordReader reader({{open(file),
                              {index.offsets.data(), index.offsets.size()},
                              {index.lengths.data(), index.lengths.size()},
                              nullptr}});
  const std::int64_t order[] = {3, 0, 2, 2, 1};
  Buffer<std::uint8_t> data;
  Buffer<std::int64_t> offsets;
  reader.read(order, true, data, offsets);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK_EQ(std::string(reinterpret_cast<const char*>(data.data()) + offsets[i],
                         static_cast<std::size_t>(offsets[i + 1] - offsets[i])),
             kRecords[static_cast<std::size_t>(order[i])]);
  }
  const std::int64_t outside[] = {4};
  CHECK_THROWS(reader.read(outside, true, data, offsets), std::out_of_range, "record 4 is not there");
}

TEST(records_are_the_same_however_their_file_is_read) {
  std::string file;
  std::vector<std::string> records;
  for (std::size_t i = 0; i < 2000; ++i) {
    records.push_back(std::string(i % 301, static_cast<char>(i)));
    file += model_frame(records.back());
  }
  std::FILE* real = std::tmpfile();
  CHECK(real != nullptr);
  CHECK_EQ(std::fwrite(file.data(), 1, file.size(), real), file.size());
  std::fflush(real);
  const auto bytes = FileBytes::from_descriptor(fileno(real), "file");
  const RecordIndex index = index_records(*bytes);
  CHECK(taken(file, index) == records);
  CHECK(taken(file, recover_records(*bytes)) == records);
  // In long runs, in short ones, and singly.
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < 1000; ++i) order.push_back(i);
  for (std::int64_t i = 1999; i >= 1000; i -= 3) order.insert(order.end(), {i - 1, i, 7});
  for (const std::uint64_t mapped : {std::uint64_t{0}, std::uint64_t{100'000}, std::uint64_t{64} << 20}) {
    const RecordReader reader(
        {{bytes, {index.offsets.data(), index.offsets.size()}, {index.lengths.data(), index.lengths.size()}, nullptr}},
        mapped);
    const auto read = [&] {
      for (int round = 0; round < 3; ++round) {
        Buffer<std::uint8_t> data;
        Buffer<std::int64_t> offsets;
        reader.read(order, true, data, offsets);
        for (std::size_t i = 0; i < order.size(); ++i) {
          CHECK_EQ(std::string(reinterpret_cast<const char*>(data.data()) + offsets[i],
                               static_cast<std::size_t>(offsets[i + 1] - offsets[i])),
                   records[static_cast<std::size_t>(order[i])]);
        }
      }
    };
    run_parts(3, [&](std::size_t) { read(); });
  }
  std::fclose(real);
}

TEST(an_index_that_does_not_fit_is_refused) {
  const std::string file = small_file();
  const std::int64_t first[] = {0};
  Buffer<std::uint8_t> data;
  Buffer<std::int64_t> out;
  const auto read = [&](std::uint64_t offset, std::uint64_t length) {
    const RecordReader reader({{open(file), {&offset, 1}, {&length, 1}, nullptr}});
    reader.read(first, true, data, out);
  };
  read(0, 5);
  CHECK_THROWS(read(0, 6), DataError, "rebuild");
  CHECK_THROWS(read(1, 5), DataError, "rebuild");
  CHECK_THROWS(read(file.size(), 5), DataError, "does not fit");
  CHECK_THROWS(read(~std::uint64_t{0}, 5), DataError, "does not fit");
  CHECK_THROWS(read(0, ~std::uint64_t{0}), DataError, "does not fit");
}

TEST(every_flipped_byte_and_every_cut_is_an_error_with_its_place_or_changes_nothing) {
  const std::string file = model_frame("one") + model_frame("two") + model_frame("");
  const std::vector<std::size_t> starts = {0, 19, 38};
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    const ModelRecords wanted = model_records(damaged, true);
    CHECK(wanted.fault.has_value());
    const RecordScan scan = scan_records({bytes(damaged), damaged.size()}, 0, true, true, 1 << 20);
    CHECK(scan.fault);
    CHECK_EQ(scan.fault.place(), *wanted.fault);
    CHECK_EQ(scan.lengths.size(), wanted.records.size());
    // Recovery loses the one record and no other.
    const RecordIndex rest = recover_records(*open(damaged));
    CHECK_EQ(rest.offsets.size(), 2u);
    CHECK_EQ(rest.lost.size(), 1u);
    CHECK_EQ(rest.lost[0].begin, starts[i < 19 ? 0 : i < 38 ? 1 : 2]);
  }
  for (std::size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    const bool whole = size == 0 || size == 19 || size == 38;
    const RecordIndex index = index_records(*open(cut));
    CHECK_EQ(bool(index.fault), !whole);
    CHECK_EQ(index.offsets.size(), size < 19 ? 0u : size < 38 ? 1u : 2u);
  }
}

TEST(lengths_that_no_file_can_have_are_refused) {
  for (const std::uint64_t length :
       {~std::uint64_t{0}, std::uint64_t{1} << 62, ~std::uint64_t{0} - 15, std::uint64_t{100}}) {
    const std::string header = little(length, 8);
    const std::string file = model_frame("one") + header + little(model_masked_crc(header), 4) + "some bytes";
    const RecordIndex index = index_records(*open(file));
    CHECK_EQ(index.offsets.size(), 1u);
    CHECK(index.fault.kind == RecordFaultKind::kCutData);
    CHECK(index.fault.text().starts_with("truncated record at 19: its header says " + std::to_string(length)));
    const RecordScan scan = scan_records({bytes(file), file.size()}, 0, false, true, 1000);
    CHECK_EQ(bool(scan.fault), length > 1000);
    CHECK_EQ(scan.wanted, length > 1000 ? 12u : 116u);
    CHECK_EQ(recover_records(*open(file)).offsets.size(), 1u);
  }
}

TEST(recovery_finds_what_lies_between_damage) {
  const std::string one = model_frame("one"), big = model_frame(std::string(5000, 'b'));
  const std::string file = "some" + one + "stray bytes" + big + one + one.substr(0, 17);
  const RecordIndex index = recover_records(*open(file));
  CHECK(taken(file, index) == (std::vector<std::string>{"one", std::string(5000, 'b'), "one"}));
  CHECK_EQ(index.lost.size(), 3u);
  CHECK_EQ(index.lost[0].end, 4u);
  CHECK_EQ(index.lost[2].end, file.size());
  // A record inside the data of another is not found unless the outer one is damaged.
  const std::string outer = model_frame(one);
  CHECK_EQ(recover_records(*open(outer)).lengths[0], one.size());
  std::string damaged = outer;
  damaged[0] ^= 1;
  CHECK_EQ(recover_records(*open(damaged)).lengths[0], 3u);
}

TEST(recovery_from_a_file_made_to_be_slow_ends) {
  // Headers upon headers, each with the right checksum and a length to the end of the file, and no right data.
  std::string file;
  constexpr std::size_t kHeaders = 20'000;
  for (std::size_t i = 0; i < kHeaders; ++i) {
    const std::string length = little((kHeaders - i) * 12 - 16 + 1, 8);
    file += length + little(model_masked_crc(length), 4);
  }
  CHECK_EQ(recover_records(*open(file)).offsets.size(), 0u);
}

int main() { return headrace::test::run_all(); }
