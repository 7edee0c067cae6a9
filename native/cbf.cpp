#include "cbf.h"

#include <algorithm>
#include <cstring>

#include "errors.h"

namespace headrace {
namespace {

constexpr const char* kRemedy = "; the file is damaged: copy it again, or convert it again from its text";

[[noreturn]] void fail(const FileBytes& file, std::uint64_t at, const std::string& what) {
  throw DataError(file.name() + ", byte " + std::to_string(at) + ": " + what + kRemedy);
}

template <class T>
T load(const FileBytes& file, std::uint64_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

// Goes through the sequences of a chunk, never beyond its end.
class Walk {
 public:
  Walk(const FileBytes& file, const CbfChunk& chunk) : file_(file), chunk_(chunk), at_(chunk.begin) {
    if (chunk.begin > chunk.end || chunk.end > file.size()) {
      fail(file, chunk.begin, where() + "expected a chunk inside the file");
    }
    need(4ull * chunk.sequences, "the lengths of " + std::to_string(chunk.sequences) + " sequences");
  }

  std::uint64_t at() const { return at_; }
  void skip(std::uint64_t bytes) { at_ += bytes; }

  void enter(const CbfStream& stream, std::uint32_t sequence) {
    stream_ = &stream;
    sequence_ = sequence;
  }

  void need(std::uint64_t bytes, const std::string& what) const {
    if (bytes > chunk_.end - at_) {
      fail(file_, at_,
           where() + "expected " + what + ", found " + std::to_string(chunk_.end - at_) +
               " bytes up to the end of the chunk");
    }
  }

  // Passes over one sequence and returns its samples.
  std::uint32_t sequence() {
    need(4, "a number of samples");
    const auto samples = load<std::uint32_t>(file_, at_);
    if (stream_->sparse) {
      sparse(samples);
    } else {
      const std::uint64_t sample_bytes = std::uint64_t{stream_->value_bytes} * stream_->dim;
      if (sample_bytes > 0 && samples > (chunk_.end - at_ - 4) / sample_bytes) {
        need(chunk_.end - at_ + 1,
             std::to_string(samples) + " samples of " + std::to_string(stream_->dim) + " numbers");
      }
      at_ += 4 + samples * sample_bytes;
    }
    return samples;
  }

  std::string where() const {
    std::string text = "chunk " + std::to_string(chunk_.number);
    if (stream_ != nullptr)
      text += ", sequence " + std::to_string(sequence_) + " of it, stream '" + stream_->name + "'";
    return text + ": ";
  }

 private:
  void sparse(std::uint32_t samples) {
    need(8, "numbers of samples and entries");
    const auto entries = load<std::int32_t>(file_, at_ + 4);
    if (entries < 0) fail(file_, at_ + 4, where() + "expected a number of entries, found " + std::to_string(entries));
    const std::uint64_t before = 8 + (4ull + stream_->value_bytes) * static_cast<std::uint64_t>(entries);
    need(before + 4ull * samples, std::to_string(entries) + " entries in " + std::to_string(samples) + " samples");
    std::int64_t total = 0;
    for (std::uint64_t i = 0; i < samples; ++i) {
      const std::uint64_t place = at_ + before + 4 * i;
      const auto count = load<std::int32_t>(file_, place);
      if (count < 0 || (total += count) > entries) {
        fail(file_, place,
             where() + "expected the entries of sample " + std::to_string(i) + ", of " + std::to_string(entries) +
                 " in all, found " + std::to_string(count));
      }
    }
    if (total != entries) {
      fail(file_, at_ + 4,
           where() + "expected as many entries as all samples have together, " + std::to_string(total) + ", found " +
               std::to_string(entries));
    }
    at_ += before + 4ull * samples;
  }

  const FileBytes& file_;
  const CbfChunk& chunk_;
  std::uint64_t at_;
  const CbfStream* stream_ = nullptr;
  std::uint32_t sequence_ = 0;
};

// What stands at a position that locate_cbf gave. It is looked at again: the file may have been written to since.
struct Place {
  std::uint32_t samples = 0;
  std::uint32_t entries = 0;  // sparse
};

Place place_of(const FileBytes& file, const CbfStream& stream, std::uint64_t at) {
  Place place;
  if (at == 0) return place;
  const auto fits = [&](std::uint64_t bytes, std::uint64_t from) {
    return from <= file.size() && bytes <= file.size() - from;
  };
  const std::uint64_t head = stream.sparse ? 8 : 4;
  if (!fits(head, at)) throw DataChangedError(file.name() + " was written to while it was read");
  place.samples = load<std::uint32_t>(file, at);
  std::uint64_t bytes = 0;
  if (stream.sparse) {
    place.entries = load<std::uint32_t>(file, at + 4);
    bytes = (4ull + stream.value_bytes) * place.entries + 4ull * place.samples;
  } else {
    const std::uint64_t sample_bytes = std::uint64_t{stream.value_bytes} * stream.dim;
    const bool fit = sample_bytes == 0 || place.samples <= file.size() / sample_bytes;
    bytes = fit ? place.samples * sample_bytes : file.size() + 1;
  }
  if (!fits(bytes, at + head)) throw DataChangedError(file.name() + " was written to while it was read");
  return place;
}

void copy(const FileBytes& file, std::uint64_t from, std::uint64_t bytes, void* to) {
  if (bytes > 0) std::memcpy(to, file.data() + from, bytes);
}

void gather_sparse(const FileBytes& file, const CbfStream& stream, std::span<const std::uint64_t> positions,
                   std::span<const Place> places, CbfRows& rows) {
  std::uint64_t entry = 0;
  std::int64_t* begins = rows.entries.data();
  *begins++ = 0;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const Place& place = places[row];
    std::uint64_t at = positions[row] + 8;
    copy(file, at, std::uint64_t{place.entries} * stream.value_bytes, rows.values.data() + entry * stream.value_bytes);
    at += std::uint64_t{place.entries} * stream.value_bytes;
    std::int32_t* indices = rows.indices.data() + entry;
    copy(file, at, 4ull * place.entries, indices);
    for (std::uint32_t i = 0; i < place.entries; ++i) {
      if (static_cast<std::uint32_t>(indices[i]) >= stream.dim || indices[i] < 0) {
        rows.bad_rows.push(static_cast<std::int64_t>(row));
        rows.bad_bytes.push(static_cast<std::int64_t>(at + 4ull * i));
        break;
      }
    }
    at += 4ull * place.entries;
    std::uint64_t left = place.entries;
    auto end = static_cast<std::int64_t>(entry);
    for (std::uint32_t i = 0; i < place.samples; ++i) {
      const auto count = load<std::uint32_t>(file, at + 4ull * i);
      if (count > left) throw DataChangedError(file.name() + " was written to while it was read");
      left -= count;
      end += count;
      *begins++ = end;
    }
    if (left != 0) throw DataChangedError(file.name() + " was written to while it was read");
    entry += place.entries;
  }
}

}  // namespace

void read_cbf_lengths(const FileBytes& file, const CbfChunk& chunk, Buffer<std::uint32_t>& lengths) {
  const Walk walk(file, chunk);  // looks whether they are there
  std::uint32_t* to = lengths.room(chunk.sequences);
  copy(file, chunk.begin, 4ull * chunk.sequences, to);
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < chunk.sequences; ++i) total += to[i];
  if (total != chunk.samples) {
    fail(file, chunk.begin,
         walk.where() + "expected sequences of " + std::to_string(chunk.samples) +
             " samples together, as the header says, found " + std::to_string(total));
  }
  lengths.advance(chunk.sequences);
}

