#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "example.h"
#include "example_encode.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace headrace;

namespace {

// key, kind, in lists, count, multiple, required, default (None, int64, float32, or (bytes, ends)), in words
using Wanted = std::tuple<nb::bytes, int, bool, std::int64_t, std::int64_t, bool, nb::object, std::string>;

template <class T>
void fill(const nb::handle& array, Buffer<T>& buffer) {
  const auto values = nb::cast<Array<T>>(array);
  for (const T value : span_of(values)) buffer.push(value);
}

ExampleKind kind_of(int kind) {
  if (kind < 1 || kind > 3) throw std::invalid_argument("a kind is 1 (bytes), 2 (float) or 3 (int64)");
  return static_cast<ExampleKind>(kind);
}

WantedFeature wanted_of(const Wanted& from) {
  const auto& [key, kind, list, count, multiple, required, fallback, described] = from;
  WantedFeature wanted;
  wanted.key.assign(key.c_str(), key.size());
  wanted.kind = kind_of(kind);
  wanted.list = list;
  wanted.count = count;
  wanted.multiple = multiple;
  wanted.required = required;
  wanted.described = described;
  if (!fallback.is_none()) {
    if (wanted.kind == ExampleKind::kInt64) {
      fill(fallback, wanted.fallback.ints);
    } else if (wanted.kind == ExampleKind::kFloat) {
      fill(fallback, wanted.fallback.floats);
    } else {
      const auto pair = nb::cast<nb::tuple>(fallback);
      fill(pair[0], wanted.fallback.bytes);
      fill(pair[1], wanted.fallback.items);
    }
    if (static_cast<std::int64_t>(wanted.fallback.size(wanted.kind)) != count) {
      throw std::invalid_argument("a default has another number of values than the feature");
    }
  }
  return wanted;
}

nb::tuple column_tuple(ExampleKind kind, ExampleColumn&& column) {
  ExampleValues& values = column.values;
  nb::object first, items = nb::none();
  if (kind == ExampleKind::kInt64) {
    first = to_numpy(std::move(values.ints));
  } else if (kind == ExampleKind::kFloat) {
    first = to_numpy(std::move(values.floats));
  } else {
    first = to_numpy(std::move(values.bytes));
    items = to_numpy(std::move(values.items));
  }
  return nb::make_tuple(first, items, to_numpy(std::move(column.offsets)), to_numpy(std::move(column.steps)));
}

// A text with keys in it, whose bytes may be anything.
nb::object text_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

using Input = std::tuple<nb::bytes, int, bool, nb::object, nb::object, nb::object, nb::object>;

}  // namespace

#define HEADRACE_ANY "numpy.typing.NDArray[typing.Any]"
#define HEADRACE_U8 "numpy.typing.NDArray[numpy.uint8]"
#define HEADRACE_I64 "numpy.typing.NDArray[numpy.int64]"

void bind_example(nb::module_& m) {
  nb::class_<ExampleParser>(m, "ExampleParser", "Takes features out of Examples and SequenceExamples.")
      .def(
          "__init__",
          [](ExampleParser* self, const std::vector<Wanted>& features) {
            std::vector<WantedFeature> wanted;
            for (const auto& feature : features) wanted.push_back(wanted_of(feature));
            new (self) ExampleParser(std::move(wanted));
          },
          nb::sig("def __init__(self, features: collections.abc.Sequence[tuple[bytes, int, bool, int, int, bool, "
                  "object, str]]) -> None"),
          "features"_a)
      .def(
          "parse",
          [](const ExampleParser& self, const Array<std::uint8_t>& data, const Array<std::int64_t>& offsets) {
            std::vector<ExampleColumn> columns;
            ExampleFault fault;
            {
              nb::gil_scoped_release unlocked;
              fault = self.parse(span_of(data), span_of(offsets), columns);
            }
            nb::list found;
            if (fault.row < 0) {
              for (std::size_t i = 0; i < columns.size(); ++i) {
                found.append(column_tuple(self.wanted()[i].kind, std::move(columns[i])));
              }
            }
            return nb::make_tuple(found, fault.row, text_of(fault.text));
          },
          nb::sig("def parse(self, data: " HEADRACE_U8 ", offsets: " HEADRACE_I64 ") -> tuple[list[tuple[" HEADRACE_ANY
                  ", " HEADRACE_I64 " | None, " HEADRACE_I64 ", " HEADRACE_I64 "]], int, str]"),
          "data"_a, "offsets"_a,
          "([(values, ends of strings or None, offsets, steps)], row with a fault or -1, what is wrong).");
  m.def(
      "survey_examples",
      [](const Array<std::uint8_t>& data, const Array<std::int64_t>& offsets) {
        std::vector<SeenFeature> seen;
        ExampleFault fault;
        {
          nb::gil_scoped_release unlocked;
          fault = survey_examples(span_of(data), span_of(offsets), seen);
        }
        nb::list found;
        for (const auto& f : seen) {
          nb::list kinds;
          for (int kind = 0; kind < 4; ++kind) {
            if (f.kinds[kind]) kinds.append(kind);
          }
          found.append(
              nb::make_tuple(nb::bytes(f.key.data(), f.key.size()), f.list, kinds, f.messages, f.least, f.most));
        }
        return nb::make_tuple(found, fault.row, text_of(fault.text));
      },
      nb::sig("def survey_examples(data: " HEADRACE_U8 ", offsets: " HEADRACE_I64
              ") -> tuple[list[tuple[bytes, bool, list[int], int, int, int]], int, str]"),
      "data"_a, "offsets"_a,
      "([(key, in lists, kinds, messages with it, least and most values)], row with a fault or -1, what is wrong).");
  m.def(
      "encode_examples",
      [](std::size_t count, const std::vector<Input>& columns) -> NewArrays<std::uint8_t, std::int64_t> {
        std::vector<ExampleInput> inputs;
        std::vector<nb::object> kept;  // arrays that the spans look into
        const auto look = [&]<class T>(const nb::object& object, std::span<const T>& span) {
          const auto array = nb::cast<Array<T>>(object, false);
          span = span_of(array);
          kept.push_back(object);
        };
        for (const auto& [key, kind, list, values, items, offsets, steps] : columns) {
          ExampleInput input;
          input.key.assign(key.c_str(), key.size());
          input.kind = kind_of(kind);
          input.list = list;
          if (input.kind == ExampleKind::kInt64) look(values, input.ints);
          if (input.kind == ExampleKind::kFloat) look(values, input.floats);
          if (input.kind == ExampleKind::kBytes) {
            look(values, input.bytes);
            look(items, input.items);
          }
          look(offsets, input.offsets);
          if (list) look(steps, input.steps);
          inputs.push_back(std::move(input));
        }
        Buffer<std::uint8_t> data;
        Buffer<std::int64_t> offsets;
        {
          nb::gil_scoped_release unlocked;
          encode_examples(count, inputs, data, offsets);
        }
        return nb::make_tuple(to_numpy(std::move(data)), to_numpy(std::move(offsets)));
      },
      nb::sig("def encode_examples(count: int, columns: collections.abc.Sequence[tuple[bytes, int, bool, " HEADRACE_ANY
              ", " HEADRACE_I64 " | None, " HEADRACE_I64 ", " HEADRACE_I64 " | None]]) -> tuple[" HEADRACE_U8
              ", " HEADRACE_I64 "]"),
      "count"_a, "columns"_a,
      "(bytes of messages, offsets) of columns (key, kind, in lists, values, offsets of strings, offsets, steps).");
}
