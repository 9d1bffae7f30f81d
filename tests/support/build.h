// What kind of build this test runs in.
#pragma once

namespace flotilla::test {

// Sanitizers change memory use and timing; tests that measure these skip there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace flotilla::test
