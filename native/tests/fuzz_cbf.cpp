// Any bytes, taken as a chunk of the binary format, are refused or give sequences that lie in them.
#include <cstdlib>
#include <memory>
#include <vector>

#include "../cbf.h"
#include "../errors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  if (size < 2) return 0;
  const std::uint32_t sequences = data[0] % 8, samples = data[1];
  const auto file = FileBytes::from_memory(data + 2, size - 2, nullptr, "chunk");
  const std::vector<CbfStream> streams = {{"x", false, 4, 2}, {"w", true, 8, 9}};
  const CbfChunk chunk{0, 0, file->size(), sequences, samples};
  Buffer<std::uint32_t> lengths, counts;
  Buffer<std::uint64_t> positions;
  try {
    read_cbf_lengths(*file, chunk, lengths);
  } catch (const DataError&) {
    lengths.resize(0);
  }
  try {
    locate_cbf(*file, chunk, streams, positions, counts);
  } catch (const DataError&) {
    return 0;
  }
  for (std::size_t s = 0; s < streams.size(); ++s) {
    CbfRows rows;
    gather_cbf(*file, streams[s], {positions.data() + s * sequences, sequences}, rows);  // what was found is there
    for (std::uint32_t i = 0; i < sequences; ++i) {
      if (rows.offsets[i + 1] - rows.offsets[i] != counts[s * sequences + i]) std::abort();
    }
    if (streams[s].sparse && rows.entries[rows.entries.size() - 1] != static_cast<std::int64_t>(rows.indices.size())) {
      std::abort();
    }
  }
  return 0;
}
