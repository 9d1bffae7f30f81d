#include "flotilla/train/event_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/core/alloc_count.h"
#include "flotilla/core/error.h"
#include "support/child.h"
#include "support/error_text.h"
#include "support/slow_event_file.h"

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Scalars = std::vector<EventFile::Scalar>;

constexpr size_t kVersionBytes = 40;  // the record of the version, with its time

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& bytes) {
  fs::remove(path);  // to write over a file takes some file systems milliseconds
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::optional<Field> field(const std::vector<Field>& fields, uint64_t number) {
  for (const Field& each : fields) {
    if (each.number == number) return each;
  }
  return std::nullopt;
}

// An event in words: "version brain.Event:2", "7 @1.5: a=2 b=nan", "0 @2: config='text'".
std::string describe(const SlowRecord& record) {
  if (const auto version = field(record.fields, 3)) return "version " + version->bytes;
  const auto time = field(record.fields, 1);
  std::string text =
      fmt::format("{} @{}:", record.step, std::bit_cast<double>(time ? time->value : 0));
  const std::vector<Field> values = slow_fields(field(record.fields, 5)->bytes).value();
  for (const Field& value : values) {
    const std::vector<Field> fields = slow_fields(value.bytes).value();
    text += " " + field(fields, 1)->bytes + "=";
    if (const auto number = field(fields, 2)) {
      text += fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(number->value)));
    } else {
      text += "'" + field(slow_fields(field(fields, 8)->bytes).value(), 8)->bytes + "'";
    }
  }
  return text;
}

using Events = std::vector<std::string>;

// All of a file, of which nothing may be damaged.
Events events_in(const std::string& path) {
  const std::string bytes = contents(path);
  const std::vector<SlowRecord> records = slow_records(bytes);
  EXPECT_EQ(records.empty() ? 0 : records.back().end, bytes.size()) << "something is damaged";
  Events events;
  for (const SlowRecord& record : records) events.push_back(describe(record));
  return events;
}

class EventFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "flotilla-events-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string only_file() const {
    const std::vector<std::string> files = event_files(dir_);
    EXPECT_EQ(files.size(), 1u);
    return path(files.at(0));
  }

  // A run of some steps; returns the bytes of its file.
  std::string small_run() const {
    EventFile file(dir_);
    file.add_text(1, 0, "config", "seed: 1\n");
    for (int64_t step = 10; step <= 40; step += 10) {
      file.add(static_cast<double>(step), step,
               Scalars{{"charts/return", 0.5}, {"losses/kl", static_cast<double>(step)}});
    }
    file.flush();
    return contents(file.path());
  }

  std::string dir_;
};

// Where a file of these bytes is cut, by the twin.
size_t expected_size(std::string_view bytes, int64_t last_step) {
  size_t end = 0;
  for (const SlowRecord& record : slow_records(bytes)) {
    if (record.step > last_step) break;
    end = record.end;
  }
  return end;
}

TEST_F(EventFiles, ANewFileSaysItsVersion) {
  const auto before = static_cast<double>(std::time(nullptr));
  const EventFile file(dir_);
  const std::string bytes = contents(file.path());  // at once
  const std::vector<SlowRecord> records = slow_records(bytes);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(bytes.size(), kVersionBytes);
  EXPECT_EQ(describe(records[0]), "version brain.Event:2");
  const auto time = std::bit_cast<double>(field(records[0].fields, 1)->value);
  EXPECT_NEAR(time, before, 5);
  const std::string name = fs::path(file.path()).filename();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.")) << name;
  EXPECT_TRUE(name.ends_with(".flotilla")) << name;
  EXPECT_NEAR(std::stod(name.substr(20)), before, 5);
  EXPECT_EQ(only_file(), file.path());
}

// The bytes that TensorBoard's own classes give.
TEST_F(EventFiles, Golden) {
  const auto record = [&](const auto& add) {
    EventFile file(dir_);
    add(file);
    file.flush();
    return hex(contents(file.path()).substr(kVersionBytes));
  };
  EXPECT_EQ(record([](EventFile& file) {
              file.add(1.5, 300, Scalars{{"losses/kl", 0.25}, {"b", NAN}});
            }),
            "2a00000000000000ae8d91f5"
            "09000000000000f83f"  // wall_time
            "10ac02"              // step
            "2a1c"                // summary
            "0a10"
            "0a096c6f737365732f6b6c"
            "150000803e"
            "0a08"
            "0a0162"
            "150000c07f"
            "4a607d0c");
  EXPECT_EQ(record([](EventFile& file) { file.add_text(2, 0, "config", "seed: 1\n"); }),
            "31000000000000009d8383e90900000000000000402a260a240a06636f6e666967420e0807120042087365"
            "65643a20310a4a0a0a060a04746578742002f75a5467");
  EXPECT_EQ(record([](EventFile& file) { file.add(0, -1, Scalars{}); }),
            "0d000000000000003c37b83410ffffffffffffffffff012a00118cb34c");
}

