#include "resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#define HEADRACE_AVX2 1
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr int kShift = 22;  // bits of a weight after the point: 8 bits of a pixel and 2 for sums beyond it fit beside
constexpr std::int32_t kHalf = 1 << (kShift - 1);

double weight_at(ResizeFilter filter, double x) {
  x = std::fabs(x);
  if (filter == ResizeFilter::kBilinear) return x < 1.0 ? 1.0 - x : 0.0;
  constexpr double a = -0.5;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

// Which pixels of a line go into each that comes out, and how much of them.
struct Taps {
  int count;                          // of each, some of them with weight 0
  std::vector<int> first;             // the first pixel of each
  std::vector<std::int32_t> weights;  // `count` for each
};

Taps find_taps(int size, float begin, float end, int out_size, ResizeFilter filter) {
  const double scale = static_cast<double>(end - begin) / out_size;
  const double stretch = std::max(scale, 1.0);
  const double reach = (filter == ResizeFilter::kBilinear ? 1.0 : 2.0) * stretch;
  std::vector<int> firsts(static_cast<std::size_t>(out_size)), counts(static_cast<std::size_t>(out_size));
  int most = 1;
  for (int i = 0; i < out_size; ++i) {
    const double center = begin + (i + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - reach + 0.5), 0);
    const int last = std::min(static_cast<int>(center + reach + 0.5), size);
    firsts[static_cast<std::size_t>(i)] = first;
    counts[static_cast<std::size_t>(i)] = last - first;
    most = std::max(most, last - first);
  }
  Taps taps{most, std::move(firsts),
            std::vector<std::int32_t>(static_cast<std::size_t>(out_size) * static_cast<std::size_t>(most))};
  std::vector<double> exact(static_cast<std::size_t>(most));
  for (int i = 0; i < out_size; ++i) {
    int& first = taps.first[static_cast<std::size_t>(i)];
    const int count = counts[static_cast<std::size_t>(i)];
    const double center = begin + (i + 0.5) * scale;
    double sum = 0.0;
    for (int k = 0; k < count; ++k) {
      exact[static_cast<std::size_t>(k)] = weight_at(filter, (k + first - center + 0.5) * (1.0 / stretch));
      sum += exact[static_cast<std::size_t>(k)];
    }
    const int moved = std::max(first + most - size, 0);  // so that all taps lie within the line
    first -= moved;
    std::int32_t* weights = taps.weights.data() + static_cast<std::ptrdiff_t>(i) * most + moved;
    for (int k = 0; k < count; ++k) {
      const double w = exact[static_cast<std::size_t>(k)] / (sum == 0.0 ? 1.0 : sum) * (1 << kShift);
      weights[k] = static_cast<std::int32_t>(w < 0 ? w - 0.5 : w + 0.5);
    }
  }
  return taps;
}

std::uint8_t to_byte(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kShift, 0, 255)); }

void make_row(const std::uint8_t* row, int channels, const Taps& taps, std::uint8_t* out) {
  for (std::size_t i = 0; i < taps.first.size(); ++i) {
    const std::uint8_t* from = row + static_cast<std::ptrdiff_t>(taps.first[i]) * channels;
    const std::int32_t* weights = taps.weights.data() + static_cast<std::ptrdiff_t>(i) * taps.count;
    for (int c = 0; c < channels; ++c) {
      std::int32_t sum = kHalf;
      for (int k = 0; k < taps.count; ++k) sum += from[k * channels + c] * weights[k];
      *out++ = to_byte(sum);
    }
  }
}

void join_rows(const std::uint8_t* rows, std::size_t stride, std::size_t begin, const std::int32_t* weights, int count,
               std::uint8_t* out) {
  for (std::size_t j = begin; j < stride; ++j) {
    std::int32_t sum = kHalf;
    for (int k = 0; k < count; ++k) sum += rows[static_cast<std::size_t>(k) * stride + j] * weights[k];
    out[j] = to_byte(sum);
  }
}

