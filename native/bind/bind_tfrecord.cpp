#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "crc32c.h"
#include "tfrecord.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace headrace;

namespace {

// Of a fault: its kind ("" if there is none), where it is, what is wrong.
using Fault = nb::typed<nb::tuple, std::string, std::uint64_t, std::string>;
using Lost = nb::typed<nb::list, nb::typed<nb::tuple, std::uint64_t, std::uint64_t, std::string>>;

Fault fault_tuple(const RecordFault& fault) {
  std::string kind;
  if (fault) {
    const bool cut = fault.kind == RecordFaultKind::kCutData || fault.kind == RecordFaultKind::kCutHeader;
    kind = cut ? "truncated" : "corrupted";
    if (fault.kind == RecordFaultKind::kCutHeader) kind = "stray";
  }
  return nb::make_tuple(kind, fault.place(), fault.text());
}

std::span<const std::uint8_t> span_of_bytes(const nb::bytes& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.c_str()), bytes.size()};
}

// A reader with the NumPy arrays that its spans look into.
struct BoundRecords {
  std::vector<nb::object> tables;
  RecordReader reader;
};

using Files = std::vector<std::shared_ptr<FileBytes>>;
using Sidecars = std::vector<std::optional<std::shared_ptr<FileBytes>>>;

BoundRecords make_records(const Files& files, const std::vector<nb::object>& offsets,
                          const std::vector<nb::object>& lengths, const Sidecars& sidecars) {
  if (files.size() != offsets.size() || files.size() != lengths.size() || files.size() != sidecars.size()) {
    throw std::invalid_argument("files, offsets, lengths and sidecars differ in number");
  }
  std::vector<RecordFile> indexed;
  std::vector<nb::object> tables;
  for (std::size_t i = 0; i < files.size(); ++i) {
    // Without conversion: the arrays themselves are kept, so they must be those that are looked into.
    const auto own_offsets = nb::cast<Array<std::uint64_t>>(offsets[i], false);
    const auto own_lengths = nb::cast<Array<std::uint64_t>>(lengths[i], false);
    indexed.push_back({files[i], span_of(own_offsets), span_of(own_lengths), sidecars[i].value_or(nullptr)});
    tables.push_back(offsets[i]);
    tables.push_back(lengths[i]);
  }
  return {std::move(tables), RecordReader(std::move(indexed))};
}

}  // namespace

