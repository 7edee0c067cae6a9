#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "ctf_writer.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace headrace;

namespace {

using AnyNumbers = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Int32 = Array<std::int32_t>;
using Int64 = Array<std::int64_t>;
using Column = std::tuple<std::string, AnyNumbers, std::uint64_t, Int64, std::optional<std::tuple<Int32, Int64>>>;

template <class T>
std::span<const T> typed(const AnyNumbers& values) {
  return {static_cast<const T*>(values.data()), values.size()};
}

CtfColumn::Values values_of(const AnyNumbers& values) {
  if (values.dtype() == nb::dtype<float>()) return typed<float>(values);
  if (values.dtype() == nb::dtype<double>()) return typed<double>(values);
  if (values.dtype() == nb::dtype<std::int64_t>()) return typed<std::int64_t>(values);
  if (values.dtype() == nb::dtype<std::uint64_t>()) return typed<std::uint64_t>(values);
  throw nb::type_error("expected values of float32, float64, int64 or uint64");
}

NewArray<std::uint8_t> lines_of(const std::vector<Column>& columns, const std::optional<Array<std::uint64_t>>& ids,
                                std::size_t begin, std::size_t end, std::uint64_t first) {
  std::vector<CtfColumn> described;
  for (const auto& [alias, values, dim, offsets, sparse] : columns) {
    CtfColumn column{alias, values_of(values), dim, span_of(offsets), sparse.has_value(), {}, {}};
    if (sparse) {
      column.indices = span_of(std::get<0>(*sparse));
      column.entries = span_of(std::get<1>(*sparse));
    }
    described.push_back(std::move(column));
  }
  Buffer<std::uint8_t> out;
  {
    nb::gil_scoped_release unlocked;
    write_ctf(described, ids ? span_of(*ids) : std::span<const std::uint64_t>(), begin, end, first, out);
  }
  return nb::cast<NewArray<std::uint8_t>>(to_numpy(std::move(out)));
}

}  // namespace

void bind_ctf_writer(nb::module_& m) {
  m.def("ctf_lines", &lines_of, "columns"_a, "ids"_a.none(), "begin"_a, "end"_a, "first"_a,
        nb::sig("def ctf_lines(columns: list[tuple[str, numpy.typing.NDArray[typing.Any], int, "
                "numpy.typing.NDArray[numpy.int64], tuple[numpy.typing.NDArray[numpy.int32], "
                "numpy.typing.NDArray[numpy.int64]] | None]], ids: numpy.typing.NDArray[numpy.uint64] | None, "
                "begin: int, end: int, first: int) -> numpy.typing.NDArray[numpy.uint8]"),
        "Rows [begin, end) as lines of CNTK's text format, of columns (alias, values, dim, offsets, (indices, entries) "
        "of sparse ones); row 0 is called `first` in messages.");
}
