#include "flotilla/core/base64.h"

#include <gtest/gtest.h>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Base64, VectorsOfTheStandard) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : vectors) {
    EXPECT_EQ(to_base64(bytes_of(plain)), coded);
    EXPECT_EQ(from_base64(coded), bytes_of(plain));
  }
}

TEST(Base64, RoundTrip) {
  Rng rng(1, stream_of(Purpose::kTest, 0));
  for (size_t size = 0; size < 200; ++size) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
}

TEST(Base64, RefusesWhatItDoesNotWrite) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg==Zg==", "Zh==", "Zm9=", "Zm 9", "Zm9v\n",
                           "====", "Z===", "Zm=v", "\xff\xff\xff\xff"}) {
    EXPECT_EQ(test::error_text(ErrorCode::kData, [&] { from_base64(text); }),
              "a text is not base64")
        << text;
  }
}

}  // namespace
}  // namespace flotilla
