#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "bind.h"
#include "file_bytes.h"
#include "hash.h"
#include "line_index.h"
#include "text_reader.h"
#include "token_counter.h"
#include "utf8.h"
#include "vocabulary.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace headrace;

namespace {

using MaybeText = std::optional<std::string>;
using MaybeId = std::optional<std::int32_t>;

Separators separators_of(const MaybeText& text) { return text ? Separators(*text) : Separators(); }

Encoding encoding_of(std::optional<std::size_t> max_length, MaybeId bos, MaybeId eos, const MaybeText& separators) {
  return {separators_of(separators), max_length, bos, eos};
}

// A reader with the NumPy arrays that its spans look into.
struct BoundReader {
  std::vector<nb::object> starts;
  TextReader reader;
};

using Files = std::vector<std::shared_ptr<FileBytes>>;
using Sidecars = std::vector<std::optional<std::shared_ptr<FileBytes>>>;

BoundReader make_reader(const Files& files, std::vector<nb::object> starts, const Sidecars& sidecars) {
  if (files.size() != starts.size() || files.size() != sidecars.size()) {
    throw std::invalid_argument("files, starts and sidecars differ in number");
  }
  std::vector<IndexedFile> indexed;
  for (std::size_t i = 0; i < files.size(); ++i) {
    // Without conversion: the array itself is kept, so it must be the one that is looked into.
    const auto array = nb::cast<Array<std::uint64_t>>(starts[i], false);
    indexed.push_back({files[i], span_of(array), sidecars[i].value_or(nullptr)});
  }
  return {std::move(starts), TextReader(std::move(indexed))};
}

std::shared_ptr<FileBytes> from_memory(const Array<std::uint8_t>& data, const std::string& name) {
  // The array may be let go of by a thread that does not hold the lock.
  std::shared_ptr<void> owner(new Array<std::uint8_t>(data), [](void* array) {
    nb::gil_scoped_acquire lock;
    delete static_cast<Array<std::uint8_t>*>(array);
  });
  return FileBytes::from_memory(data.data(), data.size(), std::move(owner), name);
}

template <class Work>
NewArrays<std::int32_t, std::int64_t> ragged(const Work& work) {
  Buffer<std::int32_t> values;
  Buffer<std::int64_t> offsets;
  {
    nb::gil_scoped_release unlocked;
    work(values, offsets);
  }
  return nb::make_tuple(to_numpy(std::move(values)), to_numpy(std::move(offsets)));
}

template <class Work>
NewArrays<std::uint8_t, std::int64_t> strings(const Work& work) {
  Buffer<std::uint8_t> data;
  Buffer<std::int64_t> offsets;
  {
    nb::gil_scoped_release unlocked;
    work(data, offsets);
  }
  return nb::make_tuple(to_numpy(std::move(data)), to_numpy(std::move(offsets)));
}

void append(std::span<const std::uint8_t> word, Buffer<std::uint8_t>& data, Buffer<std::int64_t>& offsets) {
  std::memcpy(data.room(word.size()), word.data(), word.size());
  data.advance(word.size());
  offsets.push(static_cast<std::int64_t>(data.size()));
}

void bind_files(nb::module_& m) {
  nb::class_<FileBytes>(m, "FileBytes", "The bytes of a file, mapped read-only, or of an array in memory.")
      .def_static("open", &FileBytes::open, "path"_a, nb::call_guard<nb::gil_scoped_release>())
      .def_static("from_descriptor", &FileBytes::from_descriptor, "descriptor"_a, "name"_a,
                  nb::call_guard<nb::gil_scoped_release>())
      .def_static("from_memory", &from_memory, "data"_a, "name"_a)
      .def_prop_ro("name", &FileBytes::name)
      .def_prop_ro("size", [](const FileBytes& f) { return f.identity().size; })
      .def_prop_ro("mtime_ns", [](const FileBytes& f) { return f.identity().mtime_ns; })
      .def_prop_ro("inode", [](const FileBytes& f) { return f.identity().inode; })
      .def("sample", &FileBytes::sample, nb::call_guard<nb::gil_scoped_release>(),
           "A hash of the size and of pieces spread over the bytes.")
      .def(
          "array",
          [](nb::handle_t<FileBytes> self) {
            const auto& file = nb::cast<const FileBytes&>(self);
            static const std::uint8_t nothing = 0;
            const std::uint8_t* data = file.size() > 0 ? file.data() : &nothing;
            return nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(data, {file.size()}, self);
          },
          "The bytes as a read-only array that keeps them mapped. Call check_unchanged before looking at it.")
      .def("check_unchanged", &FileBytes::check_unchanged, nb::call_guard<nb::gil_scoped_release>(),
           "Raises DataChangedError when the file is not what it was when it was opened.")
      .def(
          "index_lines",
          [](const FileBytes& file, const MaybeText& separators,
             unsigned threads) -> NewArrays<std::uint64_t, std::uint32_t> {
            LineIndex index;
            {
              nb::gil_scoped_release unlocked;
              index = build_line_index(file, separators_of(separators), threads);
            }
            return nb::make_tuple(to_numpy(std::move(index.starts)), to_numpy(std::move(index.tokens)));
          },
          "separators"_a = nb::none(), "threads"_a = 0, "(starts uint64, one more than lines; tokens a line uint32).")
      .def("find_invalid_utf8", &find_invalid_utf8, nb::call_guard<nb::gil_scoped_release>(),
           "The offset of the first byte that is not UTF-8, or None.");
}

void bind_reader(nb::module_& m) {
  nb::class_<BoundReader>(m, "TextReader", "The lines of several indexed files as one list of records.")
      .def(
          "__init__",
          [](BoundReader* self, const Files& files, std::vector<nb::object> starts, const Sidecars& sidecars) {
            new (self) BoundReader(make_reader(files, std::move(starts), sidecars));
          },
          "files"_a, "starts"_a, "sidecars"_a)
      .def_prop_ro("records", [](const BoundReader& self) { return self.reader.records(); })
      .def(
          "locate",
          [](const BoundReader& self, std::int64_t record) -> nb::typed<nb::tuple, std::size_t, std::int64_t> {
            const auto [file, line] = self.reader.locate(record);
            return nb::make_tuple(file, line);
          },
          "record"_a, "(number of the file, number of the line in it), both from 0.")
      .def(
          "read",
          [](const BoundReader& self, const Array<std::int64_t>& records) {
            return strings([&](auto& data, auto& offsets) { self.reader.read(span_of(records), data, offsets); });
          },
          "records"_a, "(bytes of the lines, offsets).")
      .def(
          "encode",
          [](const BoundReader& self, const Array<std::int64_t>& records, const Vocabulary& vocabulary,
             std::int32_t unknown, std::optional<std::size_t> max_length, MaybeId bos, MaybeId eos,
             const MaybeText& separators) {
            const Encoding encoding = encoding_of(max_length, bos, eos, separators);
            return ragged([&](auto& ids, auto& offsets) {
              self.reader.encode(span_of(records), vocabulary, encoding, unknown, ids, offsets);
            });
          },
          "records"_a, "vocabulary"_a, "unknown"_a, "max_length"_a = nb::none(), "bos"_a = nb::none(),
          "eos"_a = nb::none(), "separators"_a = nb::none(), "(ids of the lines' tokens, offsets).");
}

void bind_vocabulary(nb::module_& m) {
  nb::class_<Vocabulary>(m, "Vocabulary", "Words to ids and back.")
      .def_static(
          "from_file",
          [](const FileBytes& file) { return std::const_pointer_cast<Vocabulary>(Vocabulary::from_file(file)); },
          "file"_a, nb::call_guard<nb::gil_scoped_release>())
      .def_static(
          "from_words",
          [](const Array<std::uint8_t>& data, const Array<std::int64_t>& offsets, const std::string& name) {
            return std::const_pointer_cast<Vocabulary>(Vocabulary::from_words(span_of(data), span_of(offsets), name));
          },
          "data"_a, "offsets"_a, "name"_a)
      .def("__len__", &Vocabulary::size)
      .def(
          "find",
          [](const Vocabulary& self, const nb::bytes& word) {
            return self.find({reinterpret_cast<const std::uint8_t*>(word.c_str()), word.size()});
          },
          "word"_a, "The id, or -1.")
      .def(
          "words",
          [](const Vocabulary& self) {
            return strings([&](auto& data, auto& offsets) {
              offsets.push(0);
              data.reserve(self.bytes());
              for (std::size_t i = 0; i < self.size(); ++i) append(self.word(i), data, offsets);
            });
          },
          "(bytes of all words, offsets).")
      .def(
          "encode",
          [](const Vocabulary& self, const Array<std::uint8_t>& data, const Array<std::int64_t>& offsets,
             std::int32_t unknown, std::optional<std::size_t> max_length, MaybeId bos, MaybeId eos,
             const MaybeText& separators) {
            const Encoding encoding = encoding_of(max_length, bos, eos, separators);
            return ragged([&](auto& ids, auto& out) {
              encode_texts(self, span_of(data), span_of(offsets), encoding, unknown, ids, out);
            });
          },
          "data"_a, "offsets"_a, "unknown"_a, "max_length"_a = nb::none(), "bos"_a = nb::none(), "eos"_a = nb::none(),
          "separators"_a = nb::none(), "(ids of the texts' tokens, offsets).")
      .def(
          "decode",
          [](const Vocabulary& self, const Array<std::int64_t>& ids, const Array<std::int64_t>& offsets,
             std::int32_t unknown, std::optional<std::int64_t> eos) {
            if (unknown < 0 || static_cast<std::size_t>(unknown) >= self.size()) {
              throw std::out_of_range("the id of the unknown word is outside the vocabulary");
            }
            return strings(
                [&](auto& text, auto& out) { decode(self, span_of(ids), span_of(offsets), unknown, eos, text, out); });
          },
          "ids"_a, "offsets"_a, "unknown"_a, "eos"_a = nb::none(), "(words joined by blanks, offsets).");

  nb::class_<TokenCounter>(m, "TokenCounter", "Counts the tokens of files.")
      .def(nb::init<>())
      .def(
          "count",
          [](TokenCounter& self, const FileBytes& file, const MaybeText& separators, unsigned threads) {
            self.count(file, separators_of(separators), threads);
          },
          "file"_a, "separators"_a = nb::none(), "threads"_a = 0, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "ranked",
          [](const TokenCounter& self, std::int64_t min_count) -> NewArrays<std::uint8_t, std::int64_t, std::int64_t> {
            Buffer<std::uint8_t> data;
            Buffer<std::int64_t> offsets, counts;
            {
              nb::gil_scoped_release unlocked;
              offsets.push(0);
              for (const std::size_t i : self.ranked(min_count)) {
                append(self.token(i), data, offsets);
                counts.push(self.occurrences(i));
              }
            }
            return nb::make_tuple(to_numpy(std::move(data)), to_numpy(std::move(offsets)), to_numpy(std::move(counts)));
          },
          "min_count"_a = 1, "(bytes of the tokens, offsets, counts), the most frequent first.");
}

}  // namespace

void bind_text(nb::module_& m) {
  bind_files(m);
  bind_vocabulary(m);
  bind_reader(m);
  m.def(
      "hash64",
      [](const Array<std::uint8_t>& data) {
        nb::gil_scoped_release unlocked;
        return hash_bytes(data.data(), data.size());
      },
      "data"_a, "A fast 64-bit hash, for checksums.");
}
