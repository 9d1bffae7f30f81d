#include "flotilla/domains/coinrun/png.h"

#include <zlib.h>

#include <string_view>

#include "flotilla/core/error.h"

namespace flotilla::coinrun {
namespace {

const Bytef* bytes_of(std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

std::string big_endian(uint32_t number) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift & 0xffU);
  return text;
}

std::string chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  const auto crc = static_cast<uint32_t>(crc32(0, bytes_of(body), static_cast<uInt>(body.size())));
  return big_endian(static_cast<uint32_t>(data.size())) + body + big_endian(crc);
}

std::string deflated(std::string_view text) {
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size, bytes_of(text), text.size(),
                Z_BEST_COMPRESSION) != Z_OK) {
    throw Error(ErrorCode::kInternal, "zlib does not pack a picture");
  }
  packed.resize(size);
  return packed;
}

}  // namespace

std::string to_png(const Picture& picture) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  // Eight bits, RGB, and nothing special.
  constexpr std::string_view kFormat("\x08\x02\x00\x00\x00", 5);
  std::string rows;
  for (int row = 0; row < picture.height; ++row) {
    rows += '\0';  // not filtered
    rows.append(reinterpret_cast<const char*>(picture.at(0, row)),
                3 * static_cast<size_t>(picture.width));
  }
  const std::string header = big_endian(static_cast<uint32_t>(picture.width)) +
                             big_endian(static_cast<uint32_t>(picture.height)) +
                             std::string(kFormat);
  return std::string(kSignature) + chunk("IHDR", header) + chunk("IDAT", deflated(rows)) +
         chunk("IEND", "");
}

}  // namespace flotilla::coinrun