TEST_F(EventFiles, RoundTrip) {
  EventFile file(dir_);
  file.add_text(1, 0, "config", "a: 1\n\xff");
  file.add(2, 1, Scalars{{"a", 1.25}, {"zero", 0}, {"nan", NAN}, {"inf", -INFINITY}});
  file.add(3.5, int64_t{1} << 40, Scalars{{"a", 1e300}});
  file.add(4, std::numeric_limits<int64_t>::max(), Scalars{});
  file.add_text(5, 5, "long", std::string(300, 'x'));
  file.add(6, 6, Scalars{{std::string(200, 't'), 0.1}});
  file.flush();
  EXPECT_EQ(events_in(file.path()),
            (Events{"version brain.Event:2", "0 @1: config='a: 1\n\xff'",
                    "1 @2: a=1.25 zero=0 nan=nan inf=-inf", "1099511627776 @3.5: a=inf",
                    "9223372036854775807 @4:", "5 @5: long='" + std::string(300, 'x') + "'",
                    "6 @6: " + std::string(200, 't') + "=0.1"}));
}

TEST_F(EventFiles, WrittenAtAFlushOrWhenThereIsEnough) {
  EventFile file(dir_);
  file.add(1, 1, Scalars{{"a", 1}});
  EXPECT_EQ(contents(file.path()).size(), kVersionBytes);
  file.flush();
  EXPECT_EQ(events_in(file.path()).size(), 2u);
  for (int i = 0; i < 2000; ++i) file.add(1, 2, Scalars{{"a tag that is a little longer", 1}});
  EXPECT_GT(events_in(file.path()).size(), 1000u);
  file.sync();
  EXPECT_EQ(events_in(file.path()).size(), 2002u);
}

TEST_F(EventFiles, TheDestructorFlushes) {
  std::string path;
  {
    EventFile file(dir_);
    path = file.path();
    file.add(1, 1, Scalars{{"a", 1}});
    EventFile moved(std::move(file));
    moved.add(1, 2, Scalars{{"a", 2}});
    EventFile other(dir_);
    other = std::move(moved);
    other.add(1, 3, Scalars{{"a", 3}});
  }
  EXPECT_EQ(events_in(path),
            (Events{"version brain.Event:2", "1 @1: a=1", "2 @1: a=2", "3 @1: a=3"}));
}

TEST_F(EventFiles, MemoryDoesNotGrow) {
  if (!can_count_allocations()) GTEST_SKIP() << "not in this build";
  EventFile file(dir_);
  const Scalars scalars = {{"charts/SPS", 1}, {"losses/a name that is not a short string", 2}};
  const auto write = [&](int64_t events) {
    for (int64_t step = 0; step < events; ++step) file.add(1, step, scalars);
    file.flush();
  };
  write(3000);
  const uint64_t before = allocation_count();
  write(10'000);
  EXPECT_EQ(allocation_count(), before);
}

TEST_F(EventFiles, CutAtEveryByteAndStep) {
  const std::string whole = small_run();
  ASSERT_EQ(slow_records(whole).size(), 6u);
  const std::string file = path("cut");
  for (const int64_t last_step : {-1, 0, 9, 10, 25, 40, 1000}) {
    for (size_t size = 0; size <= whole.size(); ++size) {
      put(file, whole.substr(0, size));
      const int64_t step = cut_event_file(dir_, "cut", last_step);
      const std::string now = contents(file);
      const std::vector<SlowRecord> left = slow_records(now);
      ASSERT_EQ(step, left.empty() ? -1 : left.back().step) << size << " bytes";
      ASSERT_EQ(now, whole.substr(0, expected_size(whole.substr(0, size), last_step)))
          << size << " bytes, step " << last_step;
    }
  }
  // The numbers, by hand: nothing of step -1, two records of step 0, one more of step 10, all.
  EXPECT_EQ(expected_size(whole, -1), 0u);
  EXPECT_EQ(slow_records(whole)[1].end, expected_size(whole, 9));
  EXPECT_EQ(slow_records(whole)[2].end, expected_size(whole, 10));
  EXPECT_EQ(whole.size(), expected_size(whole, 40));
}

TEST_F(EventFiles, AnAlteredByteEndsTheFileBeforeItsRecord) {
  const std::string whole = small_run();
  const std::vector<SlowRecord> records = slow_records(whole);
  const std::string file = path("cut");
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string altered = whole;
    altered[at] = static_cast<char>(altered[at] ^ (1 << at % 8));
    put(file, altered);
    cut_event_file(dir_, "cut", 1000);
    size_t before = 0;
    for (const SlowRecord& record : records) {
      if (record.end <= at) before = record.end;
    }
    ASSERT_EQ(contents(file), whole.substr(0, before)) << at;
  }
}

