#include <cstring>
#include <memory>
#include <vector>

#include "cbf.h"
#include "check.h"
#include "errors.h"

using namespace headrace;

namespace {

const std::vector<CbfStream> kStreams = {{"x", false, 4, 2}, {"w", true, 8, 9}};

// Bytes that grow; positions are those of the chunk, which the file consists of.
struct Bytes {
  std::vector<std::uint8_t> data;

  template <class T>
  Bytes& put(T value) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(&value);
    data.insert(data.end(), from, from + sizeof value);
    return *this;
  }
};

// Of exactly the bytes' size, so that the sanitizer sees every step beyond.
std::shared_ptr<FileBytes> file_of(const std::vector<std::uint8_t>& data) {
  auto owner = std::make_shared<std::unique_ptr<std::uint8_t[]>>(new std::uint8_t[data.size()]);
  if (!data.empty()) std::memcpy(owner->get(), data.data(), data.size());
  const std::uint8_t* memory = owner->get();
  return FileBytes::from_memory(memory, data.size(), owner, "file");
}

// Two sequences: x has 2 and 1 samples, w has 1 and 0.
std::vector<std::uint8_t> good() {
  Bytes b;
  b.put(2u).put(1u);
  b.put(2u).put(1.f).put(2.f).put(3.f).put(4.f).put(1u).put(5.f).put(6.f);
  b.put(1u).put(2).put(.5).put(.25).put(3).put(7).put(2).put(0u).put(0);
  return b.data;
}

CbfChunk whole(const FileBytes& file, std::uint32_t sequences = 2, std::uint32_t samples = 3) {
  return {0, 0, file.size(), sequences, samples};
}

void read_all(const FileBytes& file, const CbfChunk& chunk) {
  Buffer<std::uint32_t> lengths, samples;
  Buffer<std::uint64_t> positions;
  read_cbf_lengths(file, chunk, lengths);
  locate_cbf(file, chunk, kStreams, positions, samples);
  for (std::size_t s = 0; s < kStreams.size(); ++s) {
    CbfRows rows;
    gather_cbf(file, kStreams[s], {positions.data() + s * chunk.sequences, chunk.sequences}, rows);
    CHECK_EQ(rows.offsets.size(), chunk.sequences + 1u);
  }
}

TEST(sequences_are_found_and_copied) {
  const auto file = file_of(good());
  Buffer<std::uint32_t> lengths, samples;
  Buffer<std::uint64_t> positions;
  read_cbf_lengths(*file, whole(*file), lengths);
  CHECK_EQ(lengths.size(), 2u);
  CHECK_EQ(lengths[0], 2u);
  locate_cbf(*file, whole(*file), kStreams, positions, samples);
  CHECK_EQ(positions.size(), 4u);
  CHECK_EQ(samples[2], 1u);
  CHECK_EQ(samples[3], 0u);
  CbfRows x, w;
  const std::vector<std::uint64_t> some = {positions[1], 0, positions[0]};
  gather_cbf(*file, kStreams[0], some, x);
  CHECK_EQ(x.values.size(), 3u * 8u);
  CHECK_EQ(x.offsets[1], 1);
  CHECK_EQ(x.offsets[2], 1);
  CHECK_EQ(x.offsets[3], 3);
  float first = 0;
  std::memcpy(&first, x.values.data(), 4);
  CHECK_EQ(first, 5.f);
  const std::vector<std::uint64_t> twice = {positions[2], positions[3], positions[2]};
  gather_cbf(*file, kStreams[1], twice, w);
  CHECK_EQ(w.indices.size(), 4u);
  CHECK_EQ(w.indices[3], 7);
  CHECK_EQ(w.entries.size(), 3u);
  CHECK_EQ(w.entries[2], 4);
  CHECK_EQ(w.bad_rows.size(), 0u);
}

TEST(a_cut_chunk_is_refused_at_every_byte) {
  const auto data = good();
  for (std::size_t size = 0; size < data.size(); ++size) {
    const auto file = file_of({data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size)});
    CHECK_THROWS(read_all(*file, whole(*file)), DataError, "file, byte");
  }
}

TEST(changed_bytes_give_errors_or_values) {
  std::uint64_t state = 1;
  std::size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto data = good();
    for (int change = 0; change <= round % 3; ++change) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      data[(state >> 33) % data.size()] = static_cast<std::uint8_t>(state >> 25);
    }
    const auto file = file_of(data);
    try {
      read_all(*file, whole(*file));
    } catch (const DataError&) {
      ++refused;
    }
  }
  CHECK(refused > 5000);
}

TEST(claims_beyond_the_file_allocate_nothing) {
  const auto file = file_of(good());
  CHECK_THROWS(read_all(*file, whole(*file, 0xffffffffu)), DataError, "4294967295 sequences");
  CHECK_THROWS(read_all(*file, {0, 4, file->size() + 1, 1, 1}), DataError, "inside the file");
  CHECK_THROWS(read_all(*file, {0, 8, 4, 1, 1}), DataError, "inside the file");
}

TEST(indices_outside_are_told_by_row_and_byte) {
  auto data = good();
  const std::int32_t bad = -1;
  std::memcpy(data.data() + 68, &bad, 4);
  const auto file = file_of(data);
  Buffer<std::uint32_t> samples;
  Buffer<std::uint64_t> positions;
  locate_cbf(*file, whole(*file), kStreams, positions, samples);
  CbfRows rows;
  const std::vector<std::uint64_t> some = {positions[3], positions[2]};
  gather_cbf(*file, kStreams[1], some, rows);
  CHECK_EQ(rows.bad_rows.size(), 1u);
  CHECK_EQ(rows.bad_rows[0], 1);
  CHECK_EQ(rows.bad_bytes[0], 68);
}

TEST(positions_that_no_longer_fit_are_refused) {
  const auto file = file_of(good());
  for (std::uint64_t at = 1; at < file->size() + 9; ++at) {
    const std::vector<std::uint64_t> positions = {at};
    for (const CbfStream& stream : kStreams) {
      CbfRows rows;
      try {
        gather_cbf(*file, stream, positions, rows);
      } catch (const DataChangedError&) {
      }
    }
  }
}

}  // namespace

int main() { return headrace::test::run_all(); }
