#include <nanobind/stl/string.h>

#include <stdexcept>
#include <string>

#include "arrays.h"
#include "bind.h"
#include "mix.h"
#include "permutation.h"

namespace nb = nanobind;
using namespace nb::literals;
using headrace::Buffer;

namespace {

using Positions = Array<std::int64_t>;

void check_epochs(std::size_t epochs, std::size_t positions) {
  if (epochs != 1 && epochs != positions)
    throw std::invalid_argument("expected one epoch, or one for each of " + std::to_string(positions) +
                                " positions, got " + std::to_string(epochs));
}

nb::object permute_windows(std::uint64_t seed, std::span<const std::int64_t> epochs, std::uint64_t window,
                           std::uint64_t n, const Positions& positions) {
  check_epochs(epochs.size(), positions.size());
  Buffer<std::int64_t> out(positions.size());
  {
    nb::gil_scoped_release unlocked;
    headrace::permute_windows(seed, epochs, window, n, span_of(positions), {out.data(), out.size()});
  }
  return to_numpy(std::move(out));
}

nb::tuple mix_locate(const Array<std::int32_t>& pattern, const Array<std::int64_t>& rank,
                     const Array<std::int64_t>& counts, std::uint64_t seed,
                     std::span<const std::int64_t> epochs, std::int64_t cell, std::int64_t n,
                     const Positions& positions) {
  check_epochs(epochs.size(), positions.size());
  Buffer<std::int32_t> choice(positions.size());
  Buffer<std::int64_t> record(positions.size());
  {
    nb::gil_scoped_release unlocked;
    headrace::mix_locate({span_of(pattern), span_of(rank), span_of(counts)}, seed, epochs, cell, n,
                         span_of(positions), {choice.data(), choice.size()}, {record.data(), record.size()});
  }
  return nb::make_tuple(to_numpy(std::move(choice)), to_numpy(std::move(record)));
}

}  // namespace

void bind_permutation(nb::module_& m) {
  m.def("absorb", &headrace::absorb, "hash"_a, "word"_a,
        "Mixes a 64-bit word into a 64-bit hash: how keys of permutations are made.");
  m.def(
      "permute",
      [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t stream, std::uint64_t n,
         const Positions& positions) {
        const headrace::Permutation permutation({seed, epoch, stream}, n);
        Buffer<std::int64_t> out(positions.size());
        {
          nb::gil_scoped_release unlocked;
          headrace::check_positions(span_of(positions), n);
          permutation.apply(span_of(positions), 0, {out.data(), out.size()});
        }
        return to_numpy(std::move(out));
      },
      "seed"_a, "epoch"_a, "stream"_a, "n"_a, "positions"_a,
      "The values of the permutation of [0, n) that seed, epoch and stream select, at some positions.");
  m.def(
      "permute_windows",
      [](std::uint64_t seed, std::int64_t epoch, std::uint64_t window, std::uint64_t n,
         const Positions& positions) { return permute_windows(seed, {&epoch, 1}, window, n, positions); },
      "seed"_a, "epoch"_a, "window"_a, "n"_a, "positions"_a,
      "Permutes each window of [0, n) in itself, with its number as stream; gives the values at some "
      "positions.");
  m.def(
      "permute_windows",
      [](std::uint64_t seed, const Array<std::int64_t>& epochs, std::uint64_t window, std::uint64_t n,
         const Positions& positions) { return permute_windows(seed, span_of(epochs), window, n, positions); },
      "seed"_a, "epoch"_a, "window"_a, "n"_a, "positions"_a);
  m.def(
      "mix_locate",
      [](const Array<std::int32_t>& pattern, const Array<std::int64_t>& rank,
         const Array<std::int64_t>& counts, std::uint64_t seed, std::int64_t epoch, std::int64_t cell,
         std::int64_t n, const Positions& positions) {
        return mix_locate(pattern, rank, counts, seed, {&epoch, 1}, cell, n, positions);
      },
      "pattern"_a, "rank"_a, "counts"_a, "seed"_a, "epoch"_a, "cell"_a, "n"_a, "positions"_a,
      "The plan and the record of each position of a mixture.");
  m.def(
      "mix_locate",
      [](const Array<std::int32_t>& pattern, const Array<std::int64_t>& rank,
         const Array<std::int64_t>& counts, std::uint64_t seed, const Array<std::int64_t>& epochs,
         std::int64_t cell, std::int64_t n, const Positions& positions) {
        return mix_locate(pattern, rank, counts, seed, span_of(epochs), cell, n, positions);
      },
      "pattern"_a, "rank"_a, "counts"_a, "seed"_a, "epoch"_a, "cell"_a, "n"_a, "positions"_a);
  m.def(
      "check_positions",
      [](const Positions& positions, std::uint64_t n) { headrace::check_positions(span_of(positions), n); },
      "positions"_a, "n"_a, nb::call_guard<nb::gil_scoped_release>(),
      "Raises IndexError if a position is outside [0, n).");
}
