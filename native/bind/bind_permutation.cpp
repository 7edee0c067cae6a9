#include <nanobind/stl/variant.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "arrays.h"
#include "bind.h"
#include "mix.h"
#include "permutation.h"
#include "random.h"

namespace nb = nanobind;
using namespace nb::literals;
using headrace::Buffer;

namespace {

using Positions = Array<std::int64_t>;

// The epoch of all positions, or one for each.
using Epochs = std::variant<std::int64_t, Positions>;

std::span<const std::int64_t> span_of_epochs(const Epochs& epochs, std::size_t positions) {
  if (const auto* one = std::get_if<std::int64_t>(&epochs)) return {one, 1};
  const auto many = span_of(std::get<Positions>(epochs));
  if (many.size() != positions)
    throw std::invalid_argument("expected one epoch for each of " + std::to_string(positions) + " positions, got " +
                                std::to_string(many.size()));
  return many;
}

nb::object permute(std::uint64_t seed, std::uint64_t epoch, std::uint64_t stream, std::uint64_t n,
                   const Positions& positions) {
  Buffer<std::int64_t> out(positions.size());
  {
    nb::gil_scoped_release unlocked;
    headrace::check_positions(span_of(positions), n);
    const headrace::Permutation permutation({seed, epoch, stream}, n);
    permutation.apply(span_of(positions), 0, {out.data(), out.size()});
  }
  return to_numpy(std::move(out));
}

nb::object permute_windows(std::uint64_t seed, const Epochs& epochs, std::uint64_t window, std::uint64_t n,
                           const Positions& positions) {
  const auto each = span_of_epochs(epochs, positions.size());
  Buffer<std::int64_t> out(positions.size());
  {
    nb::gil_scoped_release unlocked;
    headrace::permute_windows(seed, each, window, n, span_of(positions), {out.data(), out.size()});
  }
  return to_numpy(std::move(out));
}

nb::tuple mix_locate(const Array<std::int32_t>& pattern, const Positions& rank, const Positions& counts,
                     std::uint64_t seed, const Epochs& epochs, std::int64_t cell, std::int64_t n,
                     const Positions& positions) {
  const auto each = span_of_epochs(epochs, positions.size());
  Buffer<std::int32_t> choice(positions.size());
  Buffer<std::int64_t> record(positions.size());
  {
    nb::gil_scoped_release unlocked;
    headrace::mix_locate({span_of(pattern), span_of(rank), span_of(counts)}, seed, each, cell, n, span_of(positions),
                         {choice.data(), choice.size()}, {record.data(), record.size()});
  }
  return nb::make_tuple(to_numpy(std::move(choice)), to_numpy(std::move(record)));
}

}  // namespace

#define INTS "numpy.typing.NDArray[numpy.int64]"
#define INTS32 "numpy.typing.NDArray[numpy.int32]"

void bind_permutation(nb::module_& m) {
  m.def("absorb", &headrace::absorb, "hash"_a, "word"_a,
        "Mixes a 64-bit word into a 64-bit hash: how keys of permutations are made.");
  m.def("permute", &permute, "seed"_a, "epoch"_a, "stream"_a, "n"_a, "positions"_a,
        nb::sig("def permute(seed: int, epoch: int, stream: int, n: int, positions: " INTS ") -> " INTS),
        "The values, at some positions, of the permutation of [0, n) that seed, epoch and stream select.");
  m.def("permute_windows", &permute_windows, "seed"_a, "epochs"_a, "window"_a, "n"_a, "positions"_a,
        nb::sig("def permute_windows(seed: int, epochs: int | " INTS ", window: int, n: int, positions: " INTS
                ") -> " INTS),
        "The same, with each window of [0, n) permuted in itself, its number being the stream.");
  m.def("mix_locate", &mix_locate, "pattern"_a, "rank"_a, "counts"_a, "seed"_a, "epochs"_a, "cell"_a, "n"_a,
        "positions"_a,
        nb::sig("def mix_locate(pattern: " INTS32 ", rank: " INTS ", counts: " INTS ", seed: int, epochs: int | " INTS
                ", cell: int, n: int, positions: " INTS ") -> tuple[" INTS32 ", " INTS "]"),
        "The plan and the record that stand at each position of a mixture.");
  m.def(
      "check_positions",
      [](const Positions& positions, std::uint64_t n) { headrace::check_positions(span_of(positions), n); },
      "positions"_a, "n"_a, nb::sig("def check_positions(positions: " INTS ", n: int) -> None"),
      "Raises IndexError if a position is outside [0, n).");
}
