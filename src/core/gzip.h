// Files that may be gzipped.
#pragma once

#include <string>
#include <string_view>

#include "flotilla/core/csv.h"

namespace flotilla {

// The text of a regular file, plain or gzipped. Throws Error(kData) that names the file: it cannot
// be read, is damaged or cut off, or has more than `limit` bytes, packed or unpacked.
std::string read_gzipped(const std::string& path, size_t limit);
// Of bytes that are gzipped, from `path`. Throws as above. REQUIRES: less than 4 GiB.
std::string gunzipped(std::string_view bytes, const std::string& path, size_t limit);

// Determinism: the same text gives the same bytes, with the same zlib.
std::string gzipped(std::string_view text);

// A table of a file whose name ends with .gz, or of any other; as large when it is unpacked.
CsvTable read_csv_or_gzip(const std::string& path);

}  // namespace flotilla
