// The message of the Error a call throws, after checking its code.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "flotilla/core/error.h"

namespace flotilla::test {

template <class F>
std::string error_text(ErrorCode code, F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace flotilla::test
