#include <cstdint>
#include <vector>

#include "check.h"
#include "resize.h"

using namespace headrace;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes noise(int height, int width, int channels) {
  Bytes bytes(static_cast<std::size_t>(height * width * channels));
  std::uint32_t state = 1;
  for (auto& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

// Into memory of just the size, so that the sanitizers see what is read or written beyond.
Bytes resized(const Bytes& in, int height, int width, int channels, PictureBox box, ResizeFilter filter, int out_height,
              int out_width) {
  const Bytes exact(in);
  Bytes out(static_cast<std::size_t>(out_height * out_width * channels), 77);
  resize_picture(exact.data(), height, width, channels, box, filter, out.data(), out_height, out_width);
  return out;
}

PictureBox all(int height, int width) { return {0, 0, static_cast<float>(width), static_cast<float>(height)}; }

const ResizeFilter kFilters[] = {ResizeFilter::kBilinear, ResizeFilter::kBicubic};

}  // namespace

TEST(the_same_size_changes_nothing) {
  for (const auto filter : kFilters) {
    for (const int channels : {1, 2, 3, 4}) {
      const Bytes in = noise(7, 9, channels);
      CHECK(resized(in, 7, 9, channels, all(7, 9), filter, 7, 9) == in);
    }
  }
}

TEST(one_colour_stays_that_colour) {
  for (const auto filter : kFilters) {
    for (const int value : {0, 1, 127, 255}) {
      for (int size = 1; size < 40; ++size) {
        const Bytes in(static_cast<std::size_t>(13 * 17 * 3), static_cast<std::uint8_t>(value));
        const Bytes out = resized(in, 13, 17, 3, all(13, 17), filter, size, 41 - size);
        CHECK(out == Bytes(out.size(), static_cast<std::uint8_t>(value)));
      }
    }
  }
}

TEST(channels_do_not_mix) {
  for (const auto filter : kFilters) {
    for (int height = 1; height < 12; ++height) {
      for (int width = 1; width < 12; ++width) {
        const Bytes in = noise(height, width, 3);
        const Bytes out = resized(in, height, width, 3, all(height, width), filter, 6, 7);
        for (std::size_t c = 0; c < 3; ++c) {
          Bytes one, expected;
          for (std::size_t i = c; i < in.size(); i += 3) one.push_back(in[i]);
          for (std::size_t i = c; i < out.size(); i += 3) expected.push_back(out[i]);
          CHECK(resized(one, height, width, 1, all(height, width), filter, 6, 7) == expected);
        }
      }
    }
  }
}

TEST(a_box_takes_part_of_a_picture) {
  Bytes in(static_cast<std::size_t>(10 * 10 * 3), 0);
  for (int y = 4; y < 8; ++y) {
    for (int x = 2; x < 8; ++x) {
      for (int c = 0; c < 3; ++c) in[static_cast<std::size_t>((y * 10 + x) * 3 + c)] = 200;
    }
  }
  // Well inside, so that no pixel round the box has a part in it.
  const Bytes out = resized(in, 10, 10, 3, {3.5f, 5.0f, 6.5f, 7.0f}, ResizeFilter::kBilinear, 2, 3);
  CHECK(out == Bytes(out.size(), 200));
}

int main() { return headrace::test::run_all(); }
