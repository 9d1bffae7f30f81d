// The convolutions of a torso, forwards and backwards: products of the windows of pictures with the
// matrix of taps and outputs. Pictures of several observations lie one behind the other.
// Part of kernel_body.h.
#pragma once

// Numbers of pictures that are not rounded.
struct Exact {
  typedef float In;
  static FLOTILLA_INLINE void put(In* to, V v) { store(to, v); }
  static FLOTILLA_INLINE V get(const In* from) { return load(from); }
};

// What they do alike in either precision. Pictures hold numbers as products take them; features,
// and sums that are pooled or added up, are floats.
template <class Numbers>
struct Pictures {
  typedef typename Numbers::In In;

  // A line of an observation, in a picture.
  template <class From>
  static void put_line(const From* from, int width, float scale, In* to) {
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) Numbers::put(to + i, load(from + i) * splat(scale));
    if (i == width) return;
    float rest[kLanes] = {};
    In last[kLanes];
    for (int k = i; k < width; ++k) rest[k - i] = static_cast<float>(from[k]) * scale;
    Numbers::put(last, load(rest));
    __builtin_memcpy(to + i, last, static_cast<size_t>(width - i) * sizeof(In));
  }

  // Calls multiply(start, end) for the sums of windows from `first` on. sums: what the block was
  // given, which kOuter adds to. out: the picture or the features it makes, or what is to be
  // pooled.
  template <class Multiply>
  static FLOTILLA_INLINE void sum_windows(const Network& net, const ConvLayer& conv, int first,
                                          float* sums, void* out, Multiply multiply) {
    const float* bias = net.params + conv.bias;
    const bool adds = conv.role == Role::kOuter;
    const bool pooled = conv.role == Role::kPooled;
    const bool relu = conv.relu && !pooled;
    const bool exact = __is_same(Numbers, Exact) || conv.last || pooled;
    const long width = conv.outputs;
    const int32_t* at = conv.sum_at + first;
    sums += first * width;
    const auto given = [=](long window, long column) FLOTILLA_INLINE_LAMBDA {
      return load(bias + column) + load(sums + window * width + column);
    };
    const auto end = [=](long window, long column, V sum) FLOTILLA_INLINE_LAMBDA {
      if (adds) store(sums + window * width + column, sum);
      const V made = relu ? max(sum, V{}) : sum;
      const long to = at[window] + column;
      if (exact) return store((float*)out + to, made);
      Numbers::put((In*)out + to, made);
    };
    if (adds) return multiply(given, end);
    multiply(FromBias{bias}, end);
  }

  // Where gradients of what windows from `first` on hold go: to the numbers they hold, added up.
  static FLOTILLA_INLINE auto into_picture(const ConvLayer& conv, int first, float* d_in) {
    const int32_t *window_at = conv.window_at + first, *tap_at = conv.tap_at;
    return [=](long window, long tap, V sum) FLOTILLA_INLINE_LAMBDA {
      float* to = d_in + window_at[window] + tap_at[tap];
      store(to, load(to) + sum);
    };
  }

  // The largest of 3 x 3 sums, of equal ones the first; `largest` says which. Cells outside of the
  // picture do not count.
  static void pool(const ConvLayer& conv, const float* sums, float* pooled, In* out,
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
        Numbers::put(out + conv.out_at[cell] + c, max(most, V{}));
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

  // d: the gradient of the sums that `in` is the relu of, or of `in` itself; from that of `in`.
  static void take(const ConvLayer& conv, const float* d_in, const In* in, bool relu, bool adds,
                   float* d) {
    for (int cell = 0; cell < conv.in_cells; ++cell) {
      const long at = conv.in_at[cell];
      for (int c = 0; c < conv.inputs; c += kLanes) {
        V each = load(d_in + at + c);
        if (relu) each = Numbers::get(in + at + c) > V{} ? each : V{};
        store(d + c, adds ? load(d + c) + each : each);
      }
      d += conv.inputs;
    }
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

// Factors of 24 significant bits. Windows are read where they lie, of one observation at a time.
struct Fp32Convolutions : Pictures<Exact> {
  typedef Packed<kPad> Matrix;

  static void forward(const Network& net, const ConvLayer& conv, const float* in, int, float* sums,
                      void* out, float*) {
    const Windows windows{in, conv.window_at, conv.kernel, conv.kernel * conv.inputs,
                          1,  conv.in_row};
    sum_windows(net, conv, 0, sums, out, [&](auto start, auto end) FLOTILLA_INLINE_LAMBDA {
      Matrix::multiply(conv.windows(), conv.outputs, conv.taps(), windows,
                       net.derived + conv.packed, start, end);
    });
  }

  static void begin_gradient(const Plan&, float*) {}
  static void end_gradient(const Plan&, const float*, float*) {}

  // gradient += windows^T * d
  static void add_gradient(const Plan&, const ConvLayer& conv, const float* in, const float* d, int,
                           float* gradient, float*) {
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
  static void input_gradient(const Network& net, const ConvLayer& conv, const float* d, int,
                             float* d_in, float*) {
    __builtin_memset(d_in, 0, conv.in_size * sizeof(float));
    Matrix::multiply(conv.windows(), conv.taps(), conv.outputs, Left{d, conv.outputs, 1},
                     net.derived + conv.transposed, FromZero(), into_picture(conv, 0, d_in));
  }

  static void derive(const ConvLayer& conv, bool backwards, const float* params, float* derived) {
    const float* weight = params + conv.weight;
    Matrix::pack(weight, conv.taps(), conv.outputs, derived + conv.packed);
    if (!backwards) return;
    Matrix::pack_transposed(weight, conv.taps(), conv.outputs, derived + conv.transposed);
  }
};

// Factors that are rounded to bfloat16, in the products of nn/simd that are given. These want a row
// of factors in one piece, so windows are copied, as many at once as stay in the nearest cache; and
// the gradient is summed up turned around, [outputs][taps], because then windows are the right
// factor, which costs less to bring in order.
//
// Windows of several observations are rows of one product, or inputs of one: blocks of them are
// full, and sums of gradients, which are large, are read and written once for all of them. They are
// copied again on the way back: those of a tile are ten times the pictures they are in, and kept
// they would leave the caches.
template <class Products>
struct Bf16Convolutions : Pictures<Products>, LeftFactors<Products> {
  using typename LeftFactors<Products>::In;
  using LeftFactors<Products>::rounded, LeftFactors<Products>::turned;
  using Pictures<Products>::sum_windows, Pictures<Products>::into_picture;

  static void forward(const Network& net, const ConvLayer& conv, const In* in, int count,
                      float* sums, void* out, float* work) {
    const int deep = conv.deep();
    const long width = conv.outputs;
    in_groups(count * conv.windows(), kBlock, [&](int first, int some) {
      const In* windows = copy_windows(conv, in, first, some, work + net.plan->work_windows);
      sum_windows(net, conv, first, sums, out, [&](auto start, auto end) FLOTILLA_INLINE_LAMBDA {
        const auto end_inside = [=](long window, long column, V sum) FLOTILLA_INLINE_LAMBDA {
          if (column < width) end(window, column, sum);
        };
        Products::multiply(windows, deep, some, {deep, conv.wide(), net.derived + conv.packed},
                           start, end_inside);
      });
    });
  }

  static void begin_gradient(const Plan& plan, float* work) {
    for (int c = 0; c < plan.conv_count; ++c) {
      const ConvLayer& conv = plan.convs[c];
      const auto size = static_cast<size_t>(conv.outputs) * static_cast<size_t>(conv.deep());
      __builtin_memset(work + conv.gradient, 0, size * sizeof(float));
    }
  }

  static void add_gradient(const Plan& plan, const ConvLayer& conv, const In* in, const float* d,
                           int count, float* gradient, float* work) {
    const int windows = count * conv.windows(), depth = padded(windows, kBf16Pad);
    const int deep = conv.deep();
    float* right = work + plan.work_packed_windows;
    in_groups(windows, kBlock, [&](int first, int some) {
      const In* rows = copy_windows(conv, in, first, some, work + plan.work_windows);
      Products::pack_inputs(rows, kBlock, deep, first, depth, right);
    });
    const In* left = turned(d, conv.outputs, windows, conv.outputs, depth, work + plan.work_turned);
    float* sums = work + conv.gradient;
    Products::multiply(left, depth, conv.outputs, {depth, deep, right}, FromRows{sums, deep},
                       IntoRows{sums, deep});
    add_column_sums(d, windows, conv.outputs, gradient + conv.bias);
  }

  static void end_gradient(const Plan& plan, const float* work, float* gradient) {
    for (int c = 0; c < plan.conv_count; ++c) {
      const ConvLayer& conv = plan.convs[c];
      add_turned(work + conv.gradient, conv, gradient + conv.weight);
    }
  }

  static void input_gradient(const Network& net, const ConvLayer& conv, const float* d, int count,
                             float* d_in, float* work) {
    const int windows = count * conv.windows(), wide = conv.wide();
    const long taps = conv.taps();
    __builtin_memset(d_in, 0, static_cast<size_t>(count) * conv.in_size * sizeof(float));
    const In* left =
        rounded(d, conv.outputs, windows, conv.outputs, wide, work + net.plan->work_turned);
    in_groups(windows, kBlock, [&](int first, int some) {
      const auto end = into_picture(conv, first, d_in);
      const auto end_inside = [=](long window, long tap, V sum) FLOTILLA_INLINE_LAMBDA {
        if (tap < taps) end(window, tap, sum);
      };
      Products::multiply(left + static_cast<long>(first) * wide, wide, some,
                         {wide, conv.deep(), net.derived + conv.transposed}, FromZero(),
                         end_inside);
    });
  }

  static void derive(const ConvLayer& conv, bool backwards, const float* params, float* derived) {
    const int deep = conv.deep(), wide = conv.wide();
    float* staged = derived + conv.staged;
    __builtin_memset(staged, 0, static_cast<size_t>(deep) * static_cast<size_t>(wide) * 4);
    for (long tap = 0; tap < conv.taps(); ++tap) {
      const float* weight = params + conv.weight + tap * conv.outputs;
      for (int c = 0; c < conv.outputs; c += kLanes)
        store(staged + tap * wide + c, load(weight + c));
    }
    Products::pack_rows(staged, deep, deep, wide, derived + conv.packed, 0, wide);
    if (backwards) Products::pack(staged, deep, wide, derived + conv.transposed);
  }

 private:
  static constexpr int kBlock = kBf16Pad;  // windows that are copied, or whose sums go on, at once

  // [kBlock][deep()]: windows from `first` on, and zeros behind them.
  static const In* copy_windows(const ConvLayer& conv, const In* in, int first, int count,
                                float* work) {
    constexpr int kStep = sizeof(V) / sizeof(In);
    In* to = (In*)work;
    const int run = conv.kernel * conv.inputs, deep = conv.deep(), taps = conv.taps();
    for (int window = first; window < first + count; ++window, to += deep) {
      const In* line = in + conv.window_at[window];
      In* at = to;
      for (int row = 0; row < conv.kernel; ++row, at += run, line += conv.in_row) {
        // The last vector may go over the end of the run: the next one is written after it.
        for (int i = 0; i < run; i += kStep) {
          store((float*)(at + i), load((const float*)(line + i)));
        }
      }
      for (int k = taps; k < deep; ++k) to[k] = 0;
    }
    __builtin_memset(to, 0, static_cast<size_t>(kBlock - count) * deep * sizeof(In));
    return (const In*)work;
  }

  // to[taps][outputs] += the transpose of sums[outputs][deep()]
  static void add_turned(const float* sums, const ConvLayer& conv, float* to) {
    const long deep = conv.deep();
    for (int c = 0; c < conv.outputs; c += kLanes) {
      for (int k = 0; k < conv.taps(); k += kLanes) {
        V t[kLanes];
        for (int i = 0; i < kLanes; ++i) t[i] = load(sums + (c + i) * deep + k);
        transpose(t);
        for (int i = 0; i < kLanes && k + i < conv.taps(); ++i) {
          float* at = to + static_cast<long>(k + i) * conv.outputs + c;
          store(at, load(at) + t[i]);
        }
      }
    }
  }
};
