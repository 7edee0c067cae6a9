// A text in CNTK's format, indexed and ready to be read, and what the plain model makes of it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctf_index.h"
#include "ctf_model.h"
#include "ctf_reader.h"
#include "text_model.h"

namespace headrace::test {

struct Opened {
  Opened(const std::string& text, CtfSchema schema, bool skip_ids = false)
      : file(in_memory(text, "t.ctf")),
        index(build_ctf_index(
            *file, {skip_ids, schema.main < 0 ? "" : schema.streams[static_cast<std::size_t>(schema.main)].alias}, 1)),
        reader(file,
               {{index.begins.data(), index.begins.size()},
                {index.ends.data(), index.ends.size()},
                {index.keys.data(), index.keys.size()},
                index.first_line,
                index.ids},
               std::move(schema)) {}

  template <class T = float>
  CtfBatch<T> all() const {
    std::vector<std::int64_t> records;
    for (std::int64_t i = 0; i < reader.records(); ++i) records.push_back(i);
    CtfBatch<T> batch;
    reader.parse(std::span<const std::int64_t>(records), batch);
    return batch;
  }

  // Whether all records are as the model says: samples, mistakes and notes. With and without vector instructions.
  template <class T>
  bool as_model() const {
    CtfBatch<T> plain;
    CtfParser<T> parser(reader.schema(), plain, nullptr);
    parser.look_at(file->data(), 0, file->size());
    for (std::size_t i = 0; i < index.sequences(); ++i) {
      parser.add(static_cast<std::int64_t>(i), index.begins[i], end_of(i));
    }
    return as_model(plain) && as_model(all<T>());
  }

  template <class T>
  bool as_model(const CtfBatch<T>& batch) const {
    const std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
    std::vector<std::pair<CtfFaultKind, std::uint64_t>> wanted, got;
    std::size_t times = 0;
    for (const CtfFault& fault : batch.faults) {
      got.emplace_back(fault.kind, fault.offset);
      times += static_cast<std::size_t>(fault.times);
    }
    std::uint64_t notes[kCtfNotes] = {};
    for (std::size_t i = 0; i < index.sequences(); ++i) {
      const std::uint64_t begin = index.begins[i], end = end_of(i);
      const auto model =
          CtfModel<T>(text.substr(begin, end - begin), begin, end == file->size(), reader.schema()).take();
      if (!agrees(batch, i, model, reader.schema())) return false;
      wanted.insert(wanted.end(), model.faults.begin(), model.faults.end());
      for (int k = 0; k < kCtfNotes; ++k) notes[k] += model.notes[k];
    }
    for (int k = 0; k < kCtfNotes; ++k) {
      if (notes[k] != batch.notes[k].count) return false;
    }
    if (times != wanted.size()) return false;
    // Those that were kept, among all, in order.
    std::size_t next = 0;
    for (std::size_t i = 0; i < wanted.size() && next < got.size(); ++i) next += got[next] == wanted[i] ? 1 : 0;
    return next == got.size();
  }

  std::uint64_t end_of(std::size_t i) const { return index.ends.size() > 0 ? index.ends[i] : index.begins[i + 1]; }

  std::shared_ptr<FileBytes> file;
  CtfIndex index;
  CtfReader reader;
};

}  // namespace headrace::test
