// What the system refuses to a program: memory, threads, files. Said in words that name the
// resource and the limit that may stand behind it.
//
// A failed allocation ends a command as any other error does. Two things help it on the way to its
// message: memory that is kept back for it, and a last handler for where no exception may pass.
#pragma once

#include <exception>
#include <string>

#include "flotilla/core/error.h"

namespace flotilla {

// The text of an errno: "Too many open files (limit: 64 open files)".
std::string reason_of(int error);

// "out of memory (limit: 43.9 MiB of memory)"
std::string out_of_memory();

// What an exception of any library says, in our words. An Error stays what it is; others have the
// code kInternal.
Error as_error(const std::exception& exception);

// Whether it tells of a refusal, and not of a mistake in what was asked for or in the code.
bool is_refusal(const std::exception& exception);

// To be called once, first in main(). Keeps memory back that the first failed allocation releases,
// and ends the process with a line on stderr and exit_status(kInternal) where an exception for want
// of memory cannot be passed on: many functions of the standard library that throw nothing
// allocate.
void prepare_for_memory_shortage();

}  // namespace flotilla
