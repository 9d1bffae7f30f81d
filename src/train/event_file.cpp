#include "flotilla/train/event_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>

#include "flotilla/core/crc32c.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/protobuf.h"
#include "flotilla/core/refusal.h"

namespace flotilla {
namespace {

using namespace protobuf;

static_assert(std::endian::native == std::endian::little, "integers are copied as they are");

constexpr std::string_view kFilePrefix = "events.out.tfevents.", kFileSuffix = ".flotilla";
constexpr std::string_view kVersion = "brain.Event:2";
constexpr size_t kHeadBytes = 12, kTailBytes = 4;  // of a record, around its data
constexpr size_t kBufferBytes = size_t{1} << 16;

// ---- Events.

// The numbers of the fields, from TensorFlow's event.proto, summary.proto and tensor.proto.
enum EventField : uint8_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummaryField = 5 };
enum SummaryField : uint8_t { kValue = 1 };
enum ValueField : uint8_t { kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9 };
enum MetadataField : uint8_t { kPluginData = 1, kDataClass = 4 };
enum PluginField : uint8_t { kPluginName = 1 };
enum TensorField : uint8_t { kDType = 1, kShape = 2, kStringValue = 8 };
constexpr uint64_t kDataClassTensor = 2, kDTypeString = 7;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
T get(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Fields of the value zero are left out, as other writers do.
void put_event_head(std::string& out, double wall_time, int64_t step) {
  if (wall_time != 0) put_double(out, kWallTime, wall_time);
  if (step != 0) put_integer(out, kStep, static_cast<uint64_t>(step));
}

bool skip(std::string_view& from, uint64_t bytes) {
  if (bytes > from.size()) return false;
  from.remove_prefix(static_cast<size_t>(bytes));
  return true;
}

// The step of an event; nothing when the bytes are none.
std::optional<int64_t> step_of(std::string_view event) {
  int64_t step = 0;
  while (!event.empty()) {
    const std::optional<uint64_t> key = take_varint(event);
    if (!key || *key >> 3 == 0) return std::nullopt;
    const uint64_t type = *key & 7;
    if (type == kFixed64 || type == kFixed32) {
      if (!skip(event, type == kFixed64 ? 8 : 4)) return std::nullopt;
      continue;
    }
    if (type != kVarint && type != kBytes) return std::nullopt;
    const std::optional<uint64_t> value = take_varint(event);
    if (!value || (type == kBytes && !skip(event, *value))) return std::nullopt;
    if (type == kVarint && *key >> 3 == kStep) step = static_cast<int64_t>(*value);
  }
  return step;
}

// ---- Records.

// A checksum of bytes that hold checksums is weak; so the format stores it turned and shifted.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

struct Good {
  uint64_t bytes = 0;
  int64_t step = -1;  // of its last record
};

// How much of the file is good.
Good good_part(std::FILE* file, uint64_t size, int64_t last_step) {
  std::string bytes;
  const auto read = [&](size_t count) {
    bytes.resize(count);
    return std::fread(bytes.data(), 1, count, file) == count;
  };
  for (Good kept;;) {
    if (!read(kHeadBytes)) return kept;
    const auto length = get<uint64_t>(bytes.data());
    if (masked_crc({bytes.data(), sizeof(length)}) != get<uint32_t>(&bytes[8])) return kept;
    const uint64_t left = size - std::min(size, kept.bytes + kHeadBytes);
    if (length > EventFile::kLargestRecord || length + kTailBytes > left) return kept;
    if (!read(static_cast<size_t>(length) + kTailBytes)) return kept;
    const std::string_view data(bytes.data(), static_cast<size_t>(length));
    if (masked_crc(data) != get<uint32_t>(data.data() + data.size())) return kept;
    const std::optional<int64_t> step = step_of(data);
    if (!step || *step > last_step) return kept;
    kept = {kept.bytes + kHeadBytes + length + kTailBytes, *step};
  }
}

// ---- Files.

[[noreturn]] void cannot(const char* verb, const std::string& path, int error) {
  throw Error(ErrorCode::kData, fmt::format("cannot {} {}: {}", verb, path, reason_of(error)));
}

// The time in a name and the number behind it, if it is the name of an event file of ours.
std::optional<std::pair<uint64_t, uint64_t>> age_of(std::string_view name) {
  const auto take_number = [&name](uint64_t& number) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    return error == std::errc();
  };
  const auto take = [&name](std::string_view text) {
    const bool there = name.starts_with(text);
    if (there) name.remove_prefix(text.size());
    return there;
  };
  uint64_t time = 0, number = 0;
  if (!take(kFilePrefix) || !take_number(time) || !take(kFileSuffix)) return std::nullopt;
  if (!name.empty() && (!take(".") || !take_number(number) || !name.empty())) return std::nullopt;
  return std::pair(time, number);
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

EventFile::EventFile(std::string path, Descriptor file, uint64_t size) noexcept
    : path_(std::move(path)), file_(std::move(file)), size_(size) {}

// Through another constructor, so that the destructor closes the file when this one fails.
EventFile::EventFile(Opened opened)
    : EventFile(std::move(opened.path), std::move(opened.file), opened.size) {
  if (size_ > 0) return;
  const size_t begin = begin_record();
  put_event_head(buffer_, seconds_since_1970(), 0);
  put_text(buffer_, kFileVersion, kVersion);
  end_record(begin);
  flush();
}

EventFile::EventFile(const Directory& directory) : EventFile(create(directory)) {}

EventFile EventFile::reopen(const Directory& directory, int64_t last_step) {
  const std::vector<std::string> files = event_files(directory);
  int64_t step = 0;
  for (const std::string& name : files) {
    step = std::max(step, cut_event_file(directory, name, last_step));
  }
  if (step < last_step) {
    log::warn("the event file lacks updates before the checkpoint, TensorBoard's curves as well",
              {{"directory", directory.path()},
               {"last_step", std::to_string(step)},
               {"checkpoint", std::to_string(last_step)}});
  }
  return EventFile(files.empty() ? create(directory) : open(directory, files.back()));
}

EventFile::~EventFile() {
  if (!file_.is_open()) return;
  try {
    flush();
  } catch (const Error&) {  // a destructor has nobody to tell
  }
}

EventFile::EventFile(EventFile&& other) noexcept = default;

EventFile& EventFile::operator=(EventFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  std::swap(buffer_, other.buffer_);
  return *this;
}

EventFile::Opened EventFile::create(const Directory& directory) {
  const std::string first = fmt::format("{}{:010}{}", kFilePrefix,
                                        static_cast<int64_t>(seconds_since_1970()), kFileSuffix);
  std::string name = first;
  for (int number = 2; directory.holds(name); ++number) {
    name = fmt::format("{}.{}", first, number);  // the second run in this second
  }
  return {directory.path(name), directory.create(name), 0};
}

EventFile::Opened EventFile::open(const Directory& directory, const std::string& name) {
  Descriptor file = directory.open_to_write(name, Directory::Place::kAnywhere);
  struct stat facts;
  if (::fstat(file.get(), &facts) != 0) cannot("write", directory.path(name), errno);
  return {directory.path(name), std::move(file), static_cast<uint64_t>(facts.st_size)};
}

size_t EventFile::begin_record() {
  const size_t begin = buffer_.size();
  buffer_.resize(begin + kHeadBytes);
  return begin;
}

void EventFile::end_record(size_t begin) {
  const std::string_view data = std::string_view(buffer_).substr(begin + kHeadBytes);
  if (data.size() > kLargestRecord) {
    const size_t size = data.size();
    buffer_.resize(begin);
    throw Error(ErrorCode::kData, fmt::format("cannot write {}: a record of {} bytes, {} are the "
                                              "most",
                                              path_, size, kLargestRecord));
  }
  const uint64_t length = data.size();
  const uint32_t data_crc = masked_crc(data);
  std::memcpy(&buffer_[begin], &length, sizeof(length));
  const uint32_t length_crc = masked_crc({&buffer_[begin], sizeof(length)});
  std::memcpy(&buffer_[begin + sizeof(length)], &length_crc, sizeof(length_crc));
  put(buffer_, data_crc);
  if (buffer_.size() >= kBufferBytes) flush();
}

void EventFile::add(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  const size_t begin = begin_record();
  put_event_head(buffer_, wall_time, step);
  put_message(buffer_, kSummaryField, [&] {
    for (const Scalar& scalar : scalars) {
      put_message(buffer_, kValue, [&] {
        put_text(buffer_, kTag, scalar.first);
        put_float(buffer_, kSimpleValue, static_cast<float>(scalar.second));
      });
    }
  });
  end_record(begin);
}

void EventFile::add_text(double wall_time, int64_t step, std::string_view tag,
                         std::string_view text) {
  const size_t begin = begin_record();
  put_event_head(buffer_, wall_time, step);
  put_message(buffer_, kSummaryField, [&] {
    put_message(buffer_, kValue, [&] {
      put_text(buffer_, kTag, tag);
      put_message(buffer_, kTensor, [&] {
        put_integer(buffer_, kDType, kDTypeString);
        put_message(buffer_, kShape, [] {});  // of rank 0
        put_text(buffer_, kStringValue, text);
      });
      put_message(buffer_, kMetadata, [&] {
        put_message(buffer_, kPluginData, [&] { put_text(buffer_, kPluginName, "text"); });
        put_integer(buffer_, kDataClass, kDataClassTensor);
      });
    });
  });
  end_record(begin);
}

void EventFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t wrote = ::pwrite(file_.get(), buffer_.data() + done, buffer_.size() - done,
                                   static_cast<off_t>(size_ + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int error = errno;
      // Half a record would hide all that come behind it. What cannot be written is given up, for
      // a run that goes on must not keep ever more of it.
      buffer_.clear();
      if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) cannot("cut", path_, errno);
      cannot("write", path_, error);
    }
    done += static_cast<size_t>(wrote);
  }
  size_ += done;
  buffer_.clear();
}

