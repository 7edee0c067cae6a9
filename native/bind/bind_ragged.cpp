#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "ragged.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace headrace;

namespace {

nb::object numpy() { return nb::module_::import_("numpy"); }

// The bytes of an array of any type that is plain memory: NumPy types that the exchange protocols do not know
// (dates, records, bfloat16) pass as well.
Array<std::uint8_t> bytes_of(const nb::object& array, const char* name) {
  if (nb::cast<bool>(array.attr("dtype").attr("hasobject"))) {
    throw nb::type_error((std::string(name) + " holds Python objects: expected numbers or other plain data").c_str());
  }
  if (!nb::cast<bool>(array.attr("flags").attr("c_contiguous"))) {
    throw std::invalid_argument(std::string(name) +
                                " is not C-contiguous: rows must lie one after the other; use "
                                "numpy.ascontiguousarray");
  }
  return nb::cast<Array<std::uint8_t>>(array.attr("reshape")(-1).attr("view")("u1"));
}

using Shape = std::vector<std::size_t>;

Shape shape_of(const nb::object& array) { return nb::cast<Shape>(array.attr("shape")); }

// Bytes of what one index along the first dimension selects.
std::size_t item_bytes_of(const nb::object& array) {
  auto bytes = nb::cast<std::size_t>(array.attr("itemsize"));
  const Shape shape = shape_of(array);
  for (std::size_t i = 1; i < shape.size(); ++i) bytes *= shape[i];
  return bytes;
}

// `leading` in place of the first dimension of `array`.
Shape with_leading(Shape leading, const nb::object& array) {
  const Shape shape = shape_of(array);
  if (!shape.empty()) leading.insert(leading.end(), shape.begin() + 1, shape.end());
  return leading;
}

nb::object empty(const Shape& leading, const nb::object& like) {
  return numpy().attr("empty")(with_leading(leading, like), "dtype"_a = like.attr("dtype"));
}

std::uint8_t* data_of(const nb::object& fresh) {
  return nb::cast<nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(
             fresh.attr("reshape")(-1).attr("view")("u1"))
      .data();
}

nb::object pad(const nb::object& values, const Array<std::int64_t>& offsets, std::int64_t width,
               const nb::object& value, bool left) {
  if (width < 0) throw std::invalid_argument("width must not be negative, got " + std::to_string(width));
  const Array<std::uint8_t> bytes = bytes_of(values, "values");
  const RaggedView view{span_of(bytes), span_of(offsets), item_bytes_of(values)};
  check_offsets(view);
  // One item of padding: the value, in the type of the values, in every place of an item.
  const nb::object fill = numpy().attr("full")(with_leading({1}, values), value, "dtype"_a = values.attr("dtype"));
  const Array<std::uint8_t> fill_bytes = bytes_of(fill, "value");
  nb::object out = empty({view.rows(), static_cast<std::size_t>(width)}, values);
  std::uint8_t* to = data_of(out);
  nb::gil_scoped_release unlocked;
  pad_rows(view, width, left ? Side::kLeft : Side::kRight, fill_bytes.data(), to);
  return out;
}

nb::object gather(const nb::object& matrix, const Array<std::int64_t>& index) {
  const Shape shape = shape_of(matrix);
  if (shape.empty()) throw std::invalid_argument("expected an array of at least one dimension");
  const Array<std::uint8_t> bytes = bytes_of(matrix, "array");
  nb::object out = empty({index.size()}, matrix);
  std::uint8_t* to = data_of(out);
  const std::size_t rows = shape[0];
  const std::size_t row_bytes = item_bytes_of(matrix);
  nb::gil_scoped_release unlocked;
  gather_rows(bytes.data(), rows, row_bytes, span_of(index), to);
  return out;
}

nb::tuple gather_of_ragged(const nb::object& values, const Array<std::int64_t>& offsets,
                           const Array<std::int64_t>& index) {
  const Array<std::uint8_t> bytes = bytes_of(values, "values");
  const RaggedView view{span_of(bytes), span_of(offsets), item_bytes_of(values)};
  Buffer<std::uint8_t> taken;
  Buffer<std::int64_t> taken_offsets;
  {
    nb::gil_scoped_release unlocked;
    gather_ragged(view, span_of(index), taken, taken_offsets);
  }
  const auto items = static_cast<std::size_t>(taken_offsets[index.size()]);
  nb::object shaped;
  if (view.item_bytes == 0 || items == 0) {
    shaped = empty({items}, values);
  } else {
    shaped =
        to_numpy(std::move(taken)).attr("view")(values.attr("dtype")).attr("reshape")(with_leading({items}, values));
  }
  return nb::make_tuple(shaped, to_numpy(std::move(taken_offsets)));
}

}  // namespace

// The arrays go through as plain objects (see bytes_of), so their types are spelled out for the stub.
#define HEADRACE_ARRAY "numpy.typing.NDArray[typing.Any]"
#define HEADRACE_INT64 "numpy.typing.NDArray[numpy.int64]"

void bind_ragged(nb::module_& m) {
  m.def("pad_ragged", &pad, "values"_a, "offsets"_a, "width"_a, "value"_a = 0, "left"_a = false,
        nb::sig("def pad_ragged(values: " HEADRACE_ARRAY ", offsets: " HEADRACE_INT64
                ", width: int, value: object = 0, left: bool = False) -> " HEADRACE_ARRAY),
        "Rows of unequal length as one dense array: rows x width x the shape of an item.");
  m.def("gather_rows", &gather, "array"_a, "index"_a,
        nb::sig("def gather_rows(array: " HEADRACE_ARRAY ", index: " HEADRACE_INT64 ") -> " HEADRACE_ARRAY),
        "array[index] for a C-contiguous array of any type.");
  m.def("gather_ragged", &gather_of_ragged, "values"_a, "offsets"_a, "index"_a,
        nb::sig("def gather_ragged(values: " HEADRACE_ARRAY ", offsets: " HEADRACE_INT64 ", index: " HEADRACE_INT64
                ") -> tuple[" HEADRACE_ARRAY ", " HEADRACE_INT64 "]"),
        "(values, offsets) of the rows `index`.");
}
