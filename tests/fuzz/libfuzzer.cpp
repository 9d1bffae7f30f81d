// One reader as a target of libFuzzer: FLOTILLA_FUZZ_READER is its name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto reader = flotilla::fuzz::make_reader(FLOTILLA_FUZZ_READER);
  // What read_one() lets through ends the program, and libFuzzer keeps the input.
  flotilla::fuzz::read_one(*reader, {reinterpret_cast<const char*>(data), size});
  return 0;
}
