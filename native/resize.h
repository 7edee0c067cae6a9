#pragma once

#include <cstdint>

namespace headrace {

enum class ResizeFilter : std::uint8_t { kBilinear, kBicubic };

// The part of a picture that is resized, in pixels; may begin and end within one.
struct PictureBox {
  float left, top, right, bottom;
};

// A picture of bytes, rows end to end, in another size: each pixel that comes out is a weighted mean of all that it
// covers, so nothing is passed over when pictures become smaller. Gives the same bytes as Pillow does where it goes
// across first and then down, which depends on its version and on the sizes; else a few are one off.
//
// `box` lies within the picture and isn't empty; sizes are at least 1.
void resize_picture(const std::uint8_t* data, int height, int width, int channels, const PictureBox& box,
                    ResizeFilter filter, std::uint8_t* out, int out_height, int out_width);

}  // namespace headrace
