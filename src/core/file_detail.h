// What whole files and directories have in common.
#pragma once

#include <string>
#include <string_view>

#include "flotilla/core/descriptor.h"

namespace flotilla::detail {

[[noreturn]] void cannot_read(const std::string& path, const std::string& reason);
[[noreturn]] void cannot_write(const std::string& path, const std::string& reason);
[[noreturn]] void cannot_write(const std::string& path, int error);

// All bytes behind a descriptor, at most `limit`. `path`: for messages.
std::string read_all(const Descriptor& file, const std::string& path, size_t limit);
// False, and errno, when not all of it could be written.
bool write_all(int fd, std::string_view bytes);
bool sync_entries(int directory);
// Writes a temporary file in the directory, of which is_part() is true, and renames it to `name`.
void replace_file(int directory, const std::string& name, const std::string& path,
                  std::string_view bytes);
bool is_part(std::string_view name);

}  // namespace flotilla::detail
