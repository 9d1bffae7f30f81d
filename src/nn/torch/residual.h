// What stands between the convolutions of a residual network on a GPU, as libtorch's autograd knows
// it. In: what a convolution without its bias makes. Out: what the next one takes.
#pragma once

#ifdef FLOTILLA_CUDA
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "flotilla/nn/torch/residual_kernels.h"

namespace flotilla::torch_nn {

// [pictures, channels, rows, columns], the channels innermost.
inline at::Tensor as_pictures(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}
inline Pictures shape_of(const at::Tensor& x) {
  TORCH_CHECK(x.size(1) % Pictures::kVector == 0, "pictures of ", x.size(1), " channels");
  const bool is_bf16 = x.scalar_type() == at::kBFloat16;
  TORCH_CHECK(is_bf16 || x.scalar_type() == at::kFloat, "pictures of ", x.scalar_type());
  return {.count = x.size(0),
          .rows = static_cast<int>(x.size(2)),
          .columns = static_cast<int>(x.size(3)),
          .channels = static_cast<int>(x.size(1)),
          .number = is_bf16 ? Number::kBf16 : Number::kFloat};
}
inline at::Tensor sum_of_channels(const at::Tensor& slopes) {
  return slopes.sum(at::IntArrayRef{0, 2, 3});
}

class AddAndPool : public torch::autograd::Function<AddAndPool> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& bias) {
    const at::Tensor from = as_pictures(x);
    const Pictures shape = shape_of(from);
    const std::array<int64_t, 4> sizes = {shape.count, shape.channels, pooled(shape.rows),
                                          pooled(shape.columns)};
    const auto format = at::MemoryFormat::ChannelsLast;
    at::Tensor out = at::empty(sizes, x.options(), format);
    at::Tensor passed = at::empty(sizes, x.options().dtype(at::kByte), format);
    add_and_pool(shape, from.data_ptr(), bias.contiguous().data_ptr(), out.data_ptr(),
                 passed.data_ptr<uint8_t>(), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->save_for_backward({passed});
    context->saved_data["sizes"] = x.sizes().vec();
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor slopes = as_pictures(gradients[0]);
    at::Tensor d_x = at::empty(context->saved_data["sizes"].toIntVector(), slopes.options(),
                               at::MemoryFormat::ChannelsLast);
    pool_back(shape_of(d_x), slopes.data_ptr(),
              context->get_saved_variables()[0].data_ptr<uint8_t>(), d_x.data_ptr(),
              c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {d_x, sum_of_channels(d_x)};
  }
};

class AddAndRelu : public torch::autograd::Function<AddAndRelu> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& bias) {
    const at::Tensor from = as_pictures(x);
    at::Tensor out = at::empty_like(from);
    add_and_relu(shape_of(from), from.data_ptr(), bias.contiguous().data_ptr(), out.data_ptr(),
                 c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    context->save_for_backward({out});
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor d_x =
        at::threshold_backward(gradients[0], context->get_saved_variables()[0], 0);
    return {d_x, sum_of_channels(d_x)};
  }
};

class AddAndJoin : public torch::autograd::Function<AddAndJoin> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x,
                            const at::Tensor& bias, const at::Tensor& skip) {
    const at::Tensor from = as_pictures(x), other = as_pictures(skip);
    at::Tensor out = at::empty_like(from);
    add_and_join(shape_of(from), from.data_ptr(), bias.contiguous().data_ptr(), other.data_ptr(),
                 out.data_ptr(), c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0], sum_of_channels(gradients[0]), gradients[0]};
  }
};

}  // namespace flotilla::torch_nn
#endif