void EventFile::sync() {
  flush();
  if (::fsync(file_.get()) != 0) cannot("write", path_, errno);
}

std::vector<std::string> event_files(const Directory& directory) {
  std::vector<std::tuple<uint64_t, uint64_t, std::string>> found;
  for (const std::string& name : directory.names()) {
    if (const auto age = age_of(name)) found.emplace_back(age->first, age->second, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [time, number, name] : found) names.push_back(std::move(name));
  return names;
}

int64_t cut_event_file(const Directory& directory, const std::string& name, int64_t last_step) {
  return cut_event_file(directory.open_to_write(name, Directory::Place::kAnywhere),
                        directory.path(name), last_step);
}

int64_t cut_event_file(Descriptor opened, const std::string& path, int64_t last_step) {
  const int fd = opened.get();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(::fdopen(fd, "r"), std::fclose);
  if (file == nullptr) cannot("cut", path, errno);
  opened.release();
  struct stat facts;
  if (::fstat(fd, &facts) != 0) cannot("cut", path, errno);
  const auto size = static_cast<uint64_t>(facts.st_size);
  errno = 0;
  std::rewind(file.get());
  const Good kept = good_part(file.get(), size, last_step);
  if (std::ferror(file.get()) != 0) cannot("read", path, errno);
  if (kept.bytes < size && ::ftruncate(fd, static_cast<off_t>(kept.bytes)) != 0) {
    cannot("cut", path, errno);
  }
  return kept.step;
}

}  // namespace flotilla
