// Work for a GPU, recorded as a CUDA graph and replayed: where kernels are small, launching them
// one by one takes most of the time.
//
// The memory a recording reads and writes is that of the arrays it saw; to give it other numbers,
// copy them there.
#pragma once

#ifdef FLOTILLA_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#include <optional>

namespace flotilla::torch_nn {

// What waits on it comes before what other streams have begun: the short passes of actors stand
// beside minibatches that fill the GPU. libtorch has 32 of them and hands them out in turn; whoever
// comes later shares one, and they take turns, for what one records is all that happens on it.
class FastStream {
 public:
  // Begins the work. What it reads must be there.
  template <class F>
  void start(const F& work) {
    const std::lock_guard turn(turn_);
    const c10::cuda::CUDAStreamGuard guard(stream_);
    work();
  }
  // Until it is done.
  void finish() {
    const std::lock_guard turn(turn_);
    stream_.synchronize();
  }

 private:
  static std::mutex& turn_on(c10::cuda::CUDAStream stream) {
    static std::mutex mutex;
    static std::map<cudaStream_t, std::mutex> turns;
    const std::lock_guard lock(mutex);
    return turns[stream.stream()];
  }

  c10::cuda::CUDAStream stream_ = c10::cuda::getStreamFromPool(true);
  std::mutex& turn_ = turn_on(stream_);
};

class Recording {
 public:
  bool made() const { return graph_.has_value(); }
  void replay() { graph_->replay(); }

  // Until the calling thread's work is done.
  static void wait() { c10::cuda::getCurrentCUDAStream().synchronize(); }

  // As work is recorded: on this stream, or where that is the default one, which records nothing,
  // on another.
  template <class F>
  static void rehearse(const F& work) {
    const auto current = c10::cuda::getCurrentCUDAStream();
    if (current != c10::cuda::getDefaultCUDAStream()) return work();
    static const thread_local c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
    current.synchronize();
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      work();
    }
    stream.synchronize();
  }

  // Records without doing. The work must have been rehearsed, so that libraries have made what they
  // keep. `before`: a recording that is always replayed before this one, and leaves it arrays.
  template <class F>
  void record(const F& work, Recording* before = nullptr) {
    rehearse([&] {
      const std::lock_guard lock(one_at_a_time_);
      graph_.emplace();
      // What other threads do meanwhile, such as acting with a snapshot, is none of its business.
      decltype(graph_->pool()) pool{0, 0};
      if (before != nullptr) pool = before->graph_->pool();
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      work();
      graph_->capture_end();
    });
  }

 private:
  static inline std::mutex one_at_a_time_;  // other threads may replay meanwhile

  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace flotilla::torch_nn

#else

namespace flotilla::torch_nn {

// Without CUDA nothing is ever recorded.
class FastStream {
 public:
  template <class F>
  void start(const F& work) {
    work();
  }
  void finish() {}
};

class Recording {
 public:
  bool made() const { return false; }
  void replay() {}
  static void wait() {}
  template <class F>
  static void rehearse(const F& work) {
    work();
  }
  template <class F>
  void record(const F& /*work*/, Recording* /*before*/ = nullptr) {}
};

}  // namespace flotilla::torch_nn

#endif