void bind_tfrecord(nb::module_& m) {
  m.def(
      "crc32c", [](const nb::bytes& data) { return crc32c(span_of_bytes(data).data(), data.size()); }, "data"_a,
      "CRC-32C of bytes, not masked.");
  m.def(
      "is_record_header",
      [](const nb::bytes& data) {
        return data.size() >= kRecordHeader && is_record_header(span_of_bytes(data).data());
      },
      "data"_a, "Whether bytes begin as a TFRecord file does.");
  m.def(
      "frame_records",
      [](const Array<std::uint8_t>& data, const Array<std::int64_t>& offsets) -> NewArray<std::uint8_t> {
        const auto bounds = span_of(offsets);
        if (bounds.empty() || bounds.front() != 0 || bounds.back() != static_cast<std::int64_t>(data.size()) ||
            !std::is_sorted(bounds.begin(), bounds.end())) {
          throw std::invalid_argument("the offsets don't fit the data");
        }
        Buffer<std::uint8_t> out;
        {
          nb::gil_scoped_release unlocked;
          out.reserve(data.size() + kRecordFrame * (bounds.size() - 1));
          for (std::size_t i = 1; i < bounds.size(); ++i) {
            const auto begin = static_cast<std::size_t>(bounds[i - 1]);
            frame_record({data.data() + begin, static_cast<std::size_t>(bounds[i]) - begin}, out);
          }
        }
        return nb::cast<NewArray<std::uint8_t>>(to_numpy(std::move(out)));
      },
      "data"_a, "offsets"_a, "Records as a TFRecord file holds them.");
  m.def(
      "index_records",
      [](const FileBytes& file,
         bool recover) -> nb::typed<nb::tuple, NewArray<std::uint64_t>, NewArray<std::uint64_t>, Fault, Lost> {
        RecordIndex index;
        {
          nb::gil_scoped_release unlocked;
          index = recover ? recover_records(file) : index_records(file);
        }
        nb::list lost;
        for (const auto& part : index.lost) lost.append(nb::make_tuple(part.begin, part.end, part.fault.text()));
        return nb::make_tuple(to_numpy(std::move(index.offsets)), to_numpy(std::move(index.lengths)),
                              fault_tuple(index.fault), lost);
      },
      "file"_a, "recover"_a = false,
      "(offsets of records, lengths of their data, fault (kind, offset, text), lost [(begin, end, text)]).");
  m.def(
      "recover_after",
      [](const Array<std::uint8_t>& piece, std::uint64_t start, std::uint64_t end, bool last,
         std::uint64_t longest) -> nb::typed<nb::tuple, bool, std::uint64_t, std::uint64_t> {
        Recovery next;
        {
          nb::gil_scoped_release unlocked;
          std::uint64_t vain = 16 * std::uint64_t{piece.size()};
          next = recover_after(span_of(piece), start, end, last, longest, vain);
        }
        return nb::make_tuple(next.found, next.at, next.wanted);
      },
      "piece"_a, "start"_a, "end"_a, "last"_a, "longest"_a,
      "(whether the next record was found, where it or what is needed of the piece begins, bytes of it needed).");
  m.def(
      "scan_records",
      [](const nb::object& piece, std::uint64_t base, bool last, bool verify, std::uint64_t longest)
          -> nb::typed<nb::tuple, NewArray<std::int64_t>, NewArray<std::int64_t>, Fault, std::uint64_t> {
        const auto bytes = nb::cast<Array<std::uint8_t>>(piece);
        RecordScan scan;
        {
          nb::gil_scoped_release unlocked;
          scan = scan_records(span_of(bytes), base, last, verify, longest);
        }
        return nb::make_tuple(to_numpy(std::move(scan.offsets)), to_numpy(std::move(scan.lengths)),
                              fault_tuple(scan.fault), scan.wanted);
      },
      nb::sig("def scan_records(piece: numpy.typing.NDArray[numpy.uint8], base: int, last: bool, verify: bool, "
              "longest: int) -> tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64], "
              "tuple[str, int, str], int]"),
      "piece"_a, "base"_a, "last"_a, "verify"_a, "longest"_a,
      "(offsets of the records' data in the piece and, last, where what is not whole begins; lengths; fault; bytes "
      "that "
      "the record there needs).");
  nb::class_<BoundRecords>(m, "RecordReader", "The records of several indexed TFRecord files as one list.")
      .def(
          "__init__",
          [](BoundRecords* self, const Files& files, const std::vector<nb::object>& offsets,
             const std::vector<nb::object>& lengths,
             const Sidecars& sidecars) { new (self) BoundRecords(make_records(files, offsets, lengths, sidecars)); },
          "files"_a, "offsets"_a, "lengths"_a, "sidecars"_a)
      .def_prop_ro("records", [](const BoundRecords& self) { return self.reader.records(); })
      .def(
          "locate",
          [](const BoundRecords& self, std::int64_t record) -> nb::typed<nb::tuple, std::size_t, std::int64_t> {
            const auto [file, row] = self.reader.locate(record);
            return nb::make_tuple(file, row);
          },
          "record"_a, "(number of the file, number of the record in it), both from 0.")
      .def(
          "read",
          [](const BoundRecords& self, const Array<std::int64_t>& records,
             bool verify) -> NewArrays<std::uint8_t, std::int64_t> {
            Buffer<std::uint8_t> data;
            Buffer<std::int64_t> offsets;
            {
              nb::gil_scoped_release unlocked;
              self.reader.read(span_of(records), verify, data, offsets);
            }
            return nb::make_tuple(to_numpy(std::move(data)), to_numpy(std::move(offsets)));
          },
          "records"_a, "verify"_a = true, "(bytes of the records, offsets).");
}
