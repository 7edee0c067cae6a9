#include "token_counter.h"

#include <algorithm>
#include <cstring>

#include "line_index.h"
#include "parallel.h"
#include "tokeniser.h"

namespace headrace {
namespace {

constexpr std::size_t kPiece = 1 << 20;

}  // namespace

void TokenCounter::add(const TokenTable::Key& key, std::int64_t times) {
  counts_.room(1);
  const auto [number, fresh] = table_.insert(key);
  if (fresh) {
    counts_.push(times);
  } else {
    counts_[static_cast<std::size_t>(number)] += times;
  }
}

void TokenCounter::count_range(const FileBytes& file, const Separators& separators, std::uint64_t begin,
                               std::uint64_t end) {
  Buffer<std::uint8_t> piece(kPiece);
  std::size_t kept = 0;  // bytes at the front of `piece`, of a token that may go on
  for (std::uint64_t at = begin; at < end;) {
    if (kept == piece.size()) piece.resize(piece.size() * 2);  // a token longer than the piece
    const auto fresh = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size() - kept, end - at));
    const std::uint8_t* from = file.read(at, fresh, piece.data() + kept);
    if (from != piece.data() + kept) std::memcpy(piece.data() + kept, from, fresh);
    at += fresh;
    const std::size_t filled = kept + fresh;
    std::size_t whole = filled;
    if (at < end) {
      while (whole > 0 && !separators.contains(piece[whole - 1])) --whole;
    }
    const std::uint8_t* readable_end = piece.data() + filled;
    for_each_token(piece.data(), whole, readable_end, separators, [&](const std::uint8_t* token, std::size_t size) {
      // A CR before '\n' ends the line; where it is no separator, it is not of the token either.
      const bool crlf = token[size - 1] == '\r' && token + size < piece.data() + whole && token[size] == '\n';
      if (crlf) --size;
      if (size > 0) add(TokenTable::make_key(token, size, readable_end), 1);
      return true;
    });
    kept = filled - whole;
    std::memmove(piece.data(), piece.data() + whole, kept);
  }
}

void TokenCounter::count(const FileBytes& file, const Separators& separators, unsigned threads) {
  file.check_unchanged();
  const auto cuts = split_at_lines(file, useful_parts(file, threads));
  const std::size_t parts = cuts.size() - 1;
  std::vector<TokenCounter> others(parts > 1 ? parts - 1 : 0);
  run_parts(parts, [&](std::size_t i) {
    (i == 0 ? *this : others[i - 1]).count_range(file, separators, cuts[i], cuts[i + 1]);
  });
  file.check_unchanged();
  for (const auto& other : others) {
    for (std::size_t i = 0; i < other.size(); ++i) {
      const auto token = other.token(i);
      add(TokenTable::make_key(token.data(), token.size(), token.data() + token.size()), other.occurrences(i));
    }
  }
}

std::vector<std::size_t> TokenCounter::ranked(std::int64_t min_count) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < size(); ++i) {
    if (counts_[i] >= min_count) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    if (counts_[a] != counts_[b]) return counts_[a] > counts_[b];
    const auto left = token(a), right = token(b);
    const int compared = std::memcmp(left.data(), right.data(), std::min(left.size(), right.size()));
    return compared != 0 ? compared < 0 : left.size() < right.size();
  });
  return order;
}

}  // namespace headrace
