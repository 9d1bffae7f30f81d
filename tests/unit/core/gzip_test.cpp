#include "flotilla/core/gzip.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

constexpr size_t kLimit = 1u << 20u;
constexpr const char* kDamaged = "file: is damaged: it cannot be unpacked";

std::string refusal(std::string_view bytes, size_t limit = kLimit) {
  return error_text(ErrorCode::kData, [&] { gunzipped(bytes, "file", limit); });
}

TEST(Gzip, WhatWasPackedIsUnpacked) {
  std::string large;
  for (int i = 0; i < 50'000; ++i) large += std::to_string(i * 7919);
  for (const std::string& text : {std::string(), std::string("a\0b", 3), large}) {
    EXPECT_EQ(gunzipped(gzipped(text), "file", kLimit), text);
  }
  EXPECT_EQ(gunzipped(gzipped("one, ") + gzipped("two"), "file", kLimit), "one, two");
  EXPECT_EQ(gunzipped(gzipped("padded") + std::string(100, '\0'), "file", kLimit), "padded");
}

TEST(Gzip, WhatIsDamagedIsRefused) {
  const std::string packed = gzipped("some text that is packed");
  EXPECT_EQ(refusal(""), "file: is damaged: it is no gzip file");
  EXPECT_EQ(refusal("some text"), "file: is damaged: it is no gzip file");
  for (size_t size = 2; size < packed.size(); ++size) {
    EXPECT_EQ(refusal(packed.substr(0, size)), kDamaged) << size;
  }
  for (size_t i = packed.size() - 8; i < packed.size(); ++i) {  // checksum and size
    std::string altered = packed;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    EXPECT_EQ(refusal(altered), kDamaged) << i;
  }
  EXPECT_EQ(refusal(gzipped(std::string(5000, 'x')), 4999), "file: is too large");
}

TEST(Gzip, FilesArePlainOrPacked) {
  const std::string path = testing::TempDir() + "flotilla_gzip_test";
  const auto unreadable = [&] {
    return error_text(ErrorCode::kData, [&] { read_gzipped(path, kLimit); });
  };
  std::ofstream(path) << "plain";
  EXPECT_EQ(read_gzipped(path, kLimit), "plain");
  std::ofstream(path) << gzipped("packed");
  EXPECT_EQ(read_gzipped(path, kLimit), "packed");
  std::remove(path.c_str());
  EXPECT_EQ(unreadable(), "cannot read " + path + ": No such file or directory");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // nobody will ever write to it
  EXPECT_EQ(unreadable(), "cannot read " + path + ": not a regular file");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace flotilla