#ifdef HEADRACE_AVX2
// Two pixels at once, of three bytes each and one that doesn't count: it belongs to the next, which comes after. Reads
// a byte beyond the row, and writes one.
[[gnu::target("avx2")]] void make_row_avx2(const std::uint8_t* row, const Taps& taps, const std::int32_t* pairs,
                                           std::uint8_t* out) {
  const std::size_t count = taps.first.size();
  const auto load = [](const std::uint8_t* from) {
    std::int32_t pixel;
    std::memcpy(&pixel, from, 4);
    return pixel;
  };
  std::size_t i = 0;
  for (; i + 1 < count; i += 2) {
    const std::uint8_t* a = row + 3 * static_cast<std::size_t>(taps.first[i]);
    const std::uint8_t* b = row + 3 * static_cast<std::size_t>(taps.first[i + 1]);
    __m256i sum = _mm256_set1_epi32(kHalf);
    for (int k = 0; k < taps.count; ++k, a += 3, b += 3, pairs += 8) {
      const __m128i bytes = _mm_insert_epi32(_mm_cvtsi32_si128(load(a)), load(b), 1);
      const __m256i weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs));
      sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), weights));
    }
    sum = _mm256_srai_epi32(sum, kShift);
    const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(sum, sum), _mm256_setzero_si256());
    const std::int32_t first = _mm256_extract_epi32(bytes, 0), second = _mm256_extract_epi32(bytes, 4);
    std::memcpy(out + 3 * i, &first, 4);
    std::memcpy(out + 3 * i + 3, &second, 4);
  }
  if (i < count) {
    const std::int32_t* weights = taps.weights.data() + i * static_cast<std::size_t>(taps.count);
    const std::uint8_t* from = row + 3 * static_cast<std::size_t>(taps.first[i]);
    for (int c = 0; c < 3; ++c) {
      std::int32_t sum = kHalf;
      for (int k = 0; k < taps.count; ++k) sum += from[3 * k + c] * weights[k];
      out[3 * i + static_cast<std::size_t>(c)] = to_byte(sum);
    }
  }
}

[[gnu::target("avx2")]] std::size_t join_rows_avx2(const std::uint8_t* rows, std::size_t stride,
                                                   const std::int32_t* weights, int count, std::uint8_t* out) {
  std::size_t j = 0;
  for (; j + 16 <= stride; j += 16) {
    __m256i low = _mm256_set1_epi32(kHalf), high = low;
    const std::uint8_t* from = rows + j;
    for (int k = 0; k < count; ++k, from += stride) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m256i weight = _mm256_set1_epi32(weights[k]);
      low = _mm256_add_epi32(low, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), weight));
      high = _mm256_add_epi32(high, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)), weight));
    }
    // Packing works on halves of the registers; the permutation puts the quarters into their order again.
    const __m256i words = _mm256_packs_epi32(_mm256_srai_epi32(low, kShift), _mm256_srai_epi32(high, kShift));
    const __m256i packed = _mm256_packus_epi16(words, words);
    const __m256i ordered = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + j), _mm256_castsi256_si128(ordered));
  }
  return j;
}

// The weights of two neighbours side by side, four times each: as make_row_avx2 takes them.
std::vector<std::int32_t> pair_up(const Taps& taps) {
  const std::size_t count = static_cast<std::size_t>(taps.count);
  std::vector<std::int32_t> pairs;
  pairs.reserve(taps.first.size() / 2 * count * 8);
  for (std::size_t i = 0; i + 1 < taps.first.size(); i += 2) {
    for (std::size_t k = 0; k < count; ++k) {
      pairs.insert(pairs.end(), 4, taps.weights[i * count + k]);
      pairs.insert(pairs.end(), 4, taps.weights[(i + 1) * count + k]);
    }
  }
  return pairs;
}
#endif

}  // namespace

void resize_picture(const std::uint8_t* data, int height, int width, int channels, const PictureBox& box,
                    ResizeFilter filter, std::uint8_t* out, int out_height, int out_width) {
  const Taps across = find_taps(width, box.left, box.right, out_width, filter);
  const Taps down = find_taps(height, box.top, box.bottom, out_height, filter);
  const int begin = *std::min_element(down.first.begin(), down.first.end());
  const int end = *std::max_element(down.first.begin(), down.first.end()) + down.count;
  const std::size_t row_size = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  const std::size_t stride = static_cast<std::size_t>(out_width) * static_cast<std::size_t>(channels);
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(end - begin) * stride + 1);
#ifdef HEADRACE_AVX2
  const bool fast = __builtin_cpu_supports("avx2");
  const std::vector<std::int32_t> pairs = fast && channels == 3 ? pair_up(across) : std::vector<std::int32_t>();
  std::vector<std::uint8_t> last;
#endif
  for (int y = begin; y < end; ++y) {
    const std::uint8_t* row = data + static_cast<std::size_t>(y) * row_size;
    std::uint8_t* made = rows.data() + static_cast<std::size_t>(y - begin) * stride;
#ifdef HEADRACE_AVX2
    if (fast && channels == 3) {
      if (y == height - 1) {  // nothing can be read beyond it
        last.assign(row, row + row_size);
        last.push_back(0);
        row = last.data();
      }
      make_row_avx2(row, across, pairs.data(), made);
      continue;
    }
#endif
    make_row(row, channels, across, made);
  }
  for (int y = 0; y < out_height; ++y) {
    const std::size_t place = static_cast<std::size_t>(y);
    const std::uint8_t* from = rows.data() + static_cast<std::size_t>(down.first[place] - begin) * stride;
    const std::int32_t* weights = down.weights.data() + place * static_cast<std::size_t>(down.count);
    std::size_t done = 0;
#ifdef HEADRACE_AVX2
    if (fast) done = join_rows_avx2(from, stride, weights, down.count, out + place * stride);
#endif
    join_rows(from, stride, done, weights, down.count, out + place * stride);
  }
}

}  // namespace headrace