TEST_F(EventFiles, WhatIsNoEventIsCutOff) {
  const std::string whole = small_run();
  const std::string file = path("cut");
  const auto record = [](const std::string& data, std::optional<uint64_t> length = {}) {
    const auto word = [](uint64_t value, size_t bytes) {
      std::string text;
      for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
      return text;
    };
    const std::string head = word(length.value_or(data.size()), 8);
    return head + word(slow_masked_crc(head), 4) + data + word(slow_masked_crc(data), 4);
  };
  const auto cut_to = [&](const std::string& bytes) {
    put(file, bytes);
    cut_event_file(dir_, "cut", 1000);
    return contents(file);
  };
  for (const std::string& tail :
       {std::string("x"), std::string(16, '\0'), std::string(5000, '\0'), std::string(12, '\xff'),
        record("\x08"), record(std::string("\x10", 1)), record("\x10" + std::string(10, '\xff')),
        record(std::string("\x00\x01", 2)), record("\x2a\x06short"), record("\x0b"),
        record("\x09short"), record("\x15" + std::string(3, 'x')), record("x", UINT64_MAX),
        record("x", UINT64_MAX - 3), record("x", uint64_t{1} << 63), record("x", 1000)}) {
    EXPECT_EQ(cut_to(whole + tail), whole) << hex(tail);
    EXPECT_EQ(cut_to(tail), "") << hex(tail);
    EXPECT_EQ(cut_to(tail + whole), "") << hex(tail);
  }
  // Events of other writers: without a step, with fields that we do not know, a step given twice.
  for (const std::string& good :
       {record(""), record("\x78\x01"), record(std::string("\x10\xff\xff\xff\x7f\x10\x07", 7)),
        record(std::string("\x12\x02\xff\x7f", 4))}) {
    EXPECT_EQ(cut_to(whole + good), whole + good) << hex(good);
  }
  EXPECT_EQ(cut_to(whole + record(std::string("\x10\x07\x10\xff\xff\xff\x7f", 7))), whole);
}

TEST_F(EventFiles, ARunGoesOnAfterACutAtEveryByte) {
  const std::string whole = small_run();
  const std::string file = only_file();
  const Events all = events_in(file);
  ASSERT_EQ(all.size(), 6u);
  for (const int64_t last_step : {0, 20, 40}) {
    for (size_t size = 0; size <= whole.size(); ++size) {
      put(file, whole.substr(0, size));
      {
        EventFile again = EventFile::reopen(dir_, last_step);
        ASSERT_EQ(again.path(), file);
        again.add(99, 50, Scalars{{"new", 1}});
      }
      Events expected;
      for (const SlowRecord& record : slow_records(whole.substr(0, size))) {
        if (record.step <= last_step) expected.push_back(describe(record));
      }
      if (expected.empty()) expected.push_back(all[0]);  // written again
      expected.emplace_back("50 @99: new=1");
      ASSERT_EQ(events_in(file), expected) << size << " bytes, step " << last_step;
    }
  }
}

TEST_F(EventFiles, ReopenWithoutAFileMakesOne) {
  const EventFile file = EventFile::reopen(dir_, 100);
  EXPECT_EQ(events_in(only_file()), Events{"version brain.Event:2"});
  EXPECT_EQ(only_file(), file.path());
}

TEST_F(EventFiles, ReopenTakesTheNewestOfOursAndCutsAll) {
  const std::string whole = small_run();
  fs::remove(only_file());
  const std::vector<std::string> ours = {
      "events.out.tfevents.9.flotilla", "events.out.tfevents.0000000010.flotilla",
      "events.out.tfevents.10.flotilla.2", "events.out.tfevents.10.flotilla.11"};
  const std::vector<std::string> foreign = {
      "events.out.tfevents.99.host",        "events.out.tfevents.99.flotilla.v2",
      "events.out.tfevents.99.flotilla.",   "events.out.tfevents.x.flotilla",
      "events.out.tfevents.99.flotilla2",   "events.out.tfevents..flotilla",
      "events.out.tfevents.99.flotilla.1x", "metrics.jsonl"};
  for (const std::string& name : ours) put(path(name), whole);
  for (const std::string& name : foreign) put(path(name), whole);
  EXPECT_EQ(event_files(dir_), ours);
  const EventFile file = EventFile::reopen(dir_, 20);
  EXPECT_EQ(file.path(), path(ours.back()));
  for (const std::string& name : ours) EXPECT_EQ(events_in(path(name)).size(), 4u) << name;
  for (const std::string& name : foreign) EXPECT_EQ(contents(path(name)), whole) << name;
}

