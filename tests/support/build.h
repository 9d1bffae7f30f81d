// What kind of build this test runs in.
#pragma once

namespace flotilla::test {

// Sanitizers change memory use and timing; tests that measure these skip there.
#if defined(FLOTILLA_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// The thread sanitizer cannot follow a fork from a process with threads into new threads.
#if defined(FLOTILLA_THREAD_SANITIZED)
constexpr bool kCanFork = false;
#else
constexpr bool kCanFork = true;
#endif

}  // namespace flotilla::test
