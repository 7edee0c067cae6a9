#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "ctf_reader.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace headrace;

namespace {

using Streams = std::vector<std::tuple<std::string, bool, std::uint64_t>>;

// A reader with the NumPy arrays that its spans look into.
struct BoundCtfReader {
  nb::object begins, ends, keys;
  CtfReader reader;
  bool wide;  // values are double
};

// The mistakes of one call, and the reader that can tell about them.
struct CtfProblems {
  nb::object owner;
  const CtfReader& reader;
  std::vector<CtfFault> faults;

  const CtfFault& at(std::size_t i) const {
    if (i >= faults.size()) throw std::out_of_range("there are " + std::to_string(faults.size()) + " problems");
    return faults[i];
  }
};

// Without conversion: the array itself is kept, so it must be the one that is looked into.
std::span<const std::uint64_t> table(const nb::object& array) {
  return span_of(nb::cast<Array<std::uint64_t>>(array, false));
}

CtfSchema schema_of(const Streams& streams, int main, bool require_all) {
  CtfSchema schema{{}, main, require_all};
  for (const auto& [alias, sparse, dim] : streams) schema.streams.push_back({alias, sparse, dim});
  return schema;
}

template <class T>
nb::object samples_to_numpy(Buffer<T>&& buffer, std::size_t dim) {
  const std::size_t samples = buffer.size() / dim;
  return to_numpy(std::move(buffer)).attr("reshape")(samples, dim);
}

template <class T>
nb::tuple parse(const nb::object& self, const Array<std::int64_t>& records) {
  const CtfReader& reader = nb::cast<const BoundCtfReader&>(self).reader;
  CtfBatch<T> batch;
  Buffer<std::int64_t> rows;
  std::vector<std::tuple<std::string, std::uint64_t, std::string>> warnings;
  {
    nb::gil_scoped_release unlocked;
    reader.parse(span_of(records), batch);
    for (const CtfFault& fault : batch.faults) rows.push(fault.row);
    for (int i = 0; i < kCtfNotes; ++i) {
      const auto kind = static_cast<CtfNoteKind>(i);
      const CtfNote& note = batch.notes[i];
      if (note.count > 0) warnings.emplace_back(name_of(kind), note.count, reader.explain(kind, note));
    }
    if (!batch.any_dropped) batch.dropped.resize(0);
  }
  nb::list columns;
  for (std::size_t i = 0; i < batch.columns.size(); ++i) {
    CtfColumn<T>& column = batch.columns[i];
    const CtfStream& stream = reader.schema().streams[i];
    if (stream.sparse) {
      columns.append(nb::make_tuple(to_numpy(std::move(column.values)), to_numpy(std::move(column.indices)),
                                    to_numpy(std::move(column.entry_offsets)), to_numpy(std::move(column.offsets))));
    } else {
      const nb::object values = to_numpy(std::move(column.values)).attr("reshape")(column.samples, stream.dim);
      columns.append(nb::make_tuple(values, to_numpy(std::move(column.offsets))));
    }
  }
  const nb::object problems = nb::cast(CtfProblems{self, reader, std::move(batch.faults)});
  return nb::make_tuple(columns, to_numpy(std::move(batch.dropped)).attr("view")("?"), to_numpy(std::move(rows)),
                        problems, warnings);
}

}  // namespace

#define HEADRACE_ARRAY(type) "numpy.typing.NDArray[" type "]"

void bind_ctf_reader(nb::module_& m) {
  nb::class_<CtfProblems>(m, "CtfProblems", "The mistakes that one call of CtfReader.parse found.")
      .def("__len__", [](const CtfProblems& self) { return self.faults.size(); })
      .def(
          "times",
          [](const CtfProblems& self) -> nb::typed<nb::object, NewArray<std::int64_t>> {
            Buffer<std::int64_t> times;
            for (const CtfFault& fault : self.faults) times.push(fault.times);
            return to_numpy(std::move(times));
          },
          "How many mistakes each stands for: of many alike in a row, only the first are kept.")
      .def(
          "explain",
          [](const CtfProblems& self, std::size_t i) {
            const CtfFault& fault = self.at(i);
            nb::gil_scoped_release unlocked;
            return self.reader.explain(fault);
          },
          "i"_a, "What was expected, what came, where, and what to do.")
      .def(
          "place",
          [](const CtfProblems& self, std::size_t i)
              -> nb::typed<nb::tuple, std::int64_t, int, std::uint64_t, std::uint64_t, std::uint64_t, std::string> {
            const CtfFault& fault = self.at(i);
            CtfPlace place{};
            {
              nb::gil_scoped_release unlocked;
              place = self.reader.place(fault);
            }
            return nb::make_tuple(fault.row, fault.stream, place.offset, place.line, place.column, name_of(fault.kind));
          },
          "i"_a, "(row, number of the stream or -1, byte, line and column from 1, kind).");

  nb::class_<BoundCtfReader>(m, "CtfReader", "The sequences of an indexed file in CNTK's text format.")
      .def(
          "__init__",
          [](BoundCtfReader* self, const std::shared_ptr<FileBytes>& file, const nb::object& begins,
             const nb::object& ends, bool ids, const nb::object& keys, std::uint64_t first_line, const Streams& streams,
             int main, bool wide, bool require_all) {
            const CtfTables tables{table(begins), table(ends), table(keys), first_line, ids};
            new (self) BoundCtfReader{begins, ends, keys,
                                      CtfReader(file, tables, schema_of(streams, main, require_all)), wide};
          },
          "file"_a, "begins"_a, "ends"_a, "ids"_a, "keys"_a, "first_line"_a, "streams"_a, "main"_a, "double"_a,
          "require_all"_a,
          nb::sig(
              "def __init__(self, file: FileBytes, begins: " HEADRACE_ARRAY("numpy.uint64") ", ends: " HEADRACE_ARRAY(
                  "numpy.uint64") ", ids: bool, keys: " HEADRACE_ARRAY("numpy.uint64") ", first_line: int, streams: "
                                                                                       "Sequence[tuple[str, bool, "
                                                                                       "int]], main: int, double: "
                                                                                       "bool, "
                                                                                       "require_all: bool) -> None"),
          "Streams are (name in the file, sparse, dim); `main` is the number of the one that defines sizes, or -1.")
      .def_prop_ro("records", [](const BoundCtfReader& self) { return self.reader.records(); })
      .def(
          "parse",
          [](const nb::object& self, const Array<std::int64_t>& records) {
            return nb::cast<const BoundCtfReader&>(self).wide ? parse<double>(self, records)
                                                              : parse<float>(self, records);
          },
          "records"_a,
          nb::sig("def parse(self, records: " HEADRACE_ARRAY("numpy.int64") ") -> tuple[list[tuple[" HEADRACE_ARRAY(
              "typing.Any") ", ...]], " HEADRACE_ARRAY("numpy.bool_") ", " HEADRACE_ARRAY("numpy.int64") ", "
                                                                                                         "CtfProblems, "
                                                                                                         "list[tuple["
                                                                                                         "str, int, "
                                                                                                         "str]]]"),
          "(columns, rows to leave out or none, the row of each problem, problems, (kind, count, message of the first) "
          "of warnings). A dense column is (values, offsets), a sparse one (values, indices, entry offsets, offsets).");
}