TEST_F(EventFiles, TwoRunsInOneSecondHaveTwoFiles) {
  std::vector<EventFile> files;
  files.reserve(5);
  for (int i = 0; i < 5; ++i) files.emplace_back(dir_);
  EXPECT_EQ(event_files(dir_).size(), 5u);
  EXPECT_EQ(path(event_files(dir_).back()), files.back().path());
}

TEST_F(EventFiles, WhatCannotBeOpenedIsNamed) {
  const std::string none = path("none");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { const EventFile file(none); }),
            "cannot open '" + none + "': No such file or directory");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { EventFile::reopen(none, 0); }),
            "cannot open '" + none + "': No such file or directory");
  fs::create_directory(path("folder"));
  fs::create_symlink("/dev/zero", path("link"));
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { cut_event_file(dir_, "folder", 0); }),
            "cannot write " + path("folder") + ": Is a directory");
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { cut_event_file(dir_, "link", 0); }),
            "cannot write " + path("link") + ": it is a symbolic link");
  const std::string pipe = path("events.out.tfevents.1.flotilla");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { EventFile::reopen(dir_, 0); }),
            "cannot write " + pipe + ": not a regular file");
}

TEST_F(EventFiles, ARecordThatIsTooLongIsRefused) {
  EventFile file(dir_);
  file.add(1, 1, Scalars{{"a", 1}});
  const std::string error = error_text(ErrorCode::kData, [&] {
    file.add_text(1, 1, "t", std::string(EventFile::kLargestRecord, 'x'));
  });
  EXPECT_EQ(error,
            "cannot write " + file.path() + ": a record of 67108914 bytes, 67108864 are the most");
  file.add(1, 2, Scalars{{"a", 2}});
  file.flush();
  EXPECT_EQ(events_in(file.path()), (Events{"version brain.Event:2", "1 @1: a=1", "2 @1: a=2"}));
}

// Writes until it fails, then gives way; the file holds what was flushed before, and what follows.
void expect_error_and_recovery(const std::string& dir, const std::string& reason,
                               const std::function<void()>& give_way) {
  EventFile file(dir);
  file.add(1, 1, Scalars{{"a", 1}});
  file.flush();
  const std::string before = contents(file.path());
  for (int i = 0; i < 100; ++i) file.add(1, 2, Scalars{{std::string(100, 'l'), 2}});
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { file.flush(); }),
            "cannot write " + file.path() + ": " + reason);
  EXPECT_EQ(contents(file.path()), before);
  // Also by itself; and nothing is kept that cannot be written.
  const std::string error = error_text(ErrorCode::kData, [&] {
    for (int i = 0; i < 10'000; ++i) file.add(1, 2, Scalars{{std::string(100, 'l'), 2}});
  });
  EXPECT_EQ(error, "cannot write " + file.path() + ": " + reason);
  EXPECT_EQ(contents(file.path()), before);
  give_way();
  file.add(1, 3, Scalars{{"a", 3}});
  file.flush();
  EXPECT_EQ(events_in(file.path()), (Events{"version brain.Event:2", "1 @1: a=1", "3 @1: a=3"}));
}

TEST_F(EventFiles, AFileSizeLimitIsReported) {
  const int status = status_of_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, RLIM_INFINITY}, none{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    expect_error_and_recovery(dir_, "File too large (limit: 1000 B a file)",
                              [&] { setrlimit(RLIMIT_FSIZE, &none); });
    return HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(exited_with(status, 0)) << status;
}

TEST_F(EventFiles, AFullDiskIsReported) {
  const std::string tiny = path("tiny"), filler = tiny + "/filler";
  fs::create_directory(tiny);
  if (mount("tmpfs", tiny.c_str(), "tmpfs", 0, "size=12k") != 0) {
    GTEST_SKIP() << "no tmpfs can be mounted here";
  }
  put(filler, std::string(4096, 'x'));
  expect_error_and_recovery(tiny, "No space left on device", [&] { fs::remove(filler); });
  umount2(tiny.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace flotilla::test
