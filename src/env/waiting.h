// Whether envs make the threads that step them wait: for a reply, a file, a simulator elsewhere.
#pragma once

#include <atomic>
#include <cstdint>

namespace flotilla {

// Compares how long threads waited with how long they worked. To wait for a core is neither: a
// thread that another one drove from its core would have gone on.
class Waiting {
 public:
  struct Moment {
    uint64_t wall_ns = 0, cpu_ns = 0, queue_ns = 0;
    int64_t waits = 0;
    static Moment now();  // of the calling thread
  };
  void add_since(const Moment& begin);  // by any thread

  // Whether threads waited for longer than they worked; what is long past counts less and less.
  bool settle();

 private:
  std::atomic<uint64_t> waited_ns_{0}, worked_ns_{0};
};

}  // namespace flotilla
