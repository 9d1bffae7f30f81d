#include "flotilla/core/gzip.h"

#include <zlib.h>

#include <memory>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"

namespace flotilla {
namespace {

constexpr int kGzip = 15 + 16;  // the largest window, with gzip's header around

[[noreturn]] void damaged(const std::string& path, const char* how) {
  throw Error(ErrorCode::kData, path + ": is damaged: " + how);
}

bool is_gzipped(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

// zlib only reads from it.
Bytef* input_of(std::string_view bytes) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

}  // namespace

std::string read_gzipped(const std::string& path, size_t limit) {
  std::string bytes = read_whole_file(path, limit);
  if (!is_gzipped(bytes) && !path.ends_with(".gz")) return bytes;
  return gunzipped(bytes, path, limit);
}

std::string gunzipped(std::string_view bytes, const std::string& path, size_t limit) {
  if (!is_gzipped(bytes)) damaged(path, "it is no gzip file");
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) {
    throw Error(ErrorCode::kInternal, "zlib does not start");
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::string text, buffer(1u << 16u, '\0');
  while (is_gzipped(bytes)) {  // several may follow one another
    inflateReset(&stream);
    stream.next_in = input_of(bytes);
    stream.avail_in = static_cast<uInt>(bytes.size());
    for (int result = Z_OK; result != Z_STREAM_END;) {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      result = inflate(&stream, Z_NO_FLUSH);
      // Without more input, where it was cut off, it says Z_BUF_ERROR.
      if (result != Z_OK && result != Z_STREAM_END) damaged(path, "it cannot be unpacked");
      text.append(buffer, 0, buffer.size() - stream.avail_out);
      if (text.size() > limit) throw Error(ErrorCode::kData, path + ": is too large");
    }
    bytes.remove_prefix(bytes.size() - stream.avail_in);
  }
  return text;
}

std::string gzipped(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error(ErrorCode::kInternal, "zlib does not start");
  }
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = input_of(text);
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw Error(ErrorCode::kInternal, "zlib does not end");
  return packed;
}

CsvTable read_csv_or_gzip(const std::string& path) {
  return path.ends_with(".gz") ? read_csv(read_gzipped(path, CsvLimits::kBytes), path)
                               : read_csv_file(path);
}

}  // namespace flotilla
