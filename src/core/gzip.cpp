#include "flotilla/core/gzip.h"

#include <zlib.h>

#include <memory>
#include <vector>

#include "flotilla/core/error.h"

namespace flotilla {
namespace {

// A small file can hold a huge text.
constexpr size_t kLargestTable = size_t{1} << 28u;

}  // namespace

std::string read_gzipped(const std::string& path, size_t limit) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) throw_errno(ErrorCode::kData, "cannot read " + path);
  std::string text;
  std::vector<char> buffer(1u << 16u);
  for (;;) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    // At the end of a file that is cut off, it returns what there is, or nothing.
    int error = Z_OK;
    gzerror(file.get(), &error);
    if (got < 0 || error != Z_OK) {
      throw Error(ErrorCode::kData, path + ": is damaged: it cannot be unpacked");
    }
    // What is not packed, zlib hands on as it is.
    if (path.ends_with(".gz") && gzdirect(file.get()) != 0) {
      throw Error(ErrorCode::kData, path + ": is damaged: it is no gzip file");
    }
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
    if (text.size() > limit) throw Error(ErrorCode::kData, path + ": is too large");
  }
}

std::string gzipped(std::string_view text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;  // the largest window, with gzip's header around
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error(ErrorCode::kInternal, "zlib does not start");
  }
  std::string packed(deflateBound(&stream, text.size()), '\0');
  // zlib only reads from it.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
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
  return path.ends_with(".gz") ? read_csv(read_gzipped(path, kLargestTable), path)
                               : read_csv_file(path);
}

}  // namespace flotilla
