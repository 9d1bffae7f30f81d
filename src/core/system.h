// Facts about the machine and this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

std::vector<int> own_cpus();  // that this process may use
int cpu_count();              // of them
void stay_on(int cpu);        // from now on this thread runs nowhere else
std::string cpu_model();      // "Intel(R) Xeon(R) Processor"
std::string gpu_model();      // of the first NVIDIA GPU, or ""
std::string cpu_features();   // "avx2 avx512f ...": the vector instructions it has

// What this program was called as, for commands that a message offers; "flotilla" where nobody has
// said. To be said before threads start.
const std::string& program_name();
void set_program_name(std::string name);

uint64_t available_memory_bytes();  // what can still be allocated: free memory, cgroup limit
uint64_t resident_bytes();          // of this process
uint64_t peak_resident_bytes();     // the most it ever was

// A file that comes with the program: in share/flotilla of the installation or of the build folder,
// or in share/ beside the extension module of an interpreter; "" where it is in none.
// FLOTILLA_ASSETS names another place.
std::string find_asset(const std::string& name);

// Throws Error(kUsage) "<what> needs 12.0 GiB of memory; 8.1 GiB are available" when it does not
// fit.
void require_memory(uint64_t bytes, const std::string& what);

// From main(): SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process, so that the
// running step can finish. A second one, or `grace_s` seconds, end it at once with status 130.
void install_interrupt_handler(unsigned grace_s);
bool interrupted();
void stop_if_interrupted();  // throws Error(kInterrupted)

// For code in a process whose signals are somebody else's, such as an interpreter's: while one of
// these lives, SIGINT makes interrupted() true, and whoever handled it before still does. The last
// one that goes forgets it.
class InterruptListener {
 public:
  InterruptListener();
  ~InterruptListener();
  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;
};

// For work that wants to end by itself: the first signal prints `notice` on stderr and waits for as
// long as it takes. `notice` must stay.
void wait_for_interrupted_work(const char* notice);

}  // namespace flotilla
