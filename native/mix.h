// Mixtures: which of several plans each position comes from, and which of its records, in O(1) a position.
#pragma once

#include <cstdint>
#include <span>

namespace headrace {

// The unshuffled mixture repeats this pattern for ever. Place x of the pattern belongs to plan choice[x],
// which has counts[choice[x]] places in all, rank[x] of them before this one.
struct MixPattern {
  std::span<const std::int32_t> choice;
  std::span<const std::int64_t> rank;
  std::span<const std::int64_t> counts;
};

// The mixture is the repeated pattern, cut off after n positions, with its choices permuted inside cells of
// `cell` neighbouring positions, as permute_windows does (a cell of 1 leaves the pattern as it is). Each
// plan's records come in the plan's own order. Writes the plan and the record number for each position, in
// epoch epochs[i] (or epochs[0] if there is only one). Throws std::out_of_range for a position outside [0,
// n), std::invalid_argument for a pattern that contradicts itself or a cell outside [1, 4096].
void mix_locate(const MixPattern& pattern, std::uint64_t seed, std::span<const std::int64_t> epochs, std::int64_t cell,
                std::int64_t n, std::span<const std::int64_t> positions, std::span<std::int32_t> choice,
                std::span<std::int64_t> record);

}  // namespace headrace
