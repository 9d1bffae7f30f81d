// The curves of a run for TensorBoard: an event file, DIR/events.out.tfevents.UNIXTIME.flotilla. It
// is a sequence of records
//
//   8 bytes   length of the data, little endian
//   4 bytes   masked CRC-32C of the length
//   data      an Event, in the encoding of protocol buffers
//   4 bytes   masked CRC-32C of the data
//
// whose first says which version of the format follows. A run that is resumed goes on in the file
// it had, without what was written behind its checkpoint: reopen().
//
// Thread safety: none; a file has one writer.
// Allocates: until its buffer has the size of the largest batch of records, then no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flotilla/core/directory.h"

namespace flotilla {

class EventFile {
 public:
  static constexpr size_t kLargestRecord = size_t{64} << 20;  // bytes of data

  using Scalar = std::pair<std::string, double>;  // tag, value

  // Makes a new file in a directory that is there.
  explicit EventFile(const Directory& directory);
  // Cuts the event files of the directory behind `last_step` and goes on in the newest of them; in
  // a new one where there is none. Warns where they end before that step.
  static EventFile reopen(const Directory& directory, int64_t last_step);

  // Flushes, but cannot say whether that went well: call flush() before.
  ~EventFile();
  EventFile(EventFile&& other) noexcept;
  EventFile& operator=(EventFile&& other) noexcept;

  const std::string& path() const { return path_; }

  // One event with a value per tag, which TensorBoard keeps as a float; NaN is a value. The wall
  // time is in seconds since 1970. REQUIRES: tags are UTF-8.
  void add(double wall_time, int64_t step, std::span<const Scalar> scalars);
  // A text on the page "Text", shown as Markdown. REQUIRES: tag is UTF-8.
  void add_text(double wall_time, int64_t step, std::string_view tag, std::string_view text);

  // What was added reaches the file when there is enough of it, or here. A write that fails is an
  // Error(kData) that names the file and the reason, from any of these functions. The file then
  // ends with the last record before that write, and the records of that write are lost; what is
  // added later may succeed.
  void flush();
  // Flushes, and waits until the file is on the disk.
  void sync();

 private:
  struct Opened {
    std::string path;
    Descriptor file;
    uint64_t size;
  };

  static Opened create(const Directory& directory);
  static Opened open(const Directory& directory, const std::string& name);

  EventFile(std::string path, Descriptor file, uint64_t size) noexcept;
  explicit EventFile(Opened opened);

  size_t begin_record();
  void end_record(size_t begin);

  std::string path_;
  Descriptor file_;
  uint64_t size_;       // of the file, without what is in the buffer
  std::string buffer_;  // whole records
};

// The names of the event files of this program in a directory, the oldest first.
std::vector<std::string> event_files(const Directory& directory);

// Cuts a file before the first record that is of a later step, torn or altered; so what a killed
// run wrote half is gone, and a file without a single good record is empty afterwards. Never
// refuses a content: only where the file cannot be read or cut it throws, Error(kData). Returns the
// step of the last record that is left, -1 where there is none.
int64_t cut_event_file(const Directory& directory, const std::string& name, int64_t last_step);
// The same of an open file, which is read from its beginning. `path`: for messages.
int64_t cut_event_file(Descriptor file, const std::string& path, int64_t last_step);

}  // namespace flotilla