void locate_cbf(const FileBytes& file, const CbfChunk& chunk, std::span<const CbfStream> streams,
                Buffer<std::uint64_t>& positions, Buffer<std::uint32_t>& samples) {
  Walk walk(file, chunk);
  walk.skip(4ull * chunk.sequences);
  // Each takes 4 bytes at least: so there is no room for more than the chunk could hold.
  walk.need(4ull * chunk.sequences * streams.size(), "a number of samples for each sequence and stream");
  Buffer<std::uint32_t> longest(chunk.sequences);
  std::fill_n(longest.data(), chunk.sequences, 0);
  positions.reserve(chunk.sequences * streams.size());
  samples.reserve(chunk.sequences * streams.size());
  for (const CbfStream& stream : streams) {
    for (std::uint32_t i = 0; i < chunk.sequences; ++i) {
      walk.enter(stream, i);
      positions.push(walk.at());
      const std::uint32_t found = walk.sequence();
      samples.push(found);
      longest[i] = std::max(longest[i], found);
    }
  }
  if (walk.at() != chunk.end) {
    fail(file, walk.at(),
         walk.where() + "expected the end of the chunk after its last sequence, found " +
             std::to_string(chunk.end - walk.at()) + " bytes more");
  }
  for (std::uint32_t i = 0; i < chunk.sequences; ++i) {
    const auto length = load<std::uint32_t>(file, chunk.begin + 4ull * i);
    if (length != longest[i]) {
      fail(file, chunk.begin + 4ull * i,
           "chunk " + std::to_string(chunk.number) + ", sequence " + std::to_string(i) +
               " of it: expected the length " + std::to_string(longest[i]) + " of its longest stream, found " +
               std::to_string(length));
    }
  }
}

void gather_cbf(const FileBytes& file, const CbfStream& stream, std::span<const std::uint64_t> positions,
                CbfRows& rows) {
  Buffer<Place> places(positions.size());
  rows.offsets.resize(positions.size() + 1);
  rows.offsets[0] = 0;
  std::uint64_t samples = 0, entries = 0;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    places[row] = place_of(file, stream, positions[row]);
    samples += places[row].samples;
    entries += places[row].entries;
    rows.offsets[row + 1] = static_cast<std::int64_t>(samples);
  }
  if (stream.sparse) {
    rows.values.resize(entries * stream.value_bytes);
    rows.indices.resize(entries);
    rows.entries.resize(samples + 1);
    gather_sparse(file, stream, positions, {places.data(), places.size()}, rows);
    return;
  }
  const std::uint64_t sample_bytes = std::uint64_t{stream.value_bytes} * stream.dim;
  rows.values.resize(samples * sample_bytes);
  std::uint8_t* to = rows.values.data();
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::uint64_t bytes = places[row].samples * sample_bytes;
    copy(file, positions[row] + 4, bytes, to);
    to += bytes;
  }
}

}  // namespace headrace
