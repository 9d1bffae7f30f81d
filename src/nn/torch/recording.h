// Work for a GPU, recorded as a CUDA graph and replayed: where kernels are small, launching them
// one by one takes most of the time.
//
// The memory a recording reads and writes is that of the arrays it saw; to give it other numbers,
// copy them there. What changes from time to time, such as snapshots that actors act with, is not
// recorded: to record takes longer than a few passes.
#pragma once

#ifdef FLOTILLA_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

namespace flotilla::torch_nn {

class Recording {
 public:
  bool made() const { return graph_.has_value(); }
  void replay() { graph_->replay(); }

  // Until the calling thread's work is done.
  static void wait() { c10::cuda::getCurrentCUDAStream().synchronize(); }

  // Beside what other threads do: on a stream that is not the default one, nor that of another
  // thread. What the work reads must be there.
  template <class F>
  static void apart(const F& work) {
    static const thread_local c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      work();
    }
    stream.synchronize();
  }

  // As work is recorded.
  template <class F>
  static void rehearse(const F& work) {
    wait();
    apart(work);
  }

  // Records without doing. The work must have been rehearsed, so that libraries have made what they
  // keep. `before`: a recording that is always replayed before this one, and leaves it arrays.
  template <class F>
  void record(const F& work, Recording* before = nullptr) {
    rehearse([&] {
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
  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace flotilla::torch_nn

#else

namespace flotilla::torch_nn {

// Without CUDA nothing is ever recorded.
class Recording {
 public:
  bool made() const { return false; }
  void replay() {}
  static void wait() {}
  template <class F>
  static void apart(const F& work) {
    work();
  }
  template <class F>
  static void rehearse(const F& work) {
    work();
  }
  template <class F>
  void record(const F& /*work*/, Recording* /*before*/ = nullptr) {}
};

}  // namespace flotilla::torch_nn

#endif
