#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "cbf.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace headrace;

namespace {

using Stream = std::tuple<std::string, bool, std::uint32_t, std::uint32_t>;  // name, sparse, bytes of a value, dim
using Chunk = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;

CbfStream stream_of(const Stream& stream) {
  const auto& [name, sparse, value_bytes, dim] = stream;
  if (value_bytes != 4 && value_bytes != 8) throw std::invalid_argument("expected values of 4 or 8 bytes");
  return {name, sparse, value_bytes, dim};
}

nb::object lengths_of(const FileBytes& file, const Array<std::uint64_t>& begins, const Array<std::uint64_t>& ends,
                      const Array<std::uint32_t>& sequences, const Array<std::uint32_t>& samples) {
  if (ends.size() != begins.size() || sequences.size() != begins.size() || samples.size() != begins.size()) {
    throw std::invalid_argument("the arrays of chunks differ in size");
  }
  Buffer<std::uint32_t> lengths;
  {
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      read_cbf_lengths(file, {i, begins(i), ends(i), sequences(i), samples(i)}, lengths);
    }
  }
  return to_numpy(std::move(lengths));
}

NewArrays<std::uint64_t, std::uint32_t> locate(const FileBytes& file, const Chunk& chunk,
                                               const std::vector<Stream>& streams) {
  std::vector<CbfStream> described;
  for (const Stream& stream : streams) described.push_back(stream_of(stream));
  const auto& [number, begin, end, sequences, samples] = chunk;
  Buffer<std::uint64_t> positions;
  Buffer<std::uint32_t> counts;
  {
    nb::gil_scoped_release unlocked;
    locate_cbf(file, {number, begin, end, sequences, samples}, described, positions, counts);
  }
  return nb::make_tuple(to_numpy(std::move(positions)), to_numpy(std::move(counts)));
}

NewArrays<std::uint8_t, std::int64_t, std::int32_t, std::int64_t, std::int64_t, std::int64_t> gather(
    const FileBytes& file, const Stream& stream, const Array<std::uint64_t>& positions) {
  const CbfStream described = stream_of(stream);
  CbfRows rows;
  {
    nb::gil_scoped_release unlocked;
    gather_cbf(file, described, span_of(positions), rows);
  }
  return nb::make_tuple(to_numpy(std::move(rows.values)), to_numpy(std::move(rows.offsets)),
                        to_numpy(std::move(rows.indices)), to_numpy(std::move(rows.entries)),
                        to_numpy(std::move(rows.bad_rows)), to_numpy(std::move(rows.bad_bytes)));
}

}  // namespace

void bind_cbf(nb::module_& m) {
  m.def("cbf_lengths", &lengths_of, "file"_a, "begins"_a, "ends"_a, "sequences"_a, "samples"_a,
        nb::sig("def cbf_lengths(file: FileBytes, begins: numpy.typing.NDArray[numpy.uint64], "
                "ends: numpy.typing.NDArray[numpy.uint64], sequences: numpy.typing.NDArray[numpy.uint32], "
                "samples: numpy.typing.NDArray[numpy.uint32]) -> numpy.typing.NDArray[numpy.uint32]"),
        "The length of each sequence of the chunks that begin and end there, of so many sequences and samples.");
  m.def("cbf_locate", &locate, "file"_a, "chunk"_a, "streams"_a,
        "(position of each sequence, its samples), stream after stream, of a chunk (number, begin, end, sequences, "
        "samples); streams are (name, sparse, bytes of a value, dim).");
  m.def("cbf_gather", &gather, "file"_a, "stream"_a, "positions"_a,
        "(bytes of values, offsets; indices, entries, bad_rows, bad_bytes of a sparse stream) of sequences.");
}
