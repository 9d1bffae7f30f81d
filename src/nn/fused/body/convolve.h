// The convolutions of a torso, forwards and backwards, one observation at a time: products of the
// windows of a picture, which are read where they lie, with the matrix of taps and outputs.
// Part of kernel_body.h.
#pragma once

struct Convolutions {
  typedef Packed<kPad> Matrix;

  // sums: what the block was given, which kOuter adds to. out: the picture that is read next; or
  // what is to be pooled.
  static void forward(const Network& net, const ConvLayer& conv, const float* in, float* sums,
                      float* out) {
    const float* bias = net.params + conv.bias;
    const bool adds = conv.role == Role::kOuter;
    const bool relu = conv.relu && conv.role != Role::kPooled;
    const long width = conv.outputs;
    const int32_t* at = conv.sum_at;
    const auto start = [=](long window, long column) FLOTILLA_INLINE_LAMBDA {
      const V first = load(bias + column);
      return adds ? first + load(sums + window * width + column) : first;
    };
    const auto end = [=](long window, long column, V sum) FLOTILLA_INLINE_LAMBDA {
      if (adds) store(sums + window * width + column, sum);
      store(out + at[window] + column, relu ? max(sum, V{}) : sum);
    };
    const Windows windows{in, conv.window_at, conv.kernel, conv.kernel * conv.inputs,
                          1,  conv.in_row};
    Matrix::multiply(conv.windows(), conv.outputs, conv.taps(), windows, net.derived + conv.packed,
                     start, end);
  }

  // The largest of 3 x 3 sums, of equal ones the first; `largest` says which. Cells outside of the
  // picture do not count.
  static void pool(const ConvLayer& conv, const float* sums, float* pooled, float* out,
                   float* largest) {
    for_pool(conv, [=, &conv](int cell, const int* at) FLOTILLA_INLINE_LAMBDA {
      for (int c = 0; c < conv.outputs; c += kLanes) {
        V most = splat(-__builtin_inff()), which = V{};
        for (int tap = 0; tap < kPoolTaps; ++tap) {
          if (at[tap] < 0) continue;
          const V sum = load(sums + at[tap] + c);
          const auto larger = sum > most;
          most = larger ? sum : most;
          which = larger ? splat(static_cast<float>(tap)) : which;
        }
        const long to = static_cast<long>(cell) * conv.outputs + c;
        store(pooled + to, most);
        store(largest + to, which);
        store(out + conv.out_at[cell] + c, max(most, V{}));
      }
    });
  }

  // d_sums: what d_pooled is the gradient of, before the pool.
  static void unpool(const ConvLayer& conv, const float* d_pooled, const float* largest,
                     float* d_sums) {
    const long size = static_cast<long>(conv.windows()) * conv.outputs;
    __builtin_memset(d_sums, 0, static_cast<size_t>(size) * sizeof(float));
    for_pool(conv, [=, &conv](int cell, const int* at) FLOTILLA_INLINE_LAMBDA {
      for (int c = 0; c < conv.outputs; c += kLanes) {
        const long from = static_cast<long>(cell) * conv.outputs + c;
        const V d = load(d_pooled + from), which = load(largest + from);
        for (int tap = 0; tap < kPoolTaps; ++tap) {
          if (at[tap] < 0) continue;
          float* to = d_sums + at[tap] + c;
          store(to, load(to) + (which == splat(static_cast<float>(tap)) ? d : V{}));
        }
      }
    });
  }

  // gradient += windows^T * d
  static void add_gradient(const ConvLayer& conv, const float* in, const float* d,
                           float* gradient) {
    const Windows taps{in,
                       conv.tap_at,
                       conv.rows,
                       conv.columns,
                       conv.stride * conv.inputs,
                       conv.stride * conv.in_row};
    add_product(conv.taps(), conv.outputs, conv.windows(), taps, {d, conv.outputs},
                gradient + conv.weight);
    add_column_sums(d, conv.windows(), conv.outputs, gradient + conv.bias);
  }

  // d_in = d * W^T, added up over the windows that a number is in.
  static void input_gradient(const Network& net, const ConvLayer& conv, const float* d,
                             float* d_in) {
    __builtin_memset(d_in, 0, conv.in_size * sizeof(float));
    const int32_t *window_at = conv.window_at, *tap_at = conv.tap_at;
    const auto end = [=](long window, long tap, V sum) FLOTILLA_INLINE_LAMBDA {
      float* to = d_in + window_at[window] + tap_at[tap];
      store(to, load(to) + sum);
    };
    Matrix::multiply(conv.windows(), conv.taps(), conv.outputs, Left{d, conv.outputs, 1},
                     net.derived + conv.transposed, FromZero(), end);
  }

  // d: the gradient of the sums that `in` is the relu of, or of `in` itself; from that of `in`.
  static void take(const ConvLayer& conv, const float* d_in, const float* in, bool relu, bool adds,
                   float* d) {
    for (int cell = 0; cell < conv.in_cells; ++cell) {
      const long at = conv.in_at[cell];
      for (int c = 0; c < conv.inputs; c += kLanes) {
        V each = load(d_in + at + c);
        if (relu) each = load(in + at + c) > V{} ? each : V{};
        store(d + c, adds ? load(d + c) + each : each);
      }
      d += conv.inputs;
    }
  }

  static void derive(const ConvLayer& conv, bool backwards, const float* params, float* derived) {
    const float* weight = params + conv.weight;
    Matrix::pack(weight, conv.taps(), conv.outputs, derived + conv.packed);
    if (!backwards) return;
    Matrix::pack_transposed(weight, conv.taps(), conv.outputs, derived + conv.transposed);
  }

 private:
  static constexpr int kPoolTaps = 9;

  // each(cell, at): where the sums of its window lie; below 0 for those outside.
  template <class Each>
  static FLOTILLA_INLINE void for_pool(const ConvLayer& conv, Each each) {
    for (int row = 0; row < conv.out_rows; ++row) {
      for (int column = 0; column < conv.out_columns; ++column) {
        int at[kPoolTaps];
        for (int tap = 0; tap < kPoolTaps; ++tap) {
          const int r = 2 * row - 1 + tap / 3, c = 2 * column - 1 + tap % 3;
          const bool inside = r >= 0 && r < conv.rows && c >= 0 && c < conv.columns;
          at[tap] = inside ? (r * conv.columns + c) * conv.outputs : -1;
        }
        each(row * conv.out_columns + column, at);
      }
    }
  }
};
